"""Find held-out lines that occur in the training text, exactly or nearly.

A near match is one of two things. Either the lines are equal except for case, punctuation and spaces; or both have 16
letters or more and share at least 0.8 of their 4-grams of letters (the Jaccard coefficient of the two sets, as Broder
1997 and Lee et al. 2022, section 4.2, measure near duplicates). Candidates are found by MinHash with banding (Broder
1997; Leskovec, Rajaraman and Ullman, chapter 3) and then compared exactly: every reported match is a real one, and a
match is found with a probability of 0.99 at a coefficient of 0.8 and of 0.999 at 0.9.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from nmt.data.tokens.characters import TextBlock, characters

PIECE = 4
LEAST_LETTERS = 16
NEAR = 0.8
_BANDS, _ROWS = 8, 3
_LEAST_AGREEING = 14
# After this many false candidates, a held-out line is no longer looked up: such text is made from templates.
_MOST_COMPARED = 200
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Likeness(IntEnum):
    """The similarity of two lines; larger is more similar."""

    NONE = 0
    NEAR = 1
    EXACT = 2


@dataclass(frozen=True)
class Match:
    """Line `number` of a block matches line `held_out`."""

    number: int
    held_out: int
    likeness: Likeness


class OverlapIndex:
    """An index of held-out lines in which matches can be looked up. `lines`: cleaned lines, any number; empty ones
    never match; `every`: find every match of a block. Otherwise a held-out line with an exact match is not looked up
    again, and one with a near match only for an exact one."""

    def __init__(self, lines: Sequence[str], *, every: bool = False) -> None:
        self._every = every
        # Words and short phrases repeat; only distinct lines are compared.
        first: dict[str, int] = {}
        self._line_of = np.fromiter((first.setdefault(line, len(first)) for line in lines), np.int64, len(lines))
        self._first = np.unique(self._line_of, return_index=True)[1]
        self._likeness = np.zeros(len(first), dtype=np.int8)
        self._exact = {line: number for line, number in first.items() if line}
        folded = _Folded(TextBlock(list(first)))
        self._folded = folded
        self._same = _Lookup(folded.hashes(), folded.lengths > 0)
        self._signatures = folded.signatures()
        keys = _band_keys(self._signatures)
        self._near = [_Lookup(keys[:, band], folded.lengths >= LEAST_LETTERS) for band in range(_BANDS)]
        self._compared = np.zeros(len(first), dtype=np.int64)
        self._pieces: dict[int, frozenset[bytes]] = {}

    def __len__(self) -> int:
        return len(self._line_of)

    @property
    def likeness(self) -> np.ndarray:
        """Return the best match of each held-out line so far, a `Likeness`: int8 [N]."""
        likeness: np.ndarray = self._likeness[self._line_of]
        return likeness

    def find(self, lines: Sequence[str], *, near: bool = True) -> list[Match]:
        """Return matches among cleaned lines, exact ones first; of equal held-out lines, the first is reported."""
        found: list[tuple[int, int, Likeness]] = []
        for number, line in enumerate(lines):
            if (other := self._exact.get(line)) is not None:
                found.append((number, other, Likeness.EXACT))
                self._likeness[other] = Likeness.EXACT
                if not self._every:
                    del self._exact[line]
        done = {(number, other) for number, other, _ in found}
        if near and len(self):
            found += self._near_matches(_Folded(TextBlock(lines)), done)
        return [Match(number, int(self._first[other]), likeness) for number, other, likeness in found]

    def _near_matches(self, folded: _Folded, done: set[tuple[int, int]]) -> Iterator[tuple[int, int, Likeness]]:
        """Yield the near matches; `done` are the exact ones."""
        for number, other in self._to_compare(*self._same.pairs(folded.hashes()), done):
            done.add((number, other))
            self._likeness[other] = max(self._likeness[other], Likeness.NEAR)
            yield number, other, Likeness.NEAR
        for number, other in self._to_compare(*self._candidates(folded), done):
            if not self._every and self._likeness[other] >= Likeness.NEAR or self._compared[other] >= _MOST_COMPARED:
                continue
            if self._coefficient(folded, number, other) >= NEAR:
                self._likeness[other] = max(self._likeness[other], Likeness.NEAR)
                yield number, other, Likeness.NEAR
            elif not self._every:
                self._compared[other] += 1

    def _candidates(self, folded: _Folded) -> tuple[np.ndarray, np.ndarray]:
        """Return pairs of lines of the block and held-out lines that share a band and at least 14 of 24 hashes, which
        all but a few in a thousand of the near matches do (at a coefficient of 0.8 the mean is 19)."""
        usable, signatures = folded.lengths >= LEAST_LETTERS, folded.signatures()
        keys = _band_keys(signatures)
        pairs = [lookup.pairs(keys[:, band], usable) for band, lookup in enumerate(self._near)]
        count = len(self._likeness)
        joined = np.unique(np.concatenate([numbers * count + others for numbers, others in pairs]))
        numbers, others = joined // count, joined % count
        agree = (signatures[numbers] == self._signatures[others]).sum(axis=1) >= _LEAST_AGREEING
        return numbers[agree], others[agree]

    def _to_compare(self, numbers: np.ndarray, others: np.ndarray, done: set[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the pairs that still have to be compared."""
        if not self._every:
            open_ = self._likeness[others] < Likeness.NEAR
            numbers, others = numbers[open_], others[open_]
        return [pair for pair in zip(numbers.tolist(), others.tolist(), strict=True) if pair not in done]

    def _coefficient(self, folded: _Folded, number: int, other: int) -> float:
        """Return the Jaccard coefficient of the 4-grams of two lines."""
        if other not in self._pieces:
            self._pieces[other] = self._folded.pieces(other)
        mine, theirs = folded.pieces(number), self._pieces[other]
        shared = len(mine & theirs)
        return shared / (len(mine) + len(theirs) - shared)


