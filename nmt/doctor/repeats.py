"""Find duplicate pairs in a training text, and held-out lines that occur in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.data.quality.filter import pair_hashes
from nmt.data.quality.overlap import Likeness, OverlapIndex
from nmt.doctor.findings import SHOWN, Example, Finding
from nmt.doctor.texts import Block, Text

MOST_HASHES = 4_000_000
"""The largest number of hashes kept, 64 MB with their line numbers; of more pairs, a sample is kept."""


class Duplicates:
    """Counts duplicate pairs.

    The sample is chosen by the hashes themselves: only hashes divisible by a power of two are kept, so that either all
    copies of a pair are in the sample or none.
    """

    def __init__(self, most: int = MOST_HASHES) -> None:
        self._most, self._divisor = most, 1
        self._hashes: list[np.ndarray] = []
        self._numbers: list[np.ndarray] = []
        self._kept = 0

    def add(self, block: Block) -> None:
        """Count the pairs of a block, except empty ones."""
        hashes = pair_hashes(block.clean[0], block.clean[-1])
        full = np.fromiter((bool(line) for line in block.clean[-1]), dtype=bool, count=len(block))
        self._keep(hashes, np.flatnonzero(full & (hashes % self._divisor == 0)), block.start)
        while self._kept > self._most:
            self._divisor *= 2
            hashes, numbers = np.concatenate(self._hashes), np.concatenate(self._numbers)
            self._hashes, self._numbers, self._kept = [], [], 0
            rest = np.flatnonzero(hashes % self._divisor == 0)
            self._hashes, self._numbers, self._kept = [hashes[rest]], [numbers[rest]], len(rest)

    def finding(self, text: Text) -> Finding | None:
        """Return the finding, or None; if it is based on a sample, it says that the number is an estimate."""
        if not self._kept:
            return None
        hashes, numbers = np.concatenate(self._hashes), np.concatenate(self._numbers)
        order = np.lexsort((numbers, hashes))
        again = np.flatnonzero(hashes[order][1:] == hashes[order][:-1]) + 1
        if not len(again):
            return None
        repeated, before = numbers[order][again], numbers[order][again - 1]
        first = np.argsort(repeated)[:SHOWN]
        pairs = zip(repeated[first].tolist(), before[first].tolist(), strict=True)
        unit = "pairs" if len(text.sides) == 2 else "lines"
        about = "" if self._divisor == 1 else f" (estimated from one in {self._divisor:,})"
        return Finding(
            "duplicates",
            "warning",
            text.where,
            len(again) * self._divisor,
            text.total,
            f"repeat an earlier one{about}",
            unit,
            tuple(Example(line + 1, f"as line {other + 1}") for line, other in pairs),
            "data.filter.duplicates keeps the first of each" if unit == "pairs" else "",
            tuple((np.sort(repeated) + 1).tolist()) if text.all_rows else (),
        )

    def _keep(self, hashes: np.ndarray, places: np.ndarray, start: int) -> None:
        self._hashes.append(hashes[places])
        self._numbers.append(places + start)
        self._kept += len(places)


_REPORTED = {"none": (Likeness.EXACT, Likeness.NEAR), "exact": (Likeness.NEAR,), "near": ()}
"""The matches that are reported, by data.filter.overlap, which keeps the others out of training."""


class Overlap:
    """Looks for the lines of held-out texts in the training text. `texts`: the held-out texts, each with its cleaned
    lines of one or both sides; `filtered`: data.filter.overlap, the matches that are kept out of training and therefore
    no findings; `named`: whether findings name the training text, one of several."""

    def __init__(
        self, texts: Sequence[tuple[Text, Sequence[Sequence[str]]]], filtered: str = "none", named: bool = False
    ) -> None:
        self._reported, self._named = _REPORTED[filtered], named
        self._texts = list(texts) if self._reported else []
        self._lines = OverlapIndex([line for _, sides in self._texts for line in sides[0]])
        self._pairs = OverlapIndex([pair for _, sides in self._texts for pair in _joined(sides)])
        self._examples: dict[int, tuple[Likeness, int]] = {}

    def add(self, block: Block) -> None:
        """Look for matches in a block of the training text."""
        if not self._texts:
            return
        for match in self._lines.find(block.clean[0]):
            best = self._examples.get(match.held_out)
            if best is None or best[0] < match.likeness:
                self._examples[match.held_out] = (match.likeness, block.start + match.number)
        self._pairs.find(_joined(block.clean), near=False)

    def findings(self, train: Text) -> list[Finding]:
        """Return the findings for all held-out texts."""
        findings, start = [], 0
        for text, sides in self._texts:
            if (finding := self._finding(train, text, start, len(sides[0]))) is not None:
                findings.append(finding)
            start += len(sides[0])
        return findings

    def _finding(self, train: Text, text: Text, start: int, size: int) -> Finding | None:
        """Return the finding, or None, for the text of `size` lines from number `start` of all held-out lines."""
        likeness = self._lines.likeness[start : start + size]
        pairs = self._pairs.likeness[start : start + size] == Likeness.EXACT
        exact, near = (
            int((likeness == kind).sum()) if kind in self._reported else 0 for kind in (Likeness.EXACT, Likeness.NEAR)
        )
        if not exact + near:
            return None
        is_pair = len(text.sides) == 2
        whole = f" ({int(pairs.sum()):,} of them with the same translation)" if is_pair else ""
        # Only the first of equal lines has a match of its own, and it may belong to another text.
        here = [
            number - start
            for number, (kind, _) in self._examples.items()
            if start <= number < start + size and kind in self._reported
        ]
        most_alike = sorted(here, key=lambda number: (-self._examples[start + number][0], not pairs[number], number))
        examples = []
        for number in most_alike[:SHOWN]:
            kind, line = self._examples[start + number]
            what = "as" if kind == Likeness.EXACT else "nearly as"
            examples.append(Example(number + 1, f"{what} line {line + 1} of {train.files[0]}"))
        lines = "source lines" if is_pair else "lines"
        corpus = f" {train.prefix}" if self._named else ""
        return Finding(
            "overlap",
            "warning",
            text.where,
            exact + near,
            size,
            f"have {lines} that are in the training text{corpus}: {exact:,} letter for letter{whole}, {near:,} nearly "
            "so",
            "pairs" if is_pair else "lines",
            tuple(examples),
            "scores on them measure memorisation; data.filter.overlap removes them from training",
        )


def _joined(sides: Sequence[Sequence[str]]) -> list[str]:
    """Return each pair as a single line, with the sides separated by a tab, which cleaned lines cannot contain."""
    return ["\t".join(pair) if all(pair) else "" for pair in zip(*sides, strict=True)]
