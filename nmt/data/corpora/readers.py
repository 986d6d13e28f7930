"""Several processes that read one text together: each cleans and cuts a share of its blocks of lines, and then all of
them have the whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import numpy as np

T = TypeVar("T")


class Readers(Protocol):
    """Which of so many processes this one is, and what they tell one another. All of them must call each method, in the
    same order."""

    rank: int
    size: int

    def all_say(self, value: T) -> list[T]:
        """Return what each says, by rank."""

    def gathered(self, own: Mapping[int, np.ndarray], dtype: Any) -> np.ndarray:
        """Return an array of numbered pieces, end to end, of which each process has some; not to be written to.

        Args:
            own: The pieces that this process has: flat, of that dtype, and of numbers that no other one has.
            dtype: Of all pieces, and of the result, which is empty where nobody has any.
        """


class Alone:
    """A process that reads a text by itself."""

    rank, size = 0, 1

    def all_say(self, value: T) -> list[T]:
        """See `Readers`."""
        return [value]

    def gathered(self, own: Mapping[int, np.ndarray], dtype: Any) -> np.ndarray:
        """See `Readers`."""
        return end_to_end(own, dtype)


def end_to_end(pieces: Mapping[int, np.ndarray], dtype: Any) -> np.ndarray:
    """Numbered pieces as one array, which is empty where there are none."""
    return np.concatenate([np.zeros(0, dtype), *(pieces[number] for number in sorted(pieces))])


def rows_before(own: Mapping[int, np.ndarray], readers: Readers) -> np.ndarray:
    """Of which row on each piece stands in the gathered array: int64 [pieces + 1]. Called by all."""
    counts = {number: np.array([len(piece)], np.int64) for number, piece in own.items()}
    starts: np.ndarray = np.concatenate([[0], np.cumsum(readers.gathered(counts, np.int64))])
    return starts
