"""Memory for a run's arrays: new for each, pieces of a workspace that is reused, side by side, or idle between runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from nmt.rnn import tuning
from nmt.system.interruption import forkable

LINE_BYTES = 64


def aligned(shape: tuple[int, ...], dtype: Any, *, zeros: bool = False) -> np.ndarray:
    """Return an array at a multiple of LINE_BYTES, which NumPy does not guarantee; uninitialised, or zero."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = (np.zeros if zeros else np.empty)(size + LINE_BYTES, np.uint8)
    start = -memory.ctypes.data % LINE_BYTES
    return memory[start : start + size].view(dtype).reshape(shape)


def zeros_of(xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return zeros; on the processor they begin on a cache line, which NumPy does not guarantee."""
    return aligned(shape, dtype, zeros=True) if xp is np else xp.zeros(shape, dtype)


class Allocate(Protocol):
    """The source of a run's arrays: a `Workspace`, or `Fresh` memory."""

    def __call__(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array of finite numbers."""

    def temporary(self) -> AbstractContextManager[None]:
        """Return a context; arrays allocated inside must not be used after it ends."""


class Fresh:
    """Allocates separate zeroed memory for every array; freed when there is no reference to the array."""

    def __init__(self, xp: Any = np) -> None:
        self._xp = xp

    def __call__(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array of zeros."""
        return zeros_of(self._xp, shape, dtype)

    def temporary(self) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return nullcontext()


class Workspace:
    """Memory for one training step, handed out piece by piece and freed all at once by `reset`, or by the end of a
    `temporary` block; grows to the largest step seen."""

    def __init__(self, xp: Any = np, first: int = tuning.CHUNK_BYTES) -> None:
        """Allocate on the device with this `xp`; first: bytes of the first chunk, each later one doubles the total."""
        self._xp, self._first = xp, first
        self.chunks: list[Any] = []
        """All memory that is allocated."""
        self._pieces: dict[tuple[Any, ...], Any] = {}  # of a GPU, where making one takes longer than to find it
        self._at = 0  # the current chunk
        self._used = 0  # bytes of it
        self._held = 0  # bytes in use
        self._most = 0  # the most there were since the last reset, before the last temporary block ended

    def __call__(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array of stale but finite numbers."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        step = -(-size // LINE_BYTES) * LINE_BYTES
        while self._at < len(self.chunks) and self._used + step > self.chunks[self._at].size:
            self._at, self._used = self._at + 1, 0
        if self._at == len(self.chunks):
            found = max(step, min(max(self._first, self.nbytes), tuning.CHUNK_BYTES))
            self.chunks.append(zeros_of(self._xp, (found,), np.uint8))
        chunk, start = self.chunks[self._at], self._used
        self._used += step
        self._held += step
        if self._xp is np:
            return np.ndarray(shape, dtype, chunk, start)
        key = self._at, start, shape, dtype
        if key not in self._pieces:
            if len(self._pieces) == tuning.KEPT_PIECES:
                self._pieces.clear()
            self._pieces[key] = chunk[start : start + size].view(dtype).reshape(shape)
        return self._pieces[key]

    @contextmanager
    def temporary(self) -> Iterator[None]:
        """Free at the end of the block what was allocated inside it."""
        before = self._at, self._used, self._held
        yield
        self._most = self.taken
        self._at, self._used, self._held = before

    @property
    def taken(self) -> int:
        """Return the most bytes that were in use at one time since the last reset."""
        return max(self._most, self._held)

    @property
    def nbytes(self) -> int:
        """Return the bytes allocated, in use or not."""
        return sum(chunk.size for chunk in self.chunks)

    def release(self) -> None:
        """Free all memory; the next request allocates again. Arrays handed out before stay valid."""
        self.chunks = []
        self._pieces.clear()
        self._at = self._used = self._held = self._most = 0

    def reset(self) -> None:
        """Free all pieces for reuse. Arrays handed out before must not be used any more."""
        if len(self.chunks) > 1:
            self.chunks = [zeros_of(self._xp, (self.taken * 5 // 4,), np.uint8)]
            self._pieces.clear()
        self._at = self._used = self._held = self._most = 0


class Group(dict[str, Any]):
    """Arrays by name. `whole` is one flat array that contains all of them in order, with zeros between them, so that
    one call can process all; None if there is none, or the group is a part of another. Groups of the same shapes on one
    device have the same layout."""

    def __init__(self, arrays: Iterable[tuple[str, Any]], whole: Any = None) -> None:
        super().__init__(arrays)
        self.whole = whole
        self._views: dict[str, Group] = {}

    def view(self, prefix: str) -> Group:
        """Return the arrays below `prefix.`, named without it; they share memory."""
        if prefix not in self._views:
            start = f"{prefix}."
            below = ((name[len(start) :], array) for name, array in self.items() if name.startswith(start))
            self._views[prefix] = Group(below)
        return self._views[prefix]


def whole_of(arrays: dict[str, Any]) -> Any:
    """Return the array that contains all of them, or None."""
    return arrays.whole if isinstance(arrays, Group) else None


def pieces_of(arrays: dict[str, Any]) -> list[Any]:
    """Return that array alone, or all of them."""
    whole = whole_of(arrays)
    return list(arrays.values()) if whole is None else [whole]


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
