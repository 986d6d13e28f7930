"""Rows that belong together: runs of equal numbers, and the different numbers there are."""

from functools import lru_cache

import numpy as np

from nmt.rnn.kernels.machine_code.jit import kernel

FEW = 6
"""Rows that a product takes in the time of one, for that is how long its weights take to arrive: so few do not gain
from sharing what they have in common."""


@kernel
def _run_bounds(numbers, bounds, found):  # type: ignore[no-untyped-def]
    count = 0
    for r in range(len(numbers)):
        if r == 0 or numbers[r] != numbers[r - 1]:
            bounds[count] = r
            count += 1
    bounds[count] = len(numbers)
    found[0] = count + 1


def run_bounds(numbers: np.ndarray) -> np.ndarray:
    """Return where runs of equal neighbours begin in numbers [R], and R: int64 [runs + 1]."""
    bounds, found = np.empty(len(numbers) + 1, np.int64), np.zeros(1, np.int64)
    _run_bounds(numbers, bounds, found)
    return bounds[: found[0]]


@lru_cache(maxsize=64)
def identity(size: int) -> np.ndarray:
    """0, 1, ... size - 1, int64, not to be written into: every row has a captured row of its own."""
    return np.arange(size, dtype=np.int64)


def distinct(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different numbers among these [R], and int64 [R], where among them each is; so few that nothing is
    gained by that stay as they are."""
    if len(numbers) <= FEW:
        return numbers, identity(len(numbers))
    different, place = np.unique(numbers, return_inverse=True)
    return different, place
