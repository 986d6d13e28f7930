"""What is freed is the system's again: one heap for all threads, and large blocks mapped by themselves."""

import os
import subprocess
import sys
from threading import Event, Lock, RLock, Thread
from weakref import getweakrefs

import pytest
from click.testing import CliRunner

from nmt.cli.front import load_command
from nmt.system import interruption
from nmt.system.interruption import forkable

_PROGRAM = """
import ctypes, sys, threading
from nmt.system.heap import keep_little

if sys.argv[1] == "little":
    keep_little()
held, all_there = [], threading.Barrier(4)

def hold():
    all_there.wait()
    held.append([bytearray(3000) for _ in range(2000)])

threads = [threading.Thread(target=hold) for _ in range(4)]
for one in threads:
    one.start()
for one in threads:
    one.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
libc.fclose.argtypes = [ctypes.c_void_p]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
stream = libc.fopen(sys.argv[2].encode(), b"w")
libc.malloc_info(0, stream)
libc.fclose(stream)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the allocator of glibc")
@pytest.mark.parametrize("way", ["little", "usual"])
def test_threads_share_a_heap(tmp_path, way):
    out = tmp_path / "heaps"
    subprocess.run([sys.executable, "-c", _PROGRAM, way, str(out)], check=True)
    heaps = out.read_text().count("<heap nr=")
    if not heaps:
        pytest.skip("another C library")
    assert (heaps == 1) == (way == "little")


_BLOCKS = """
import sys
import psutil
from nmt.system.heap import keep_little

if sys.argv[1] == "little":
    keep_little()
del (first := [bytearray(30_000_000)])[0]  # by its own rules the library now takes what is smaller from the heap
before, pins = psutil.Process().memory_info().rss, []
for _ in range(10):
    block = bytearray(20_000_000)
    pins.append([bytes(5000) for _ in range(20)])  # what lives on above it
    del block
    pins.append(bytearray(18_000_000))
    pins[-1] = None
blocks = []
for _ in range(10):
    blocks.append(bytearray(10_000_000))
    pins.append([bytes(5000) for _ in range(20)])
del blocks
print(psutil.Process().memory_info().rss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the allocator of glibc")
@pytest.mark.parametrize("way", ["little", "usual"])
def test_freed_blocks_go_back_to_the_system(way):
    done = subprocess.run([sys.executable, "-c", _BLOCKS, way], check=True, capture_output=True, text=True)
    assert (int(done.stdout) < 20_000_000) == (way == "little")


def test_a_training_keeps_little(monkeypatch):
    called = []
    monkeypatch.setattr("nmt.system.heap.keep_little", lambda: called.append(True))
    CliRunner().invoke(load_command("train"), ["configs/quickstart.yaml", "--show-config"], catch_exceptions=False)
    assert called


@pytest.mark.parametrize("make", [Lock, RLock])
def test_no_code_runs_when_a_lock_dies(make):
    """An interruption that comes while a callback runs would be lost."""
    noted = getweakrefs(forkable(make()))
    assert noted and all(one.__callback__ is None for one in noted)


def test_what_is_gone_is_forgotten():
    kept = [forkable(Lock()) for _ in range(10)]
    others = []
    for _ in range(50):
        held = [forkable(Lock()) for _ in range(1000)]
        noted = {id(one()) for one in interruption._locks.values() if one() is not None}
        assert {id(lock) for lock in kept + held} <= noted
        del held
        others += [Lock() for _ in range(1000)]  # in the places that have become free: the next ones get new places
    assert len(interruption._locks) < 10_000


def test_a_child_finds_the_lock_open_that_another_thread_held():
    lock, holds, done = forkable(Lock()), Event(), Event()

    def hold():
        with lock:
            holds.set()
            done.wait()

    thread = Thread(target=hold)
    thread.start()
    holds.wait()
    child = os.fork()
    if not child:
        os._exit(0 if lock.acquire(timeout=5) else 1)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
