"""Without what Linux alone has, a model is trained, translated with and quantised as with it; what needs it says so.

No other system is at hand: what macOS or Windows lacks is taken from Python here. docs/faq.md says what that shows.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file

from nmt.cli.commands import serve
from nmt.system import files

ROOT = Path(__file__).resolve().parents[1]
TAKE_AWAY = """
import builtins, ctypes, io, os, signal, sys
import psutil
for name in ("fork", "register_at_fork", "sched_getaffinity", "sched_setaffinity", "getuid", "geteuid", "chown",
             "sysconf", "pipe2", "nice"):
    delattr(os, name)
del signal.SIGHUP
import_, open_ = builtins.__import__, io.open
def asks():
    return sys._getframe(2).f_globals.get("__name__", "").startswith(("nmt.", "pathlib"))
def imported(name, *given, **named):
    if name in ("fcntl", "resource", "termios", "pwd", "grp") and asks():
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return import_(name, *given, **named)
def opened(path, *given, **named):
    if str(path).startswith(("/proc/", "/sys/")) and asks():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    return open_(path, *given, **named)
builtins.__import__, builtins.open, io.open = imported, opened, opened
usage = psutil.Process().memory_info()
psutil.Process.memory_info = lambda self: type("pmem", (), {"rss": usage.rss, "peak_wset": usage.rss})
from nmt.train.log import memory
memory.sys = type("sys", (), {"platform": "win32"})
"""
WORK = """
import sys
from pathlib import Path
from nmt.precompile.jobs import run_job, standard_jobs
run_job(next(standard_jobs()), Path(sys.argv[1]), 1)
"""


def trained(folder, code):
    """The arrays of the model that the work leaves, and of its quantised form."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    models = [load_file(folder / name / "best.safetensors") for name in ("model", "int8")]
    return [{name: (one.dtype, one.tobytes()) for name, one in arrays.items()} for arrays in models]


def test_a_model_is_trained_without_what_linux_has(tmp_path):
    assert trained(tmp_path / "there", TAKE_AWAY + WORK) == trained(tmp_path / "here", WORK)


def test_windows_flushes_files_and_no_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_ON_WINDOWS", True)
    opened = []
    open_ = files.os.open
    monkeypatch.setattr(files.os, "open", lambda path, *given: opened.append(Path(path)) or open_(path, *given))
    files.write_bytes(tmp_path / "a", b"text", sync=True)
    assert (tmp_path / "a").read_bytes() == b"text"
    assert opened
    assert not any(path.is_dir() for path in opened)


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_the_server_says_that_it_needs_linux(system, monkeypatch):
    monkeypatch.setattr(serve.sys, "platform", system)
    done = CliRunner().invoke(serve.serve, ["model"])
    assert done.exit_code != 0
    assert f"nmt-serve: must run on Linux, whose kernel ends requests that take too much, got {system}" in done.output
