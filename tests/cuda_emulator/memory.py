"""Arrays that answer for every index: in bounds, written before, and not raced for."""

from __future__ import annotations

import operator
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
        place = operator.index(index)
        if not 0 <= place < self.count:
            raise EmulationError(f"{self.name}: index {place} of an array of {self.count}")
        return place

    def __getitem__(self, index: Any) -> Any:
        return self.array[self.place(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[self.place(index)] = value


class Shaped(Checked):
    """Memory declared in a kernel, which may have several axes."""

    def __init__(self, shape: Any, dtype: Any, name: str) -> None:
        self.shape = tuple(shape) if isinstance(shape, tuple) else (int(shape),)
        super().__init__(poisoned(int(np.prod(self.shape)), dtype), name)

    def place(self, index: Any) -> int:
        if not isinstance(index, tuple):
            return super().place(index)
        place = 0
        for i, size in zip(index, self.shape, strict=True):
            if not 0 <= operator.index(i) < size:
                raise EmulationError(f"{self.name}: index {index} of an array of {self.shape}")
            place = place * size + operator.index(i)
        return place


class Shared(Shaped):
    """Shared memory of a block, which knows who last wrote and read what, and since which barrier."""

    def __init__(self, shape: Any, dtype: Any, name: str) -> None:
        super().__init__(shape, dtype, name)
        self.writer: list[Any] = [None] * self.count
        self.readers: list[list[Any]] = [[] for _ in range(self.count)]

    def __getitem__(self, index: Any) -> Any:
        place, now = self.place(index), _stamp()
        if self.writer[place] is None:
            raise EmulationError(f"{self.name}: element {place} is read, but nobody has written it")
        self._meet(self.writer[place], now, place, "is read")
        self.readers[place].append(now)
        return self.array[place]

    def __setitem__(self, index: Any, value: Any) -> None:
        place, now = self.place(index), _stamp()
        if self.writer[place] is not None:
            self._meet(self.writer[place], now, place, "is written")
        for reader in self.readers[place]:
            self._meet(reader, now, place, "is written")
        self.writer[place], self.readers[place] = now, []
        self.array[place] = value

    def _meet(self, before: Any, now: Any, place: int, what: str) -> None:
        thread, warp, barriers, warp_barriers = before
        if thread == now[0] or barriers != now[2] or (warp == now[1] and warp_barriers != now[3]):
            return
        raise EmulationError(
            f"{self.name}: element {place} {what} by thread {now[0]}, with no barrier since thread {thread} used it"
        )


def _stamp() -> tuple[int, int, int, int]:
    """The running thread, its warp, and how many barriers of the block and the warp it has passed."""
    thread: Any = getcurrent()
    block = thread.block
    return thread.number, thread.warp, block.barriers, block.warp_barriers[thread.warp]
