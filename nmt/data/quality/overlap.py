"""Lines of held-out text that stand in the training text as well, letter for letter or nearly.

Near means one of two things. Either the lines are equal but for case, punctuation and spaces; or both have 16 letters
or more and share at least 0.8 of their pieces of four letters (the Jaccard coefficient of the two sets, as Broder 1997
and Lee et al. 2022, section 4.2, measure near duplicates). Candidates are found by MinHash in bands (Broder 1997;
Leskovec, Rajaraman and Ullman, chapter 3) and then compared in full: what is reported is near for certain, and what is
near is found with a probability of 0.99 at a coefficient of 0.8 and of 0.999 at 0.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from nmt.data.quality.text_block import TextBlock
from nmt.data.tokens.characters import characters

PIECE = 4
LEAST_LETTERS = 16
NEAR = 0.8
_BANDS, _ROWS = 8, 3
_LEAST_AGREEING = 14
# A held-out line that so many lines looked like and were not is looked for no more: text made by templates.
_MOST_COMPARED = 200
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Likeness(IntEnum):
    """How alike two lines are; larger is more."""

    NONE = 0
    NEAR = 1
    EXACT = 2


@dataclass(frozen=True)
class Match:
    """Line `number` of a block looked like line `held_out`."""

    number: int
    held_out: int
    likeness: Likeness


class OverlapIndex:
    """Held-out lines, to be met again.

    Args:
        lines: Cleaned, of any number; empty ones are never met.
        every: Find every match of a block. Otherwise a held-out line that has been met exactly is not looked for
            again, nor one that has been met nearly, but exactly.
    """

    def __init__(self, lines: Sequence[str], *, every: bool = False) -> None:
        self._every = every
        # Words and short phrases repeat; what is compared are different lines.
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
        """Return the number of held-out lines."""
        return len(self._line_of)

    @property
    def likeness(self) -> np.ndarray:
        """int8 [N]: the best match of each line so far, a `Likeness`."""
        likeness: np.ndarray = self._likeness[self._line_of]
        return likeness

    def look(self, lines: Sequence[str], *, near: bool = True) -> list[Match]:
        """Matches among cleaned lines of the training text, those that are exact first. Of equal held-out lines the
        first is named."""
        found: list[tuple[int, int, Likeness]] = []
        for number, line in enumerate(lines):
            other = self._exact.get(line)
            if other is not None:
                found.append((number, other, Likeness.EXACT))
                if not self._every:
                    del self._exact[line]
        done = {(number, other) for number, other, _ in found}
        self._note(found)
        if near and len(self):
            found += self._look_nearly(_Folded(TextBlock(lines)), done)
        return [Match(number, int(self._first[other]), likeness) for number, other, likeness in found]

    def _look_nearly(self, folded: _Folded, done: set[tuple[int, int]]) -> Iterator[tuple[int, int, Likeness]]:
        """Matches that are not exact; `done` are those that are."""
        for number, other in self._wanted(*self._same.pairs(folded.hashes()), done):
            done.add((number, other))
            self._likeness[other] = max(self._likeness[other], Likeness.NEAR)
            yield number, other, Likeness.NEAR
        for number, other in self._wanted(*self._candidates(folded), done):
            if not self._every and self._likeness[other] >= Likeness.NEAR or self._compared[other] >= _MOST_COMPARED:
                continue
            if self._coefficient(folded, number, other) >= NEAR:
                self._likeness[other] = max(self._likeness[other], Likeness.NEAR)
                yield number, other, Likeness.NEAR
            elif not self._every:
                self._compared[other] += 1

    def _candidates(self, folded: _Folded) -> tuple[np.ndarray, np.ndarray]:
        """Return lines of the block and held-out ones with a band in common, and as many hashes as lines that are near
        have but for a few in a thousand (14 of 24 at least; 19 is the mean at a coefficient of 0.8)."""
        usable, signatures = folded.lengths >= LEAST_LETTERS, folded.signatures()
        keys = _band_keys(signatures)
        pairs = [lookup.pairs(keys[:, band], usable) for band, lookup in enumerate(self._near)]
        count = len(self._likeness)
        joined = np.unique(np.concatenate([numbers * count + others for numbers, others in pairs]))
        numbers, others = joined // count, joined % count
        agree = (signatures[numbers] == self._signatures[others]).sum(axis=1) >= _LEAST_AGREEING
        return numbers[agree], others[agree]

    def _wanted(self, numbers: np.ndarray, others: np.ndarray, done: set[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the pairs that are still to be compared."""
        if not self._every:
            open_ = self._likeness[others] < Likeness.NEAR
            numbers, others = numbers[open_], others[open_]
        return [pair for pair in zip(numbers.tolist(), others.tolist(), strict=True) if pair not in done]

    def _note(self, found: Iterable[tuple[int, int, Likeness]]) -> None:
        """Remember the best match of each held-out line."""
        for _, other, likeness in found:
            self._likeness[other] = max(self._likeness[other], likeness)

    def _coefficient(self, folded: _Folded, number: int, other: int) -> float:
        """Return the Jaccard coefficient of the pieces of two lines."""
        if other not in self._pieces:
            self._pieces[other] = self._folded.pieces(other)
        mine, theirs = folded.pieces(number), self._pieces[other]
        shared = len(mine & theirs)
        return shared / (len(mine) + len(theirs) - shared)


