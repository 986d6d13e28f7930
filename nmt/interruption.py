"""Work that Ctrl-C must not cut in two, and locks that a forked child may take."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar
from weakref import WeakSet

_Lock = TypeVar("_Lock")
_locks: WeakSet[Any] = WeakSet()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let a SIGINT take effect only when the block has ended.

    For work that shares state with later calls and is not ours to make safe at every instruction, such as compiling
    with Numba. Python runs signal handlers in the main thread alone; elsewhere the block is an ordinary one. So it is
    where the handler has an attribute `never_raises`: it ends the process, or takes a note.
    """
    former = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    # Not callable: another thread; ignored or left to the system; set by code that is not Python.
    if not callable(former) or getattr(former, "never_raises", False):
        yield
        return
    came: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: came.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
        if came:
            former(signal.SIGINT, came[-1])


def forkable(lock: _Lock) -> _Lock:
    """The same lock, open in a forked child even where another thread of the parent held it: that thread is not in the
    child, and would never open it. What the lock guards must be whole between any two instructions."""
    _locks.add(lock)
    return lock


def _open_locks() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()  # as the standard library does for its own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_locks)
