"""Let several processes read one text together: each cleans and tokenizes a share of its chunks, and all get the
result. The ids of a large text lie in files without names in the temporary folder (`TMPDIR`), mapped into memory, from
which the system takes their pages whenever it needs them.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import IO, Any, TypeVar, overload
from weakref import finalize

import numpy as np

from nmt.errors import DataError
from nmt.system.files import explain

T = TypeVar("T")
MOST_IN_MEMORY = 2**28
"""Bytes of ids of one side of a text from which on they lie in a file."""


class Pieces(Mapping[int, np.ndarray]):
    """Numbered arrays of int32 ids: a few in memory, those that come when MOST_IN_MEMORY is reached in a file."""

    def __init__(self) -> None:
        self._pieces: dict[int, np.ndarray | tuple[int, int]] = {}
        self._file: IO[bytes] | None = None
        self._size = 0

    @property
    def are_many(self) -> bool:
        """Return whether some of them are in a file."""
        return self._file is not None

    def __setitem__(self, number: int, ids: np.ndarray) -> None:
        """Keep an array, in place of one that had the number. Raises DataError if the temporary folder has no room."""
        self._size += ids.nbytes
        if self._size <= MOST_IN_MEMORY:
            self._pieces[number] = ids
            return
        with _in_temporary_folder():
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="nmt-text-", buffering=0)
                finalize(self, self._file.close)
            self._pieces[number] = self._file.seek(0, os.SEEK_END), len(ids)
            _append(self._file, ids.astype(np.int32))

    def __getitem__(self, number: int) -> np.ndarray:
        piece = self._pieces[number]
        if isinstance(piece, np.ndarray):
            return piece
        if self._file is None:
            raise RuntimeError("an array in a file that is not there")
        self._file.seek(piece[0])
        return np.frombuffer(self._file.read(4 * piece[1]), np.int32)

    def __iter__(self) -> Iterator[int]:
        return iter(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)


def _append(file: IO[bytes], ids: np.ndarray) -> None:
    """Write all ids: a file without a buffer may take a part of them at a time."""
    content = ids.tobytes()
    while content:
        content = content[file.write(content) :]


@contextmanager
def _in_temporary_folder() -> Iterator[None]:
    """Turn errors of files there into a DataError."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{tempfile.gettempdir()}: must have room for the ids of the training text, got {explain(error)}; set "
            "TMPDIR to another folder"
        ) from error


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
    """Return the concatenation of numbered arrays in order of their numbers; it is empty if there are none. That of
    `Pieces` which are many is a mapped file."""
    if isinstance(pieces, Pieces) and pieces.are_many:
        with _in_temporary_folder(), tempfile.TemporaryFile(prefix="nmt-text-", buffering=0) as file:
            for number in sorted(pieces):
                _append(file, pieces[number].astype(dtype))
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype)
    return np.concatenate([np.zeros(0, dtype), *(pieces[number] for number in sorted(pieces))])


def rows_before(own: Mapping[int, np.ndarray], readers: Readers) -> np.ndarray:
    """Return the first row of each array in the gathered array, int64 [arrays + 1]. Called by all."""
    counts = {number: np.array([len(piece)], np.int64) for number, piece in own.items()}
    starts: np.ndarray = np.concatenate([[0], np.cumsum(readers.gathered(counts, np.int64))])
    return starts


class TokenRows(Sequence[np.ndarray]):
    """Sequences of ids, concatenated: `rows[i]` is an int32 view of sequence i. `tokens` [sum of lengths] int32,
    `starts` [N + 1] int64. This takes four bytes a token and eight a sequence; lists take over thirty bytes a token."""

    def __init__(self, tokens: np.ndarray, starts: np.ndarray) -> None:
        """Keep both arrays without copying them."""
        self.tokens = tokens
        self.starts = starts

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int] | np.ndarray]) -> TokenRows:
        """Copy sequences of ids into one array."""
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        tokens = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=int(lengths.sum()))
        return cls.of_lengths(tokens, lengths)

    @classmethod
    def of_lengths(cls, tokens: np.ndarray, lengths: np.ndarray) -> TokenRows:
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

    def taken(self, rows: np.ndarray, most: int | None = None) -> TokenRows:
        """Return a copy of some of the sequences, in the given order, each truncated to at most `most` ids."""
        lengths = self.lengths_of(rows)
        if most is not None:
            lengths = np.minimum(lengths, most)
        ends = np.cumsum(lengths)
        where = np.arange(int(lengths.sum())) + np.repeat(self.starts[rows] + lengths - ends, lengths)
        return TokenRows.of_lengths(self.tokens[where], lengths)

    def evenly(self, most: int) -> TokenRows:
        """Return at most `most` of the sequences, evenly spaced; all of them if there are no more."""
        return self if len(self) <= most else self.taken(np.linspace(0, len(self) - 1, most).astype(np.int64))

    def checksum(self, start: int = 0) -> int:
        """Return the CRC-32 of all ids and lengths, continued from `start`."""
        for array in (self.tokens, self.starts):
            start = zlib.crc32(np.ascontiguousarray(array).data, start)
        return start

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice) -> list[np.ndarray]: ...
    def __getitem__(self, index: int | slice) -> np.ndarray | list[np.ndarray]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"sequence {index} of {len(self)}")
        index %= len(self)
        return self.tokens[self.starts[index] : self.starts[index + 1]]
