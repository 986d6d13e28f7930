"""Work that Ctrl-C must not interrupt, and locks that a forked child can acquire."""

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

_LEAST_CAPACITY = 64
_capacity = _LEAST_CAPACITY
_locks: dict[int, ref[Any]] = {}
"""Locks by identity. The references have no callbacks, unlike those of a `WeakSet`: an interrupt that arrives during a
callback is lost. Dead references are removed when the table is full."""
_registry_lock: Any = threading.RLock()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay a SIGINT until the block has ended, for work with shared state that cannot be interrupted at every
    instruction, such as compiling with Numba. It does nothing in other threads than the main one, where Python handles
    signals, and if the handler has an attribute `never_raises`, as one that only records the signal."""
    former = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    # Not callable: another thread, a signal that is ignored or has the default action, or a handler not set by Python.
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
    """Return the same lock, registered to be unlocked in a forked child. There, a lock held by another thread of the
    parent would never be released. The data that it protects must be consistent between any two instructions."""
    global _locks, _capacity
    with _registry_lock:
        if len(_locks) >= _capacity:
            _locks = {key: one for key, one in _locks.items() if one() is not None}
            _capacity = 2 * len(_locks) + _LEAST_CAPACITY
        _locks[id(lock)] = ref(lock)
    return lock


def _unlock_all() -> None:
    """Unlock all registered locks in a forked child, as the standard library does with its own."""
    _registry_lock._at_fork_reinit()
    for one in list(_locks.values()):
        if (lock := one()) is not None:
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_all)
