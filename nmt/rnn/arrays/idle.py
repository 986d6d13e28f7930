"""Memory that is not in use at the moment, with what is prepared in it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from nmt.system.interruption import forkable

T = TypeVar("T")


class Idle(Generic[T]):
    """A pool for any number of threads: `take` lends an object to one caller alone, until `give`."""

    def __init__(self, make: Callable[[], T], most: int = 1 << 30) -> None:
        """Make an empty pool, which keeps at most `most` objects and calls `make` for what it lacks."""
        self.kept: list[T] = []
        self._make, self._most, self._lock = make, most, forkable(Lock())

    def take(self) -> T:
        """Return the object that was given back last, or a new one."""
        with self._lock:
            if self.kept:
                return self.kept.pop()
        return self._make()

    def give(self, one: T) -> None:
        """Keep an object for the next caller. One that is not given back, as after an error, is forgotten."""
        with self._lock:
            if len(self.kept) < self._most:
                self.kept.append(one)
