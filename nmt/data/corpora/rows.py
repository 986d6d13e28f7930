"""Store many sequences of ids in one array."""

from collections.abc import Sequence
from typing import overload

import numpy as np


class TokenRows(Sequence[np.ndarray]):
    """Sequences of ids, concatenated: `rows[i]` is an int32 view of sequence i.

    `tokens` [sum of lengths] int32, `starts` [N + 1] int64. This takes four bytes a token and eight a sequence; a list
    of lists takes over thirty bytes a token.
    """

    def __init__(self, tokens: np.ndarray, starts: np.ndarray) -> None:
        """Keep both arrays without copying them."""
        self.tokens = tokens
        self.starts = starts

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int] | np.ndarray]) -> "TokenRows":
        """Copy sequences of ids into one array."""
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        tokens = np.empty(int(starts[-1]), dtype=np.int32)
        for row, start, end in zip(rows, starts, starts[1:], strict=False):
            tokens[start:end] = row
        return cls(tokens, starts)

    @property
    def lengths(self) -> np.ndarray:
        """Return the length of each sequence, [N] int64."""
        return np.diff(self.starts)

    def lengths_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the lengths of some of the sequences, [len(rows)] int64."""
        lengths: np.ndarray = self.starts[rows + 1] - self.starts[rows]
        return lengths

    def taken(self, rows: np.ndarray, most: int | None = None) -> "TokenRows":
        """Return a copy of some of the sequences, in the given order, each truncated to at most `most` ids."""
        lengths = self.lengths_of(rows)
        if most is not None:
            lengths = np.minimum(lengths, most)
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        where = np.arange(int(starts[-1])) + np.repeat(self.starts[rows] - starts[:-1], lengths)
        return TokenRows(self.tokens[where], starts)

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self.starts) - 1

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice) -> list[np.ndarray]: ...
    def __getitem__(self, index: int | slice) -> np.ndarray | list[np.ndarray]:
        """Return a view of one sequence, or a list of views."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"sequence {index} of {len(self)}")
        index %= len(self)
        return self.tokens[self.starts[index] : self.starts[index + 1]]
