"""Let several processes read one text together: each cleans and tokenizes a share of its chunks, and all get the
result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


class Readers:
    """This process among several that share the reading, and the exchange between them: here it reads alone. All must
    call each method, in the same order."""

    rank: int = 0
    size: int = 1

    def all_gather(self, value: T) -> list[T]:
        """Return the values of all processes, by rank."""
        return [value]

    def gathered(self, own: Mapping[int, np.ndarray], dtype: Any) -> np.ndarray:
        """Return the concatenation of numbered arrays, flat and of that dtype, each of which one process has; it must
        not be written to. It is empty if there are none."""
        return end_to_end(own, dtype)


def end_to_end(pieces: Mapping[int, np.ndarray], dtype: Any) -> np.ndarray:
    """Return the concatenation of numbered arrays in order of their numbers; it is empty if there are none."""
    return np.concatenate([np.zeros(0, dtype), *(pieces[number] for number in sorted(pieces))])


def rows_before(own: Mapping[int, np.ndarray], readers: Readers) -> np.ndarray:
    """Return the first row of each array in the gathered array, int64 [arrays + 1]. Called by all."""
    counts = {number: np.array([len(piece)], np.int64) for number, piece in own.items()}
    starts: np.ndarray = np.concatenate([[0], np.cumsum(readers.gathered(counts, np.int64))])
    return starts
