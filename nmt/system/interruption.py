"""Work that Ctrl-C must not cut in two, and locks that a forked child may take."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar
from weakref import ref

_Lock = TypeVar("_Lock")

_LEAST_ROOM = 64
_room = _LEAST_ROOM
_locks: dict[int, ref[Any]] = {}
"""By identity. The references have no callbacks, as those of a `WeakSet` have: an interruption that comes while one
runs is lost. What is gone is left out when there is no room for more."""
_noting: Any = threading.RLock()


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
    """Return the same lock, open in a forked child even where another thread of the parent held it: that thread is not
    in the child, and would never open it. What the lock guards must be whole between any two instructions."""
    global _locks, _room
    with _noting:
        if len(_locks) >= _room:
            _locks = {key: one for key, one in _locks.items() if one() is not None}
            _room = 2 * len(_locks) + _LEAST_ROOM
        _locks[id(lock)] = ref(lock)
    return lock


def _open_locks() -> None:
    """Open all locks that are noted, as the standard library opens its own, in a child that was just forked."""
    _noting._at_fork_reinit()
    for one in list(_locks.values()):
        if (lock := one()) is not None:
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_locks)
