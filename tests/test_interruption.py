"""Locks that a forked child may take: noted without a trace on them, and forgotten with them."""

import os
from threading import Event, Lock, RLock, Thread
from weakref import getweakrefs

import pytest

from nmt.system import interruption
from nmt.system.interruption import forkable


@pytest.mark.parametrize("make", [Lock, RLock])
def test_no_code_runs_when_a_lock_dies(make):
    """An interruption that comes while a callback runs would be lost."""
    lock = forkable(make())
    noted = getweakrefs(lock)
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
