"""What another process compiles for this one."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nmt.rnn.kernels import ahead, products
from nmt.rnn.kernels.store import Store

ROOT = Path(__file__).resolve().parents[3]
F4 = np.dtype("f4")

BEGIN = """
import sys
import numpy as np
from nmt.rnn.kernels import ahead, native
from nmt.rnn.kernels.products import _product_task
F4, compiled = np.dtype("f4"), []
compile_it = native.Native._compile
native.Native._compile = lambda self: (compiled.append(self.function.__name__), compile_it(self))[1]
ahead.default_threads = lambda: 2
wanted = [(_product_task, (F4, F4))]
"""
USE = """
ahead.compile_ahead(wanted)
ahead.compile_ahead(wanted)
processes = len(set(map(id, ahead._begun.values())))
assert _product_task(F4, F4).address > 0
print(processes, *compiled)
"""


def run(code, cache, folder=ROOT):
    """What a process prints."""
    environment = {**os.environ, "NMT_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_what_another_process_compiles_is_not_compiled_here(tmp_path):
    """Once it is in the store no process is begun for it."""
    assert run(BEGIN + USE, tmp_path) == ["1"]
    assert run(BEGIN + USE, tmp_path) == ["0"]


def test_nothing_in_the_working_folder_is_run(tmp_path):
    (tmp_path / "here").mkdir()
    for name in ("numba", "numpy", "json", "sitecustomize"):
        (tmp_path / "here" / f"{name}.py").write_text(f"open({str(tmp_path / name)!r}, 'w').close()\n")
    assert run(BEGIN + USE, tmp_path / "cache", tmp_path / "here") == ["1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "here"]


@pytest.mark.skipif(os.name != "posix", reason="a program that fails")
def test_where_such_a_process_fails_this_one_compiles(tmp_path):
    (tmp_path / "python").symlink_to("/bin/false")
    other = f"sys.executable = {str(tmp_path / 'python')!r}\n"
    assert run(BEGIN + other + USE, tmp_path / "cache")[:2] == ["1", "product_of_table"]


@pytest.mark.parametrize("executable", ["", "missing/python", "/bin/sh"])
def test_where_there_is_no_interpreter_this_one_compiles(tmp_path, executable, monkeypatch):
    monkeypatch.setattr(ahead, "store", lambda: Store(tmp_path))
    monkeypatch.setattr(ahead, "default_threads", lambda: 2)
    monkeypatch.setattr(ahead, "_is_there", lambda native: False)
    monkeypatch.setattr(sys, "executable", executable)
    before = dict(ahead._begun)
    ahead.compile_ahead([(products._product_task, (F4, F4))])
    assert ahead._begun == before


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("folder", ["here", None])
def test_no_process_without_a_store_and_a_second_core(tmp_path, threads, folder, monkeypatch):
    begun = []
    monkeypatch.setattr(ahead, "store", lambda: Store(tmp_path if folder else None))
    monkeypatch.setattr(ahead, "default_threads", lambda: threads)
    monkeypatch.setattr(ahead, "_is_there", lambda native: False)
    monkeypatch.setattr(ahead, "_begun", {})
    monkeypatch.setattr(ahead.subprocess, "Popen", lambda *args, **options: begun.append(args))
    ahead.compile_ahead([(products._product_task, (F4, F4))])
    assert bool(begun) == (threads == 2 and folder is not None)
