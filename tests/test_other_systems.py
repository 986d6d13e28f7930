"""Without what Linux alone has, a model is trained, translated with and quantised as with it; what needs it says so.

No other system is at hand: what macOS or Windows lacks is taken from Python here. docs/windows.md says what that shows.
"""

import errno
import fcntl
import io
import os
import sys
import types
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from nmt.cli.lines import streams
from nmt.config import load_config
from nmt.errors import CheckpointError, ConfigError, DeviceError, PathError
from nmt.rnn.kernels.machine_code import features
from nmt.system import files, paths
from nmt.train.tasks import prepare
from tests.processes import python
from tests.refusals import refused

TAKE_AWAY = """
import builtins, ctypes, io, os, signal, sys
import psutil
for name in ("fork", "register_at_fork", "sched_getaffinity", "sched_setaffinity", "getuid", "geteuid", "chown",
             "sysconf", "pipe2", "nice", "pread"):
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
import nmt.train.log.progress as memory
memory.sys = type("sys", (), {"platform": "win32"})
"""
WORK = """
import sys
from pathlib import Path
from nmt.precompile.jobs import run_job, standard_jobs
run_job(next(standard_jobs()), Path(sys.argv[1]), 1)
"""
NARROW = """
import sys
import numpy as np
def narrowed(make):
    def made(*given, **named):
        found = make(*given, **named)
        kinds = [one for one in (*given[1:], named.get("dtype")) if isinstance(one, (type, np.dtype, str))]
        is_ours = sys._getframe(1).f_globals.get("__name__", "").startswith("nmt.")
        is_long = not kinds and getattr((*given, 0)[0], "dtype", None) == np.int64
        is_bare = not kinds or any(one is int for one in kinds)
        return found.astype(np.int32) if is_ours and is_bare and not is_long and found.dtype == np.int64 else found
    return made
for name in ("arange", "array", "asarray", "full", "zeros", "ones", "cumsum", "sum"):
    setattr(np, name, narrowed(getattr(np, name)))
"""


def trained(folder, code):
    """The arrays of the model that the work leaves, and of its quantised form."""
    folder.mkdir()
    python(code, folder)
    models = [load_file(folder / name / "best.safetensors") for name in ("model", "int8")]
    return [{name: (one.dtype, one.tobytes()) for name, one in arrays.items()} for arrays in models]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("systems") / "here", WORK)


def test_a_model_is_trained_without_what_linux_has(tmp_path, here):
    assert trained(tmp_path / "there", TAKE_AWAY + WORK) == here


def test_integers_of_compiled_code_have_a_type_of_their_own(tmp_path, here):
    """Where an int of NumPy has 32 bits, as that of NumPy 1 on Windows, compiled code reads what it reads here."""
    assert trained(tmp_path / "there", NARROW + WORK) == here


def test_windows_flushes_files_and_no_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ON_WINDOWS", True)
    opened = []
    open_ = files.os.open
    monkeypatch.setattr(files.os, "open", lambda path, *given: opened.append(Path(path)) or open_(path, *given))
    files.write_bytes(tmp_path / "a", b"text", sync=True)
    assert (tmp_path / "a").read_bytes() == b"text"
    assert opened
    assert not any(path.is_dir() for path in opened)


@pytest.mark.parametrize(
    "name", ["con", "a/AUX.de", "out:de", "what?", "dot.", "nul.txt", "COM1", "n" * 300, "y/" * 3000]
)
def test_names_that_windows_cannot_hold_are_refused(name, monkeypatch):
    monkeypatch.setattr(paths, "ON_WINDOWS", True)
    refused(PathError, "must be a path", paths.check_output, name)
    for good in ("nul", "console", "..", *((os.devnull, "console.de", "./a b.de", "C:") if os.name == "nt" else ())):
        paths.look(Path(good))


def test_a_folder_in_place_of_a_file_is_called_one_on_windows(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "ON_WINDOWS", True)
    assert files.explain(PermissionError(errno.EACCES, "Permission denied", str(tmp_path))) == "a folder"
    assert files.explain(PermissionError(errno.EACCES, "Permission denied", "x")) == "permission denied"
    held = PermissionError(errno.EACCES, "Permission denied", __file__)
    assert files.explain(held) == "permission denied, or another program has it open"


def test_a_path_in_double_quotes_is_told_how_to_write_it(tmp_path):
    (tmp_path / "c.yaml").write_text(r'model_dir: "C:\care"')
    with pytest.raises(ConfigError, match=r"unknown escape character 'c'; within .* write paths in single quotes"):
        load_config(tmp_path / "c.yaml")


