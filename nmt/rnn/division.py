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


def choose_division(rows: int, threads: int, weight_bytes: int) -> Division:
    """Return how the threads share a loop whose products read `weight_bytes` of weights at every step.

    With few rows, a step takes as long as its weights take to arrive from the cache, and if rows are divided every
    thread fetches all of them. With many rows, the barriers between products and row work cost more.
    """
    limit = tuning.UNITS_BELOW[weight_bytes >= tuning.LARGE_WEIGHTS] * threads
    return "units" if threads > 1 and rows < limit else "rows"


def meeting_threads(size: int, threads: int) -> int:
    """Return among how many of the threads to divide a step of `size` multiply-adds, which meet at barriers
    within the step.

    Two threads must have ALONE_A_STEP together. With more, the work of each must grow as the barrier's cost does, which
    is one transfer of a cache line for every doubling of their number (reasoned, not measured: see docs/threads.md).
    """
    while threads > 1 and 2 * size < tuning.ALONE_A_STEP * threads * (threads - 1).bit_length():
        threads -= 1
    return threads


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
        division = self.division or choose_division(B, self.threads, self.weight_bytes)
        units = self.weight_bytes > 0 and division == "units"
        meeting = meeting_threads(size // max(1, T), self.threads) if units else self.threads
        if self.weight_bytes and (size < tuning.ALONE_BELOW or meeting == 1):
            return False, np.array([0, B], np.int64)
        if units and meeting < self.threads:
            if self.division is None and choose_division(B, meeting, self.weight_bytes) == "rows":
                units = False
            else:
                return True, bounds[np.arange(meeting + 1) * self.threads // meeting]
        if 0 < B < self.threads and not units:  # threads without rows are not woken
            return False, np.unique(bounds)
        return units, bounds

    def of_step(self, rows: int) -> tuple[bool, np.ndarray]:
        """Return the same as `of` for rows that all take a single step."""
        return self.of(rows, rows * self.row_size, 1, single_steps(rows, self.threads)[1])
