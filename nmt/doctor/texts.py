"""Read the texts of a run, both sides together, and find the faults of single lines and pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from nmt.data.corpora.corpus import clean_lines
from nmt.data.corpora.looking import columns_advice
from nmt.data.corpora.sources import Source, format_of
from nmt.data.quality.filter import FaultFinder, has_bad_bytes
from nmt.data.tokens.characters import TextBlock
from nmt.doctor.findings import Finding, Tally

if TYPE_CHECKING:
    from nmt.config import SideConfig

BLOCK = 16_384
"""The number of lines checked together."""
# What is true of this share of lines is normal for the text and not a mistake.
_USUAL = 0.5

CUT = ("bpe", "pieces", "joiners")
"""Faults of text that another tool has cut into subwords."""
_LEAST_CUT = 0.01
_UNCUT = "give the plain text, which nmt cuts itself:"
_TEXTS = {
    "encoding": ("contain characters broken by a wrong encoding", "decode the text correctly, or remove them"),
    "control": ("contain control characters", "they are read as spaces"),
    "markup": ("contain tags or entities of HTML or XML", "take them out, unless they are to be translated"),
    "bpe": ("contain words that were cut by subword-nmt", f"{_UNCUT} sed 's/@@ //g'"),
    "pieces": ("contain words that were cut by sentencepiece", f"{_UNCUT} sed 's/ //g; s/▁/ /g; s/^ //'"),
    "joiners": ("contain words that were cut by OpenNMT's tokenizer", f"{_UNCUT} sed 's/ ￭//g; s/￭ //g'"),
    "script": ("are for the most part in another script than the rest", ""),
    "mixed": ("have words that mix similar letters of two scripts", ""),
    "same": ("have the same text on both sides", ""),
    "ratio": ("have sides of very unequal length", "they may be no translations of one another"),
}
"""The text for each fault, and advice in addition to dropping the lines."""
_FILTERED = ("encoding", "control", "markup", "script", "same", "ratio")
FILTERS = {"ratio": "max_length_ratio"}
"""The rule of data.filter for a fault, where it has another name."""


@dataclass(frozen=True)
class Block:
    """Lines of all sides, as read and as cleaned. `start`: the number of the first line, from 0."""

    start: int
    raw: list[list[str]]
    clean: list[list[str]]

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.raw[0])


class Text:
    """One of data.train, data.dev and data.test.

    Args:
        source: The prefix of its files, or one of several corpora. Line numbers run on through all files.
        sides: Source and target, or the one side of a language model.
        is_filtered: Whether data.filter applies, as it does to the training text alone.
        all_rows: Whether findings have the numbers of all their lines.
    """

    def __init__(
        self, source: str | Source, sides: list[SideConfig], is_filtered: bool = True, *, all_rows: bool = False
    ) -> None:
        self.is_filtered, self.all_rows = is_filtered, all_rows
        source = Source(source) if isinstance(source, str) else source
        self.source, self.prefix, self.sides = source, source.path, sides
        is_lines = format_of(source.path) == "lines"
        self.files = [f"{self.prefix}.{side.lang}" if is_lines else f"{self.prefix} ({side.lang})" for side in sides]
        if source.tgt_path is not None:
            self.files = [source.path, source.tgt_path][-len(sides) :]
        self.where = ", ".join(self.files) if is_lines else self.prefix
        self.total = 0
        """The number of pairs, or lines, that were read."""
        self.counts = [0] * len(sides)
        """The number of lines of each file."""
        self._bytes = [Tally(all_rows) for _ in sides]
        self._empty = [Tally(all_rows) for _ in sides]
        self._faults: dict[tuple[str, int], Tally] = {}
        self._finder = FaultFinder()

    def blocks(self, limit: int | None = None) -> Iterator[Block]:
        """Read, check and yield the lines in blocks, at most `limit`. Raises DataError for what is no text."""
        for part in self.source.parts([side.lang for side in self.sides]):
            rows = part.rows(lenient=True)
            while rows_here := list(islice(rows, BLOCK if limit is None else min(BLOCK, limit - self.total))):
                whole = [row for row in rows_here if None not in row]
                all_whole = len(whole) == len(rows_here)
                for side in range(len(self.sides)):
                    self.counts[side] += len(whole) if all_whole else sum(row[side] is not None for row in rows_here)
                if whole:
                    yield self._check([[str(line) for line in lines] for lines in zip(*whole, strict=True)])
                if not all_whole:
                    for row in rows:
                        self.counts = [count + (line is not None) for count, line in zip(self.counts, row, strict=True)]
                    return

    def findings(self) -> list[Finding]:
        """Return the findings about single lines and pairs, after all blocks were read."""
        if len(set(self.counts)) > 1:
            what = (
                f"must have the same number of lines, got {self.counts[0]} and {self.counts[1]}; line n of one must "
                "translate line n of the other"
            )
            return [Finding("unequal", "error", self.where, abs(self.counts[0] - self.counts[1]), 0, what)]
        if not self.total:
            noun = "pair of sentences" if len(self.sides) == 2 else "line of text"
            return [Finding("empty", "error", self.where, 1, 0, f"must contain at least one {noun}, got none")]
        found: list[Finding] = []
        for side, file in enumerate(self.files):
            tally = self._bytes[side]
            if tally.count:
                what = f"line {tally.examples[0].line} must be UTF-8, got other bytes, as in {tally.count:,} of "
                what += f"{self.total:,} lines"
                examples, advice = tuple(tally.examples), "convert the text to UTF-8"
                rows = tally.finding("", "", 0, "").rows
                found.append(Finding("utf-8", "error", file, tally.count, 0, what, "lines", examples, advice, rows))
            tally = self._empty[side]  # nothing can be learned if all are empty
            level = "error" if tally.count == self.total else "warning"
            advice = columns_advice(self.prefix) if level == "error" and format_of(self.prefix) != "lines" else ""
            found.append(tally.finding("empty", file, self.total, "are empty", level=level, advice=advice))
        for (name, side), tally in self._faults.items():
            if name in ("script", "mixed") and tally.count > _USUAL * self.total:
                continue
            if name in CUT and tally.count < _LEAST_CUT * self.total:
                continue  # these signs may stand in a text
            what, advice = _TEXTS[name]
            if name in _FILTERED and self.is_filtered:
                setting = f"data.filter.{FILTERS.get(name, name)} leaves them out of training"
                advice = f"{advice}; {setting}" if advice else setting
            where, unit = (self.where, "pairs") if name in ("same", "ratio") else (self.files[side], "lines")
            found.append(tally.finding(name, where, self.total, what, advice=advice, unit=unit))
        return [finding for finding in found if finding.count]

    def _check(self, raw: list[list[str]]) -> Block:
        """Clean a block of lines, count its faults, and return it."""
        clean = [
            clean_lines(lines, config.lowercase, config.normalize)
            for lines, config in zip(raw, self.sides, strict=True)
        ]
        block = Block(self.total, raw, clean)
        self.total += len(block)
        for side, lines in enumerate(clean):
            self._bytes[side].add(has_bad_bytes(TextBlock(raw[side])), block.start, raw[side])
            empty = np.fromiter((not line for line in lines), dtype=bool, count=len(lines))
            self._empty[side].add(empty, block.start, *(raw[1 - side : 2 - side] if len(raw) == 2 else []))
        for name, masks in self._finder.find(raw, clean).items():
            for side, mask in enumerate(masks):
                shown = raw if len(masks) < len(raw) else [raw[side]]
                self._faults.setdefault((name, side), Tally(self.all_rows)).add(mask, block.start, *shown)
        return block
