"""Threads of a launch, and whose turn it is."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import copy_context
from itertools import product
from math import prod
from types import SimpleNamespace
from typing import Any

from greenlet import getcurrent, greenlet

from tests.cuda_emulator.memory import EmulationError

WARP = 32
Place = tuple[int, int, int]


def xyz(place: Place) -> SimpleNamespace:
    return SimpleNamespace(x=place[0], y=place[1], z=place[2])


class Thread(greenlet):
    """One thread; `payload` is what its warp's last collective operation gave it."""

    def __init__(self, function: Callable[..., None], hub: greenlet, block: Block, number: int, place: Place) -> None:
        super().__init__(function, hub)
        self.gr_context = copy_context()  # NumPy's error state lies there
        self.block, self.number, self.index = block, number, xyz(place)
        self.warp, self.lane = divmod(number, WARP)
        self.shared_arrays, self.started, self.payload = 0, False, None


class Block:
    """Its shared arrays in the order of their declarations, and who waits for whom."""

    def __init__(self, index: Place, threads: int) -> None:
        self.index, self.threads, self.alive = xyz(index), threads, threads
        self.shared: list[Any] = []
        self.waiting: list[Thread] = []
        self.meeting: dict[Any, dict[int, tuple[Thread, Any]]] = {}
        self.barriers = 0
        self.warp_barriers = [0] * -(-threads // WARP)


class Launch:
    """Runs all blocks together if they are cooperative, else a few at a time."""

    def __init__(self, name: str, grid: Place, block: Place, shared_bytes: int, seed: int | None) -> None:
        self.name, self.grid, self.block, self.shared_bytes = name, grid, block, shared_bytes
        self.random = None if seed is None else random.Random(seed)
        self.ready: deque[Thread] = deque()
        self.at_grid: list[Thread] = []
        self.alive = self.spins = 0

    def run(self, function: Callable[..., None], arguments: tuple[Any, ...], cooperative: bool) -> None:
        for group in self._groups(cooperative):
            self.alive = len(group) * prod(self.block)
            for index in group:
                self._start(function, index)
            self._turns(arguments)

    def _groups(self, cooperative: bool) -> Iterator[list[Place]]:
        indices = [(x, y, z) for z, y, x in product(*(range(size) for size in reversed(self.grid)))]
        if cooperative:
            yield indices
        elif self.random is None:
            yield from ([index] for index in indices)
        else:
            self.random.shuffle(indices)
            while indices:
                size = self.random.randint(1, 3)
                yield indices[:size]
                indices = indices[size:]

    def _start(self, function: Callable[..., None], index: Place) -> None:
        block = Block(index, prod(self.block))
        places = product(*(range(size) for size in reversed(self.block)))
        for number, (z, y, x) in enumerate(places):
            self.ready.append(Thread(function, getcurrent(), block, number, (x, y, z)))

    def _turns(self, arguments: tuple[Any, ...]) -> None:
        ready = self.ready
        while ready:
            if self.random is not None:
                ready.rotate(int(self.random.random() * len(ready)))
            thread = ready.popleft()
            if thread.started:
                thread.switch()
            else:
                thread.started = True
                thread.switch(*arguments)
            if thread.dead:
                self._ended(thread)
        if self.alive:
            raise EmulationError(f"{self.name}: {self.alive} threads wait at a barrier that others never reach")

    def _ended(self, thread: Thread) -> None:
        self.spins = 0
        self.alive -= 1
        thread.block.alive -= 1
        self._open_if_all(thread.block)

    def barrier(self) -> None:
        """All threads of the block that still run meet."""
        thread = current()
        block = thread.block
        block.waiting.append(thread)
        self._open_if_all(block)
        park()

    def _open_if_all(self, block: Block) -> None:
        if not block.waiting or len(block.waiting) < block.alive:
            return
        waiting, block.waiting = block.waiting, []
        block.barriers += 1
        self.spins = 0
        self.ready.extend(waiting)

    def grid_barrier(self) -> None:
        thread = current()
        self.at_grid.append(thread)
        if len(self.at_grid) == self.alive:
            for block in {id(t.block): t.block for t in self.at_grid}.values():
                block.barriers += 1
            self.ready.extend(self.at_grid)
            self.at_grid = []
        park()

    def spin(self) -> None:
        """A thread looks again at a word that another is to write."""
        self.spins += 1
        if self.spins > 200 * self.alive + 1000:
            raise EmulationError(f"{self.name}: threads wait for a word that nobody writes")
        self.ready.append(current())
        park()

    def collective(self, operation: str, value: Any, meaning: Callable[[dict], dict], mask: int) -> Any:
        """All lanes named in the mask meet; `meaning` takes their values by lane to their results by lane."""
        thread = current()
        block, key = thread.block, (thread.warp, operation, int(mask))
        here = block.meeting.setdefault(key, {})
        here[thread.lane] = (thread, value)
        present = min(block.threads - WARP * thread.warp, WARP)
        if len(here) == (int(mask) & ((1 << present) - 1)).bit_count():
            del block.meeting[key]
            results = meaning({lane: value for lane, (_, value) in here.items()})
            block.warp_barriers[thread.warp] += 1
            self.spins = 0
            for lane, (other, _) in here.items():
                other.payload = results[lane]
                self.ready.append(other)
        park()
        return thread.payload


def current() -> Thread:
    thread = getcurrent()
    if not isinstance(thread, Thread):
        raise EmulationError("this is a kernel's: call it in a launch")
    return thread


def park() -> None:
    parent = getcurrent().parent
    if parent is not None:
        parent.switch()
