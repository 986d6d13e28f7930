"""Store many lines as one array of code points, so that all can be examined at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from nmt.data.tokens.characters import characters


class TextBlock:
    """Lines, and their characters concatenated.

    Attributes:
        lines: The lines as they were read.
        codes: uint32 [sum of lengths]; code points. Bytes that were not UTF-8 are lone surrogates.
        lengths: int64 [N]; the number of characters of each line.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.codes = np.frombuffer("".join(lines).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        self.lengths = np.fromiter(map(len, lines), dtype=np.int64, count=len(lines))

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.lines)

    def count(self, marked: np.ndarray) -> np.ndarray:
        """Return how many characters of each line are marked (bool, as long as `codes`): int64 [N]."""
        kind = np.int32 if len(marked) < 2**31 else np.int64  # writing half the bytes takes half the time
        sums = np.zeros(len(marked) + 1, kind)
        np.cumsum(marked, dtype=kind, out=sums[1:])
        ends = np.cumsum(self.lengths)
        return (sums[ends] - sums[ends - self.lengths]).astype(np.int64)

    def lines_of(self, places: np.ndarray) -> np.ndarray:
        """Return the distinct line numbers, int64, of the characters at the given indices of `codes`."""
        return np.unique(np.searchsorted(np.cumsum(self.lengths), places, side="right"))

    def marks(self, places: np.ndarray) -> np.ndarray:
        """Return which lines contain at least one of the characters at the given indices: bool [N]."""
        found = np.zeros(len(self), dtype=bool)
        if len(places):
            found[self.lines_of(places)] = True
        return found

    def follows(self, places: np.ndarray) -> np.ndarray:
        """Return which of the given characters are followed by another one in their line: bool."""
        ends = np.cumsum(self.lengths)
        last = np.zeros(len(self.codes) + 1, dtype=bool)
        last[ends[self.lengths > 0] - 1] = True
        return ~last[places]

    @cached_property
    def script(self) -> np.ndarray:
        """Return the script number of each letter: uint8, as long as `codes`."""
        script: np.ndarray = characters().script[self.codes]
        return script
