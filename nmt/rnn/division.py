"""Division of a run over time between threads: each computes its own rows of the batch, or its own hidden units, which
are columns of the products (work on rows is divided by rows in both cases).

The choice affects only speed: the results are bit-identical. Limits are in tuning.py, measured by
12995ccb:benchmarks/schedules.py.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from nmt.rnn import tuning

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
    """Return bounds, int64 [threads + 1], that give each thread about the same number of steps.

    With fewer rows than threads some have none. lengths: int64 [B].
    """
    B = len(lengths)
    if B == 1 or threads == 1:  # the usual case: a single sentence
        return np.array([0, *(B,) * threads], np.int64)
    work = np.concatenate([[0], np.cumsum(lengths + 1)])
    inner = np.searchsorted(work, work[-1] * np.arange(1, threads) / threads, side="left")
    return np.maximum.accumulate(np.concatenate([[0], np.clip(inner, 0, B), [B]])).astype(np.int64)


@lru_cache(maxsize=1024)
def single_steps(rows: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return lengths of rows that all take one step, and the bounds that divide them between threads; both
    read-only."""
    ones = np.ones(rows, np.int64)
    return ones, split_rows(ones, threads)


class Sharing(NamedTuple):
    """The numbers that decide how threads share the rows of a function."""

    threads: int
    division: Division | None
    weight_bytes: int  # of its products, 0 where it has none
    row_size: int  # multiply-adds of a row's step

    def of(self, B: int, size: int, T: int, bounds: np.ndarray) -> tuple[bool, np.ndarray]:
        """Return whether the threads divide units, and each thread's bounds, for B rows, T steps and `size`
        multiply-adds."""
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
