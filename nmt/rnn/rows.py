"""The rows of one run: the length of each, what it reads, the blocks of time that the run is divided into, and its
division between threads.

Each thread computes its own rows of the batch, or its own hidden units, which are columns of the products (work on rows
is divided by rows in both cases). The choice affects only speed: the results are bit-identical. Limits are in
tuning.py, measured by 12995ccb:benchmarks/schedules.py.

Every device runs its plans over `Rows`. All of it is host data: lengths decide what is launched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from nmt.rnn import tuning
from nmt.rnn.compiler.program import Place, PlaceKind

Division = Literal["rows", "units"]
"""The axis that threads divide in a time loop: the rows of the batch, or the hidden units."""


def team(
    rows: int,
    size: int,
    steps: int,
    threads: int,
    units: int,
    weight_bytes: int,
    units_below: int,
    alone_below: int,
    alone_a_step: int,
) -> tuple[int, int]:
    """Return whether threads divide units (1, else 0), and how many of them take part. Compiled code calls it, too.

    units: 1 if they are to divide units, 0 for rows, -1 to choose. With few rows, a step takes as long as its weights
    take to arrive from the cache, and if rows are divided every thread fetches all of them. With many rows, the
    barriers between products and row work cost more.

    Threads that divide units meet at barriers within a step. Two of them must have `alone_a_step` multiply-adds
    together. With more, the work of each must grow as the barrier's cost does, which is one transfer of a cache line
    for every doubling of their number (reasoned, not measured: see docs/threads.md).
    """
    if weight_bytes > 0 and size < alone_below:
        return 0, 1
    by_units, meeting = units, threads
    if units < 0:
        by_units = 1 if threads > 1 and rows < units_below * threads else 0
    if weight_bytes == 0:
        by_units = 0
    if by_units == 1:
        doublings = 0
        while 1 << doublings < meeting:
            doublings += 1
        while meeting > 1 and 2 * (size // max(1, steps)) < alone_a_step * meeting * doublings:
            meeting -= 1
            if 1 << doublings >= 2 * meeting:
                doublings -= 1
        if meeting == 1:
            return 0, 1
        if meeting == threads or units >= 0 or rows < units_below * meeting:
            return 1, meeting
    return 0, rows if 0 < rows < threads else threads


def split_rows(lengths: np.ndarray, threads: int) -> np.ndarray:
    """Return bounds, int64 [threads + 1], that give each thread about the same number of steps. With fewer rows than
    threads some have none. lengths: int64 [B]."""
    B = len(lengths)
    if B == 1 or threads == 1:  # the usual case: a single sentence
        return np.array([0, *(B,) * threads], np.int64)
    work = np.concatenate([[0], np.cumsum(lengths + 1)])
    inner = np.searchsorted(work, work[-1] * np.arange(1, threads) / threads, side="left")
    return np.maximum.accumulate(np.concatenate([[0], np.clip(inner, 0, B), [B]])).astype(np.int64)


@lru_cache(maxsize=1024)
def single_steps(rows: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return lengths of rows that all take one step, and their bounds for each thread; both read-only."""
    ones = np.ones(rows, np.int64)
    return ones, split_rows(ones, threads)