class _Folded:
    """A block of lines reduced to letters and digits without case."""

    def __init__(self, block: TextBlock) -> None:
        codes = characters().folded[block.codes]
        self.lengths = block.count(codes != 0)
        self.codes = codes[codes != 0]
        self.ends = np.cumsum(self.lengths)

    def pieces(self, number: int) -> frozenset[bytes]:
        """Return the set of 4-grams of a line."""
        raw = self.codes[self.ends[number] - self.lengths[number] : self.ends[number]].tobytes()
        step = self.codes.itemsize
        return frozenset(raw[i : i + PIECE * step] for i in range(0, len(raw) - (PIECE - 1) * step, step))

    def hashes(self) -> np.ndarray:
        """Return a hash of each whole line, 0 for empty ones: uint64 [N]."""
        found = np.zeros(len(self.lengths), dtype=np.uint64)
        filled = np.flatnonzero(self.lengths)
        if len(filled):
            starts = (self.ends - self.lengths)[filled]
            place = np.arange(len(self.codes), dtype=np.uint64) - np.repeat(starts, self.lengths[filled]).astype(
                np.uint64
            )
            mixed = _mixed(self.codes.astype(np.uint64) + (place << np.uint64(32)))
            found[filled] = np.add.reduceat(mixed, starts)
        return found

    def signatures(self) -> np.ndarray:
        """Return each line's MinHash signature over its 4-grams, 0 for short lines: uint32 [N, hashes]."""
        found = np.zeros((len(self.lengths), _BANDS * _ROWS), dtype=np.uint32)
        long = np.flatnonzero(self.lengths >= LEAST_LETTERS)
        if len(long):
            pieces, starts = self._piece_hashes(long)
            random = np.random.default_rng(20260101)
            values = np.empty_like(pieces)
            for number, factor in enumerate(random.integers(2**64, size=_BANDS * _ROWS, dtype=np.uint64)):
                np.multiply(pieces, factor | np.uint64(1), out=values)
                found[long, number] = np.minimum.reduceat(values, starts) >> np.uint64(32)
        return found

    def _piece_hashes(self, long: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the hashes of all 4-grams of some lines, uint64, and where those of each line begin."""
        codes = self.codes.astype(np.uint64)
        hashed = codes[: len(codes) - PIECE + 1].copy()
        for offset in range(1, PIECE):
            hashed *= _MIX
            hashed += codes[offset : len(codes) - PIECE + 1 + offset]
        counts = self.lengths[long] - (PIECE - 1)
        starts = np.cumsum(counts) - counts
        first = (self.ends - self.lengths)[long]
        where = np.arange(int(counts.sum())) + np.repeat(first - starts, counts)
        return _mixed(hashed[where]), starts


class _Lookup:
    """Finds the held-out lines with a given key."""

    def __init__(self, keys: np.ndarray, usable: np.ndarray) -> None:
        numbers = np.flatnonzero(usable)
        order = np.argsort(keys[numbers], kind="stable")
        self._numbers, self._keys = numbers[order], keys[numbers][order]

    def pairs(self, keys: np.ndarray, usable: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return pairs of rows of `keys` and held-out lines that have equal keys, each int64 [pairs]."""
        rows = np.arange(len(keys)) if usable is None else np.flatnonzero(usable)
        if not len(self._keys):
            return rows[:0], rows[:0]
        first = np.searchsorted(self._keys, keys[rows], side="left")
        met = np.flatnonzero(self._keys[np.minimum(first, len(self._keys) - 1)] == keys[rows])
        rows, first = rows[met], first[met]
        counts = np.searchsorted(self._keys, keys[rows], side="right") - first
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(rows, counts), self._numbers[np.repeat(first, counts) + within]


def _band_keys(signatures: np.ndarray) -> np.ndarray:
    """Return a key for each band of hashes, equal for lines whose hashes in the band are equal: uint64 [N, bands]."""
    key = np.zeros((len(signatures), _BANDS), dtype=np.uint64)
    for row in range(_ROWS):
        key = _mixed(key + signatures[:, row::_ROWS])
    return key


def _mixed(values: np.ndarray) -> np.ndarray:
    """Return uint64 values with their bits mixed (the finaliser of MurmurHash3)."""
    values = values ^ (values >> np.uint64(33))
    values = values * np.uint64(0xFF51AFD7ED558CCD)
    values ^= values >> np.uint64(33)
    values *= np.uint64(0xC4CEB9FE1A85EC53)
    values ^= values >> np.uint64(33)
    return values


_KEPT = 4096
"""The number of hashes that are kept."""
_LEAST = 5
"""The number of sampled pairs from which a share is estimated."""

Rows = Iterable[Sequence[int] | np.ndarray]
"""The ids of each line."""


def sketch_of(src: Rows, tgt: Rows) -> str:
    """Return the smallest hashes of pairs of ids as text."""
    return base64.b64encode(_hashes(src, tgt)[:_KEPT].tobytes()).decode()


def share_seen(sketch: str, src: Rows, tgt: Rows) -> float | None:
    """Return the estimated share of pairs that are in the text of a sketch; None if too few of them tell."""
    known = np.frombuffer(base64.b64decode(sketch), "<u4")
    found = _hashes(src, tgt)
    if len(known) == _KEPT:
        found = found[found <= known[-1]]
    return float(np.isin(found, known).mean()) if len(known) and len(found) >= _LEAST else None


def _hashes(src: Rows, tgt: Rows) -> np.ndarray:
    """Return the distinct hashes of pairs, smallest first: uint32."""
    sides = (map(_bytes, rows) for rows in (src, tgt))
    return np.unique(np.fromiter((zlib.crc32(two, zlib.crc32(one)) for one, two in zip(*sides, strict=True)), "<u4"))


def _bytes(ids: Sequence[int] | np.ndarray) -> bytes:
    return np.asarray(ids, "<i4").tobytes()