class _Folded:
    """A block without case, and without all that is no letter and no digit."""

    def __init__(self, block: TextBlock) -> None:
        codes = characters().folded[block.codes]
        self.lengths = block.count(codes != 0)
        self.codes = codes[codes != 0]
        self.ends = np.cumsum(self.lengths)

    def pieces(self, number: int) -> frozenset[bytes]:
        """Return the pieces of a line, each once."""
        raw = self.codes[self.ends[number] - self.lengths[number] : self.ends[number]].tobytes()
        step = self.codes.itemsize
        return frozenset(raw[i : i + PIECE * step] for i in range(0, len(raw) - (PIECE - 1) * step, step))

    def hashes(self) -> np.ndarray:
        """uint64 [N]: of the whole of each line; of the empty ones 0."""
        found = np.zeros(len(self.lengths), dtype=np.uint64)
        held = np.flatnonzero(self.lengths)
        if len(held):
            starts = (self.ends - self.lengths)[held]
            place = np.arange(len(self.codes), dtype=np.uint64) - np.repeat(starts, self.lengths[held]).astype(
                np.uint64
            )
            mixed = _mixed(self.codes.astype(np.uint64) + (place << np.uint64(32)))
            found[held] = np.add.reduceat(mixed, starts)
        return found

    def signatures(self) -> np.ndarray:
        """uint32 [N, hashes]: of each hash function its least value on the pieces of a line; 0 for lines that are
        short."""
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
        """Hashes of all pieces of some lines, uint64, and where each line's begin."""
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
    """Which held-out lines have a key."""

    def __init__(self, keys: np.ndarray, usable: np.ndarray) -> None:
        numbers = np.flatnonzero(usable)
        order = np.argsort(keys[numbers], kind="stable")
        self._numbers, self._keys = numbers[order], keys[numbers][order]

    def pairs(self, keys: np.ndarray, usable: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return rows of `keys` and held-out lines that have equal ones, each int64 [pairs]."""
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
    """uint64 [N, bands]: equal in a band for lines whose hashes in it are equal."""
    key = np.zeros((len(signatures), _BANDS), dtype=np.uint64)
    for row in range(_ROWS):
        key = _mixed(key + signatures[:, row::_ROWS])
    return key


def _mixed(values: np.ndarray) -> np.ndarray:
    """uint64 values whose bits are spread (the finaliser of MurmurHash3)."""
    values = values ^ (values >> np.uint64(33))
    values = values * np.uint64(0xFF51AFD7ED558CCD)
    values ^= values >> np.uint64(33)
    values *= np.uint64(0xC4CEB9FE1A85EC53)
    values ^= values >> np.uint64(33)
    return values
