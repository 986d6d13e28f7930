"""Rows that belong together: runs of equal numbers, and distinct numbers."""

from functools import lru_cache

import numpy as np

from nmt.rnn.kernels.machine_code.jit import kernel

FEW = 6
"""The number of rows that take a product as long as a single one, because loading the weights dominates. So few rows
gain nothing from sharing equal inputs."""


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
    """Return the positions at which runs of equal numbers [R] start, followed by R: int64 [runs + 1]."""
    bounds, found = np.empty(len(numbers) + 1, np.int64), np.zeros(1, np.int64)
    _run_bounds(numbers, bounds, found)
    return bounds[: found[0]]


@lru_cache(maxsize=64)
def identity(size: int) -> np.ndarray:
    """Return 0, 1, ... size - 1 as int64, where every row has its own captured row. The array is cached and must not be
    modified."""
    return np.arange(size, dtype=np.int64)


def distinct(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct numbers among these [R], and the index of each among them, int64 [R]. If there are at most
    FEW numbers, they are returned unchanged, as nothing would be gained."""
    if len(numbers) <= FEW:
        return numbers, identity(len(numbers))
    different, place = np.unique(numbers, return_inverse=True)
    return different, place
