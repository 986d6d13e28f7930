"""Let several processes read one text together: each cleans and tokenizes a share of its chunks, and all get the
result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import numpy as np

T = TypeVar("T")


class Readers(Protocol):
    """This process among several that share the reading. All must call each method, in the same order."""

    rank: int
    size: int

    def all_say(self, value: T) -> list[T]:
        """Return the values of all processes, by rank."""

    def gathered(self, own: Mapping[int, np.ndarray], dtype: Any) -> np.ndarray:
        """Return the concatenation of numbered arrays, of which each process has some; it must not be written to.

        Args:
            own: The arrays of this process: flat, of that dtype, with numbers that no other process has.
            dtype: The dtype of all arrays and of the result, which is empty if no process has any.
        """


class Alone:
    """A single process, which reads the whole text."""

    rank, size = 0, 1

    def all_say(self, value: T) -> list[T]:
        """Return the value in a list (see `Readers`)."""
        return [value]

    def gathered(self, own: Mapping[int, np.ndarray], dtype: Any) -> np.ndarray:
        """Return the concatenation of the arrays of this process (see `Readers`)."""
        return end_to_end(own, dtype)


def end_to_end(pieces: Mapping[int, np.ndarray], dtype: Any) -> np.ndarray:
    """Return the concatenation of numbered arrays in order of their numbers; it is empty if there are none."""
    return np.concatenate([np.zeros(0, dtype), *(pieces[number] for number in sorted(pieces))])


def rows_before(own: Mapping[int, np.ndarray], readers: Readers) -> np.ndarray:
    """Return the first row of each array in the gathered array, int64 [arrays + 1]. Called by all."""
    counts = {number: np.array([len(piece)], np.int64) for number, piece in own.items()}
    starts: np.ndarray = np.concatenate([[0], np.cumsum(readers.gathered(counts, np.int64))])
    return starts
