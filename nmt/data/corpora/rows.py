"""Store many sequences of ids in one array."""

import zlib
from collections.abc import Sequence
from itertools import chain
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
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        tokens = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=int(lengths.sum()))
        return cls.of_lengths(tokens, lengths)

    @classmethod
    def of_lengths(cls, tokens: np.ndarray, lengths: np.ndarray) -> "TokenRows":
        """Return sequences of these lengths [N], whose ids are concatenated in `tokens`."""
        return cls(tokens, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))

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
        ends = np.cumsum(lengths)
        where = np.arange(int(lengths.sum())) + np.repeat(self.starts[rows] + lengths - ends, lengths)
        return TokenRows.of_lengths(self.tokens[where], lengths)

    def evenly(self, most: int) -> "TokenRows":
        """Return at most `most` of the sequences, evenly spaced; all of them if there are no more."""
        return self if len(self) <= most else self.taken(np.linspace(0, len(self) - 1, most).astype(np.int64))

    def checksum(self, start: int = 0) -> int:
        """Return the CRC-32 of all ids and lengths, continued from `start`."""
        for array in (self.tokens, self.starts):
            start = zlib.crc32(np.ascontiguousarray(array).data, start)
        return start

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
