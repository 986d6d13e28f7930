"""Arrays that answer for every index: in bounds, written before, and not raced for."""

from __future__ import annotations

from operator import index as as_integer
from typing import Any

import numpy as np
from greenlet import getcurrent


class EmulationError(AssertionError):
    """A kernel did what it must not."""


def poisoned(count: int, dtype: Any) -> np.ndarray:
    """What nobody has written: NaN, or the largest number."""
    return np.frombuffer(b"\xff" * (count * np.dtype(dtype).itemsize), dtype).copy()


class Checked:
    """A flat array that kernels index; its length is all they could ask for, and they must not."""

    def __init__(self, array: np.ndarray, name: str) -> None:
        self.array, self.name, self.count = array, name, array.size

    def place(self, index: Any) -> int:
        """The index, if it is one."""
        place = as_integer(index)
        if 0 <= place < self.count:
            return place
        raise EmulationError(f"{self.name}: index {place} of an array of {self.count}")

    # Kernels do little else, a million times in a test: these two do what `place` does without calling it.
    def __getitem__(self, index: Any) -> Any:
        place = as_integer(index)
        return self.array[place if 0 <= place < self.count else self.place(place)]

    def __setitem__(self, index: Any, value: Any) -> None:
        place = as_integer(index)
        self.array[place if 0 <= place < self.count else self.place(place)] = value


class Shaped(Checked):
    """Memory declared in a kernel, which may have several axes."""

    def __init__(self, shape: Any, dtype: Any, name: str) -> None:
        self.shape = tuple(shape) if isinstance(shape, tuple) else (int(shape),)
        super().__init__(poisoned(int(np.prod(self.shape)), dtype), name)

    def place(self, index: Any) -> int:
        if type(index) is not tuple:
            return super().place(index)
        place = 0
        for i, size in zip(index, self.shape, strict=True):
            if not 0 <= as_integer(i) < size:
                raise EmulationError(f"{self.name}: index {index} of an array of {self.shape}")
            place = place * size + as_integer(i)
        return place

    def __getitem__(self, index: Any) -> Any:
        place = as_integer(index) if type(index) is not tuple else self.place(index)
        return self.array[place if 0 <= place < self.count else self.place(place)]

    def __setitem__(self, index: Any, value: Any) -> None:
        place = as_integer(index) if type(index) is not tuple else self.place(index)
        self.array[place if 0 <= place < self.count else self.place(place)] = value


class Shared(Shaped):
    """Shared memory of a block, which knows who last wrote and read what, and since which barrier."""

    def __init__(self, shape: Any, dtype: Any, name: str) -> None:
        super().__init__(shape, dtype, name)
        self.writer: list[Any] = [None] * self.count
        self.readers: list[list[Any]] = [[] for _ in range(self.count)]

    def __getitem__(self, index: Any) -> Any:
        place, now = self.place(index), _stamp()
        writer = self.writer[place]
        if writer is None:
            raise EmulationError(f"{self.name}: element {place} is read, but nobody has written it")
        if writer[0] != now[0] and writer[2] == now[2]:
            self._meet(writer, now, place, "is read")
        self.readers[place].append(now)
        return self.array[place]

    def __setitem__(self, index: Any, value: Any) -> None:
        place, now = self.place(index), _stamp()
        thread, _, barriers, _ = now
        writer = self.writer[place]
        if writer is not None and writer[0] != thread and writer[2] == barriers:
            self._meet(writer, now, place, "is written")
        for reader in self.readers[place]:
            if reader[0] != thread and reader[2] == barriers:
                self._meet(reader, now, place, "is written")
        self.writer[place], self.readers[place] = now, []
        self.array[place] = value

    def _meet(self, before: Any, now: Any, place: int, what: str) -> None:
        """Two threads use an element with no barrier of the block between: they must be of one warp, and that must
        have had one."""
        thread, warp, _, warp_barriers = before
        if warp != now[1] or warp_barriers == now[3]:
            raise EmulationError(
                f"{self.name}: element {place} {what} by thread {now[0]}, with no barrier since thread {thread} used it"
            )


def _stamp() -> tuple[int, int, int, int]:
    """The running thread, its warp, and how many barriers of the block and the warp it has passed."""
    thread: Any = getcurrent()
    block = thread.block
    return thread.number, thread.warp, block.barriers, block.warp_barriers[thread.warp]
