"""What another process compiles for this one."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nmt.rnn.kernels.machine_code import ahead
from nmt.rnn.kernels.machine_code.store import Store
from nmt.rnn.kernels.products import product as products

ROOT = Path(__file__).resolve().parents[3]
F4 = np.dtype("f4")

# This process compiles one function when the other one has been asked for a second.
BEGIN = """
import time
import numpy as np
from nmt.rnn.kernels.machine_code import ahead
from nmt.rnn.kernels.memory import compiling, copies
from nmt.rnn.kernels.model import update
from nmt.rnn.kernels.products.product import product_task
F4, compiled = np.dtype("f4"), []
compile_it = compiling.compile_native
compiling.compile_native = lambda native: (compiled.append(native.function.__name__), compile_it(native))[1]
ahead.default_threads = lambda: 2
norm = update.square_norm.native(("float32 1", "float64 1"))
other = lambda: copies.clear_all.native(("float32 1",))
"""
USE = """
for _ in range(2):
    ahead.offer(lambda: [other()])
assert norm.address > 0
until = time.monotonic() + 60
while ahead._others and not ahead._others[0].begun and time.monotonic() < until:
    time.sleep(0.01)
assert other().address > 0
print(len(ahead._others), *compiled)
"""


def run(code, cache, folder=ROOT, **environment):
    """What a process prints."""
    given = {**os.environ, "NMT_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT), "NMT_COMPILE_AHEAD": "1"} | environment
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=given, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_what_another_process_compiles_is_not_compiled_here(tmp_path):
    """Once all is in the store no process is begun."""
    assert run(BEGIN + USE, tmp_path) == ["1", "square_norm"]
    assert run(BEGIN + USE, tmp_path) == ["0"]


def test_what_the_other_has_not_begun_with_is_compiled_here(tmp_path):
    """It is busy with something long: there is no waiting for what comes after that."""
    use = """
ahead.offer(lambda: [update.dropout_mask.native(("float32 1", "float64", "uint64", "uint64")), product_task(F4, F4)])
assert norm.address > 0
other = ahead._others[0]
while not other.begun:
    time.sleep(0.001)
mask = update.dropout_mask.native(("float32 1", "float64", "uint64", "uint64"))
assert mask.address > 0
print(*compiled)
"""
    assert run(BEGIN + use, tmp_path) == ["square_norm", "dropout_mask"]


def test_it_can_be_forbidden(tmp_path):
    found = run(BEGIN + USE, tmp_path, NMT_COMPILE_AHEAD="0")
    assert found[:2] == ["0", "square_norm"]
    assert "clear_all" in found


def test_nothing_in_the_working_folder_is_run(tmp_path):
    (tmp_path / "here").mkdir()
    for name in ("numba", "numpy", "json", "sitecustomize"):
        (tmp_path / "here" / f"{name}.py").write_text(f"open({str(tmp_path / name)!r}, 'w').close()\n")
    assert run(BEGIN + USE, tmp_path / "cache", tmp_path / "here") == ["1", "square_norm"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "here"]


@pytest.mark.skipif(os.name != "posix", reason="a program that fails")
def test_where_such_a_process_fails_this_one_compiles(tmp_path):
    (tmp_path / "python").symlink_to("/bin/false")
    other = f"import sys; sys.executable = {str(tmp_path / 'python')!r}\n"
    use = USE.replace("not ahead._others[0].begun", "ahead._others[0].process.poll() is None")
    found = run(BEGIN + other + use, tmp_path / "cache")
    assert found[:2] == ["1", "square_norm"]
    assert "clear_all" in found


def test_where_such_a_process_hangs_this_one_compiles(tmp_path):
    """It says that it has begun, and nothing more."""
    hang = """
ahead._FIRST = "import json, sys; sys.stdin.readline(); [print(json.loads(line)[0], flush=True) for line in sys.stdin]"
ahead.MOST_SECONDS = 0.2
"""
    gone = "other = ahead._others[0]; print(other.process.poll() is not None)"
    code = BEGIN + hang + USE.replace("+ 60", "+ 20") + gone
    given = {**os.environ, "NMT_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT), "NMT_COMPILE_AHEAD": "1"}
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, env=given, timeout=50)
    assert done.stdout.split() == ["1", "square_norm", "clear_all", "True"], done.stderr


@pytest.mark.parametrize("executable", ["", "missing/python", "/bin/sh"])
def test_where_there_is_no_interpreter_this_one_compiles(tmp_path, executable):
    other = f"import sys; sys.executable = {executable!r}\n"
    found = run(BEGIN + other + USE, tmp_path / "cache")
    assert found[:2] == ["0", "square_norm"]
    assert "clear_all" in found


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("folder", ["here", None])
def test_no_process_without_a_store_and_a_second_core(tmp_path, threads, folder, monkeypatch):
    monkeypatch.setattr(ahead, "store", lambda: Store(tmp_path if folder else None))
    monkeypatch.setattr(ahead, "default_threads", lambda: threads)
    monkeypatch.setenv("NMT_COMPILE_AHEAD", "1")
    assert ahead._can_begin() == (threads == 2 and folder is not None)


def test_offers_that_nobody_needs_are_few(monkeypatch):
    """A process that has all compiled makes one for each search."""
    for _ in range(1000):
        ahead.offer(lambda: [products.product_task(F4, F4)])
    assert len(ahead._offers) < 100
    ahead._offers.clear()


def test_the_other_process_ends_when_it_has_nothing_to_do_and_begins_again(tmp_path):
    """It kept 180 MB until the end."""
    use = """
import resource
ahead._IDLE_SECONDS = 0.2
ahead.offer(lambda: [other()])
assert norm.address > 0
first = ahead._others[0].process
first.wait(60)
state = [first.returncode, ahead._others[0].process is first]
ahead.offer(lambda: [copies.clear_all.native(("float64 1",))])
assert update.dropout_mask.native(("float32 1", "float64", "uint64", "uint64")).address > 0
print(*state, ahead._others[0].process is first)
"""
    assert run(BEGIN + use, tmp_path) == ["0", "True", "False"]