class Sharing(NamedTuple):
    """The numbers that decide how threads share the rows of a function."""

    threads: int
    division: Division | None
    weight_bytes: int  # of its products, 0 where it has none
    row_size: int  # multiply-adds of a row's step

    def of(self, B: int, size: int, T: int, bounds: np.ndarray) -> tuple[bool, np.ndarray]:
        """Return whether the threads divide units, and their bounds, for B rows, T steps and `size` multiply-adds."""
        units, parts = team(B, size, T, self.threads, *self.rules)
        if parts == 1:
            return False, np.array([0, B], np.int64)
        if units:
            return True, bounds[np.arange(parts + 1) * self.threads // parts]
        return False, np.unique(bounds) if parts < self.threads else bounds  # threads without rows are not woken

    @property
    def rules(self) -> tuple[int, int, int, int, int]:
        """Return the arguments of `team` that do not depend on rows."""
        units = -1 if self.division is None else int(self.division == "units")
        below = tuning.UNITS_BELOW[self.weight_bytes >= tuning.LARGE_WEIGHTS]
        return units, self.weight_bytes, below, tuning.ALONE_BELOW, tuning.ALONE_A_STEP

    def of_step(self, rows: int) -> tuple[bool, np.ndarray]:
        """Return the same as `of` for rows that all take a single step."""
        return self.of(rows, rows * self.row_size, 1, single_steps(rows, self.threads)[1])


class TimeBlock(NamedTuple):
    """Steps [start, stop) of a loop: [low, high) of the sequence, in opposite order if the loop runs backwards."""

    start: int
    stop: int
    low: int
    high: int


@dataclass
class Rows:
    """The rows of a run and how threads share them. lengths: number of steps of each row. source_lengths: number of
    positions of each captured row. owner: index of the captured row that each row reads. With `ragged`, captured arrays
    are [positions, n]: `owner` is the first position of each row, and `source_lengths` is read there. Other captured
    arrays may be read by another index: the array named `I_` and their name."""

    T: int
    B: int
    S: int
    lengths: np.ndarray  # int64 [B]
    source_lengths: np.ndarray  # int64 [C]
    owner: np.ndarray  # int64 [B]
    bounds: np.ndarray  # int64 [threads + 1]: rows of each thread
    reverse: bool
    division: Division | None = None  # None: chosen for each loop
    block_rows: int | None = None  # None: tuning.BLOCK_ROWS
    block_multiple: int = 1  # a block of time has a multiple of these steps, unless it has all
    ragged: bool = False
    _derived: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of_one_step(cls, owner: np.ndarray, threads: int, **rest: Any) -> Rows:
        """Return rows that take one step, one for each of `owner`, and read one source position each. rest: the fields
        that are not so."""
        ones, bounds = single_steps(len(owner), threads)
        given = {"S": 1, "lengths": ones, "source_lengths": ones, "bounds": bounds, **rest}
        return cls(T=1, B=len(owner), owner=owner, reverse=False, **given)

    @cached_property
    def threads(self) -> int:
        """Return how many threads share the rows."""
        return len(self.bounds) - 1

    @cached_property
    def whole(self) -> bool:
        """Return whether every row runs to the end."""
        return not len(self.lengths) or int(self.lengths.min()) == self.T

    @cached_property
    def ordered(self) -> bool:
        """Return whether the rows still running at any step are always the first ones, so products skip ended rows."""
        return self.whole or bool((self.lengths[:-1] >= self.lengths[1:]).all())

    @cached_property
    def block_steps(self) -> int:
        """Return the steps in a block of time; blocks are of nearly equal length."""
        count = -(-self.T * self.B // (self.block_rows or tuning.BLOCK_ROWS))
        steps = -(-self.T // max(1, count))
        return min(self.T, -(-steps // self.block_multiple) * self.block_multiple)

    def blocks(self, *, backward: bool) -> list[TimeBlock]:
        """Return the blocks of a pass as they are run, in a `backward` pass against the direction of the rows."""
        backwards, size = self.reverse != backward, self.block_steps
        found = []
        for start in range(0, self.T, max(1, size)):
            stop = min(self.T, start + size)
            low, high = (self.T - stop, self.T - start) if backwards else (start, stop)
            found.append(TimeBlock(start, stop, low, high))
        return found

    def derived(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what a device computes from these rows, computed once for each key; both passes read it."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def of_lengths(self, lengths: np.ndarray) -> Rows:
        """Return the same rows with other lengths, int64 [B]."""
        return replace(self, lengths=lengths, _derived={})


def steps_of(place: Place, T: int) -> int:
    """Return the length of an array that has entries for the T steps of a run."""
    return -(-T // tuning.CHECKPOINT_STEPS) if place.kind is PlaceKind.CHECKPOINT else T


def shape_of_step(place: Place, rows: Rows) -> tuple[int, ...]:
    """Return the shape of one step of an array: [S, B, n], without S or n if it has no source positions or width."""
    source = (rows.S,) if place.source_axis else ()
    return (*source, rows.B, *((place.width,) if place.width is not None else ()))
