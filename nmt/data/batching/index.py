"""The index of a corpus: its pairs as subwords on disk, in blocks, in random order.

An index is a folder of three files. `header.json` says what it was made of, and counts. `blocks.npy`, int64 [blocks,
6], has for each block its start in `rows.bin`, its numbers of pairs, source and target tokens, its longest target, and
its CRC-32. `rows.bin` has block after block, little-endian: lengths of both sides, line numbers, source tokens, target
tokens, in the types that the header names.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from weakref import finalize

import numpy as np

from nmt.data.corpora.corpus import Counted, ParallelCorpus
from nmt.data.corpora.rows import TokenRows
from nmt.errors import DataError
from nmt.special_tokens import EOS_ID
from nmt.system.files import explain

VERSION = 1
HEADER_NAME, BLOCKS_NAME, ROWS_NAME = "header.json", "blocks.npy", "rows.bin"
MOST_BLOCK, LEAST_BLOCK, BLOCKS = 4096, 64, 256
"""The largest and smallest number of pairs in a block, and the number of blocks of a small corpus."""
START, PAIRS, SRC_TOKENS, TGT_TOKENS, LONGEST, CHECKSUM = range(6)


@dataclass(frozen=True)
class Rows:
    """Pairs: the subwords of both sides and the line numbers [N]."""

    src: TokenRows
    tgt: TokenRows
    numbers: np.ndarray

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.numbers)

    def taken(self, order: np.ndarray) -> Rows:
        """Return a copy of some of the pairs, in the given order."""
        return Rows(self.src.taken(order), self.tgt.taken(order), self.numbers[order])

    def packed(self, types: Sequence[np.dtype]) -> bytes:
        """Return the pairs as bytes, in the types of lengths, line numbers and tokens."""
        lengths, numbers, tokens = types
        arrays = [table.lengths.astype(lengths) for table in (self.src, self.tgt)]
        arrays += [self.numbers.astype(numbers), self.src.tokens.astype(tokens), self.tgt.tokens.astype(tokens)]
        return b"".join(array.tobytes() for array in arrays)


def unpacked(content: bytes, types: Sequence[np.dtype], counts: Sequence[int], at: int = 0) -> Rows:
    """Return the pairs that `Rows.packed` wrote, from byte `at` on. `counts`: of pairs, source and target tokens."""
    lengths, ids, tokens = types
    pairs, *sizes = counts
    found = []
    kinds = [lengths, lengths, ids, tokens, tokens]
    for kind, count in zip(kinds, [pairs, pairs, pairs, *sizes], strict=True):
        found.append(np.frombuffer(content, kind, count, at))
        at += kind.itemsize * count
    sides = [TokenRows.of_lengths(found[3 + side], found[side].astype(np.int64)) for side in (0, 1)]
    return Rows(sides[0], sides[1], found[2].astype(np.int64))


def packed_bytes(types: Sequence[np.dtype], pairs: Any, tokens: Any) -> Any:
    """Return the number of bytes of packed pairs, given their numbers of pairs and of tokens of both sides."""
    lengths, numbers, token = (kind.itemsize for kind in types)
    return pairs * (2 * lengths + numbers) + tokens * token


def joined(several: Sequence[Rows]) -> Rows:
    """Return the concatenation of several rows."""
    sides = []
    for tables in ([rows.src for rows in several], [rows.tgt for rows in several]):
        tokens = np.concatenate([np.zeros(0, np.uint16), *(table.tokens for table in tables)])
        sides.append(
            TokenRows.of_lengths(tokens, np.concatenate([np.zeros(0, np.int64), *(t.lengths for t in tables)]))
        )
    return Rows(sides[0], sides[1], np.concatenate([np.zeros(0, np.int64), *(rows.numbers for rows in several)]))


class IndexWriter:
    """Writes the files of an index into an empty folder. `types`: the data types of lengths, line numbers and
    tokens."""

    def __init__(self, folder: Path, types: Sequence[str], block: int) -> None:
        self._folder, self._types, self._block = folder, list(types), block
        self._file: BinaryIO = (folder / ROWS_NAME).open("wb")
        self._blocks: list[tuple[int, ...]] = []
        self._rest = joined([])
        self._at = 0

    def add(self, rows: Rows) -> None:
        """Write rows; those that do not fill a block yet are kept for later."""
        rows = joined([self._rest, rows])
        whole = len(rows) // self._block * self._block
        for first in range(0, whole, self._block):
            self._write(rows.taken(np.arange(first, first + self._block)))
        self._rest = rows.taken(np.arange(whole, len(rows)))

    def close(self, header: Mapping[str, Any]) -> None:
        """Write the remaining rows, and the header: `header` and the types. Waits until all is on disk."""
        if len(self._rest):
            self._write(self._rest)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        np.save(self._folder / BLOCKS_NAME, np.array(self._blocks, np.int64).reshape(-1, 6))
        content = {"version": VERSION, "types": self._types, **header}
        (self._folder / HEADER_NAME).write_text(json.dumps(content, ensure_ascii=False) + "\n", "utf-8")

    def _write(self, rows: Rows) -> None:
        content = rows.packed([np.dtype(name) for name in self._types])
        counts = len(rows.src.tokens), len(rows.tgt.tokens), int(rows.tgt.lengths.max(initial=0))
        self._blocks.append((self._at, len(rows), *counts, zlib.crc32(content)))
        self._file.write(content)
        self._at += len(content)


class Index:
    """An index open for reading, by any number of threads. Raises DataError if the folder does not contain a complete
    index. `weight`: how often its pairs are seen in an epoch."""

    def __init__(self, folder: Path, weight: float = 1.0) -> None:
        self.folder, self.weight = folder, weight
        try:
            self.header: dict[str, Any] = json.loads((folder / HEADER_NAME).read_bytes())
            self.blocks: np.ndarray = np.load(folder / BLOCKS_NAME, allow_pickle=False)
            self._types = [np.dtype(name).newbyteorder("<") for name in self.header["types"]]
            if self.blocks.ndim != 2 or self.blocks.shape[1] != CHECKSUM + 1 or self.blocks.dtype != np.int64:
                raise ValueError("no table of blocks")
            self._handle = os.open(folder / ROWS_NAME, os.O_RDONLY)
            finalize(self, os.close, self._handle)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{folder}: must be an index, got none ({explain(error)}); remove that folder") from None
        ends = self.blocks[:, START] + self._bytes(self.blocks)
        if os.fstat(self._handle).st_size != (int(ends[-1]) if len(ends) else 0):
            raise DataError(f"{folder / ROWS_NAME}: must be whole, got a part of it; remove the folder of that index")

    def __len__(self) -> int:
        """Return the number of pairs."""
        return int(self.blocks[:, PAIRS].sum())

    @property
    def num_tokens(self) -> tuple[int, int]:
        """Return the numbers of source and target tokens of all pairs, EOS not counted."""
        return int(self.blocks[:, SRC_TOKENS].sum()), int(self.blocks[:, TGT_TOKENS].sum())

    def read(self, numbers: Sequence[int]) -> Rows:
        """Return the pairs of the given blocks. Raises DataError if one is damaged."""
        return joined([self._read(number) for number in numbers])

    def _read(self, number: int) -> Rows:
        start, *counts, _, checksum = self.blocks[number].tolist()
        size = int(self._bytes(self.blocks[number : number + 1])[0])
        content = os.pread(self._handle, size, start)
        if len(content) != size or zlib.crc32(content) != checksum:
            raise DataError(
                f"{self.folder / ROWS_NAME}: block {number} must be as it was written, got other bytes; remove the "
                "folder of that index, and the same command makes it again"
            )
        return unpacked(content, self._types, counts)

    def _bytes(self, blocks: np.ndarray) -> np.ndarray:
        """Return the size of each block in bytes."""
        found: np.ndarray = packed_bytes(self._types, blocks[:, PAIRS], blocks[:, SRC_TOKENS] + blocks[:, TGT_TOKENS])
        return found


class IndexedCorpus(Counted):
    """Training corpora that stay on disk. Counts are totals over all of them (see `ParallelCorpus`)."""

    def __init__(self, indexes: Sequence[Index]) -> None:
        self.indexes = list(indexes)
        headers = [index.header for index in indexes]
        self.total, self.skipped_empty, self.skipped_long = (
            sum(int(header[name]) for header in headers) for name in ("total", "skipped_empty", "skipped_long")
        )
        self.filtered = "; ".join(header["filtered"] for header in headers if header["filtered"])

    def __len__(self) -> int:
        """Return the number of pairs."""
        return sum(map(len, self.indexes))

    @property
    def num_tgt_tokens(self) -> int:
        """Return the number of target tokens in an epoch, by weight, EOS counted."""
        return round(sum(index.weight * (index.num_tokens[1] + len(index)) for index in self.indexes))

    @property
    def num_subwords(self) -> int:
        """Return the number of target subwords, counting each pair once and no EOS."""
        return sum(index.num_tokens[1] for index in self.indexes)

    @property
    def nbytes(self) -> int:
        """Return the number of bytes in memory at once: the window in use and the next."""
        share = min(1.0, 2 * WINDOW_PAIRS / max(1, len(self)))
        return math.ceil(share * sum(int(index.blocks[-1, START]) for index in self.indexes if len(index)))

    def target_counts(self, vocab_size: int) -> np.ndarray:
        """Return how often each target token is to be predicted in one pass, EOS included: int64 [V]."""
        counts = np.sum([np.array(index.header["target_counts"], np.int64) for index in self.indexes], axis=0)
        found = np.zeros(vocab_size, np.int64)
        found[: len(counts)] = counts
        found[EOS_ID] += len(self)
        return found

    def some_lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the source and target lengths of the first pairs of each corpus, which are an unbiased sample."""
        rows = joined([index.read(range(min(len(index.blocks), _SAMPLE_BLOCKS))) for index in self.indexes])
        return rows.src.lengths, rows.tgt.lengths

    def in_memory(self) -> ParallelCorpus:
        """Return all pairs in the order of their files, as `load_parallel` reads them."""
        parts, start = [], 0
        for index in self.indexes:
            rows = index.read(range(len(index.blocks)))
            rows = rows.taken(np.argsort(rows.numbers, kind="stable"))
            parts.append(Rows(rows.src, rows.tgt, rows.numbers + start))
            start += int(index.header["total"])
        whole = joined(parts)
        for table in (whole.src, whole.tgt):
            table.tokens = table.tokens.astype(np.int32)
        return ParallelCorpus(
            src=whole.src,
            tgt=whole.tgt,
            line_numbers=whole.numbers,
            total=self.total,
            skipped_empty=self.skipped_empty,
            skipped_long=self.skipped_long,
            filtered=self.filtered,
            parts=tuple((len(index), index.weight) for index in self.indexes),
        )


WINDOW_PAIRS = 262_144
"""The number of pairs that are shuffled together: 64 of the largest blocks."""
_SAMPLE_BLOCKS = 256