@pytest.fixture
def on_windows(monkeypatch):
    """Windows' way to lock and to rename, by what Linux has."""
    monkeypatch.setattr(files, "ON_WINDOWS", True)

    def locking(handle, mode, count):
        assert (mode, count) == (2, 1) and os.lseek(handle, 0, os.SEEK_CUR) > 2**30
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    monkeypatch.setitem(sys.modules, "msvcrt", types.SimpleNamespace(LK_NBLCK=2, locking=locking))


def test_a_folder_of_a_run_is_locked_by_a_file_on_windows(tmp_path, on_windows):
    with prepare.own_folder(tmp_path / "run"):
        assert [one.name for one in (tmp_path / "run").iterdir()] == [".lock"]
        with pytest.raises(CheckpointError, match="must not be in use"), prepare.own_folder(tmp_path / "run"):
            pass
    with prepare.own_folder(tmp_path / "run"), files.new_folder(tmp_path / "made"):
        pass
    with open(tmp_path / "text", "w+b") as stream:
        stream.write(b"abc")
        stream.flush()
        assert files.lock_alone(stream.fileno()) and stream.tell() == 3


def test_a_file_that_another_program_holds_for_a_moment_is_replaced_on_windows(tmp_path, on_windows, monkeypatch):
    held, waits, replace = [True, True], [], os.replace

    def replaced(*names):
        if held:
            raise PermissionError(errno.EACCES, "held")
        replace(*names)

    monkeypatch.setattr(files.os, "replace", replaced)
    monkeypatch.setattr(files.time, "sleep", lambda seconds: (waits.append(seconds), held.pop()))
    files.write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new" and len(waits) == 2
    held += [True] * 99
    monkeypatch.setattr(files.time, "sleep", waits.append)
    refused(PermissionError, "", files.write_bytes, tmp_path / "a", b"newer")
    assert [one.name for one in tmp_path.iterdir()] == ["a"] and 5 < sum(waits) < 20


@pytest.mark.parametrize(
    ("has", "level"), [([], "neon"), (["DotProd"], "neon_dotprod"), (["DotProd", "BF16"], "neon_bf16")]
)
def test_macos_says_what_a_processor_of_apple_has(has, level, monkeypatch):
    def sysctlbyname(name, value, size, new, length):
        value._obj.value = there = name.decode().removeprefix("hw.optional.arm.FEAT_") in has
        return -1 if not there and "BF16" in name.decode() else 0  # macOS 11 has no such name

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(features.ctypes, "CDLL", lambda _: types.SimpleNamespace(sysctlbyname=sysctlbyname))
    assert features._of_arm().name == level


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_the_server_serves_others_on_linux_alone(system, monkeypatch):
    server = pytest.importorskip("nmt.serve.server", reason="needs the extra [serve]")
    monkeypatch.setattr(server, "sys", types.SimpleNamespace(platform=system))
    with pytest.raises(DeviceError, match=f"must be an address of this machine alone on {system}, .*got 0.0.0.0"):
        server.listen_on("0.0.0.0", 0)
    server.listen_on("localhost", 0).close()


def test_the_studio_reads_a_file_where_memory_cannot_be_limited(monkeypatch):
    """macOS refuses a limit of address space below what a process has mapped at its start, which is most of it."""
    reading = pytest.importorskip("nmt.studio.reading", reason="needs the extra [studio]")
    limits, answered = types.SimpleNamespace(RLIMIT_AS=5, setrlimit=lambda *_: int("no number: a ValueError")), []
    monkeypatch.setitem(sys.modules, "resource", limits)
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(b'{"memory": 1}')))
    monkeypatch.setattr(reading, "answer", answered.append)
    reading.main()
    assert answered == [{"memory": 1}]


def test_the_server_asks_macos_for_no_more_open_files_than_every_mac_has(monkeypatch):
    protocol = pytest.importorskip("nmt.serve.http_protocol", reason="needs the extra [serve]")
    forever, asked = 2**63 - 1, []
    limits = {"RLIM_INFINITY": forever, "RLIMIT_NOFILE": 8, "getrlimit": lambda _: (256, forever)}
    monkeypatch.setitem(sys.modules, "resource", types.SimpleNamespace(**limits, setrlimit=lambda *a: asked.append(a)))
    monkeypatch.setattr(protocol, "_connections", types.SimpleNamespace())
    protocol.bound_connections()
    assert asked == [(8, (10_240, forever))]


def test_a_reader_that_has_gone_has_another_number_on_windows(monkeypatch):
    monkeypatch.setattr(streams, "sys", types.SimpleNamespace(platform="win32", stdout=io.BytesIO()))
    with pytest.raises(BrokenPipeError), streams.write_errors(streams.STDOUT_NAME):
        raise OSError(errno.EINVAL, "Invalid argument")
