"""Read the texts of a run, both sides together; find the faults of single lines and pairs, duplicate pairs in a
training text, and held-out lines that occur in it. Findings are counts, and examples with their line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nmt.data.corpora.corpus import clean_lines
from nmt.data.corpora.looking import columns_advice
from nmt.data.corpora.sources import Source, format_of
from nmt.data.quality.filter import FaultFinder, has_bad_bytes, pair_hashes
from nmt.data.quality.overlap import Likeness, OverlapIndex
from nmt.data.tokens.characters import TextBlock

if TYPE_CHECKING:
    from nmt.config import SideConfig

SHOWN = 5
"""The number of examples kept of each kind."""
_WIDTH = 90
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True)
class Example:
    """The shortened text of line `line` of a file, counted from 1."""

    line: int
    text: str

    @classmethod
    def of(cls, line: int, *texts: str) -> Example:
        """Return an example made of one line, or of the lines of both sides."""
        return cls(line, " ||| ".join(map(_shortened, texts)))


@dataclass(frozen=True)
class Finding:
    """One kind of problem in one file or pair of files."""

    name: str
    """A name from `nmt.data.quality.faults.FAULTS`, or one of a few others."""
    level: Literal["error", "warning"]
    """With an error, training cannot work or learns nonsense."""
    where: str
    count: int
    total: int
    what: str
    """The statement about these lines: `200 of 1,000 lines WHAT`."""
    unit: str = "lines"
    examples: tuple[Example, ...] = ()
    advice: str = ""
    rows: tuple[int, ...] = field(default=(), repr=False)
    """The numbers of all these lines, from 1, where they were asked for."""

    def line(self) -> str:
        """Return a one-line text: where, how many, what, line numbers, and what to do."""
        if not self.what:
            return self.where  # an error message that is a complete line
        share = self.count / max(1, self.total)
        percent = f"{share:.0%}" if share >= 0.1 else f"{share:.1%}" if share >= 0.001 else "under 0.1%"
        counted = f"{self.count:,} of {self.total:,} {self.unit} ({percent}) " if self.total else ""
        numbers = ", ".join(str(example.line) for example in self.examples)
        more = ", ..." if self.count > len(self.examples) else ""
        lines = f" (line{'s' if len(self.examples) > 1 else ''} {numbers}{more})" if self.examples else ""
        return f"{self.where}: {counted}{self.what}{lines}" + (f"; {self.advice}" if self.advice else "")

    def to_dict(self) -> dict[str, Any]:
        """Return all fields but `rows`, for JSON."""
        fields = {name: value for name, value in vars(self).items() if name != "rows"}
        return {**fields, "examples": [vars(example) for example in self.examples]}


@dataclass
class Findings:
    """All findings of one run."""

    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    """The number of lines checked of each text, by its prefix."""
    seconds: float = 0.0
    complete: bool = True
    """Whether all lines of the training text were checked."""

    @property
    def errors(self) -> list[Finding]:
        """Return the findings that make training impossible."""
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """Return the other findings."""
        return [finding for finding in self.findings if finding.level == "warning"]

    def to_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        return {
            "lines": self.counts,
            "complete": self.complete,
            "seconds": round(self.seconds, 1),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def summary(self) -> str:
        """Return a one-line text that says what was checked."""
        looked = ", ".join(f"{count:,} of {name}" for name, count in self.counts.items())
        part = "" if self.complete else ", the first lines alone"
        return f"data: looked at {looked}{part} in {self.seconds:.1f} s: {_counted(len(self.errors), 'error')}, " + (
            _counted(len(self.warnings), "warning")
        )

    def page(self) -> str:
        """Return a readable text of every finding with its examples."""
        lines = [self.summary()]
        for finding in (*self.errors, *self.warnings):
            lines += ["", f"{finding.level}: {finding.line()}"]
            lines += [f"    {example.line:>9,}  {example.text}" for example in finding.examples if example.text]
        return "\n".join(lines)


class Tally:
    """Counts the lines with a fault, and keeps the first of them; with `all_rows` the numbers of all."""

    def __init__(self, all_rows: bool = False) -> None:
        self.count = 0
        self.examples: list[Example] = []
        self._rows: list[int] | None = [] if all_rows else None

    def add(self, marked: np.ndarray, start: int, *sides: Sequence[str]) -> None:
        """Count the marked lines (bool [N]) of a block whose first line has number `start`, from 0."""
        numbers = np.flatnonzero(marked)
        self.count += len(numbers)
        if self._rows is not None:
            self._rows += (numbers + (start + 1)).tolist()
        for number in numbers[: SHOWN - len(self.examples)].tolist():
            self.examples.append(Example.of(start + number + 1, *(side[number] for side in sides)))

    def finding(self, name: str, where: str, total: int, what: str, **more: Any) -> Finding:
        """Return the finding, a warning unless `more` says otherwise."""
        more.setdefault("level", "warning")
        more |= {"examples": tuple(self.examples), "rows": tuple(self._rows or ())}
        return Finding(name, where=where, count=self.count, total=total, what=what, **more)


def found(findings: Iterable[Finding | None]) -> list[Finding]:
    """Return the findings that are not None."""
    return [finding for finding in findings if finding is not None and finding.count]


def _shortened(text: str) -> str:
    """Return a line shortened and made safe for a terminal."""
    text = _UNPRINTABLE.sub(lambda match: f"\\x{_code(match[0]):02x}", text[: 2 * _WIDTH])
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def _code(character: str) -> int:
    """Return the byte that a lone surrogate represents, or else the code point."""
    code = ord(character)
    return code - 0xDC00 if 0xDC80 <= code < 0xDD00 else code


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


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
_FILTERED = {"encoding": "true", "control": "true", "markup": "true", "script": "true", "same": "true", "ratio": "4"}
FILTERS = {"ratio": "max_length_ratio"}
"""The rule of data.filter for a fault, where it has another name."""


@dataclass(frozen=True)
class Block:
    """Lines of all sides, as read and as cleaned. `start`: the number of the first line, from 0."""

    start: int
    raw: list[list[str]]
    clean: list[list[str]]

    def __len__(self) -> int:
        return len(self.raw[0])


class Text:
    """One of data.train, data.dev and data.test. source: the prefix of its files, or a corpus; lines are numbered
    through all files. is_filtered: whether data.filter applies. all_rows: whether findings number all lines."""

    def __init__(
        self, source: str | Source, sides: list[SideConfig], is_filtered: bool = True, *, all_rows: bool = False
    ) -> None:
        self.is_filtered, self.all_rows = is_filtered, all_rows
        source = Source(source) if isinstance(source, str) else source
        self.source, self.prefix, self.sides = source, source.path, sides
        is_lines = format_of(source.path) == "lines"
        self.files = [f"{self.prefix}.{side.lang}" if is_lines else f"{self.prefix} ({side.lang})" for side in sides]
        if source.tgt_path is not None:
            self.files = [source.path, source.tgt_path]
        self.where = ", ".join(self.files) if is_lines else self.prefix
        self.total = 0
        """The number of pairs, or lines, that were read."""
        self._above = 0
        """The number of rows with headings, and above them, that were read."""
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
            self._above += part.look.heading if part.look else 0
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
            what = "must contain at least one pair of sentences, got none"
            return [Finding("empty", "error", self.where, 1, 0, what)]
        found: list[Finding] = []
        for side, file in enumerate(self.files):
            tally = self._bytes[side]
            if tally.count:
                what = f"line {tally.examples[0].line} must be UTF-8, got other bytes, as in {tally.count:,} of "
                what += f"{self.total:,} lines"
                found.append(tally.finding("utf-8", file, 0, what, level="error", advice="convert the text to UTF-8"))
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
                setting = f"--set data.filter.{FILTERS.get(name, name)}={_FILTERED[name]} leaves them out of training"
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
        block = Block(self._above + self.total, raw, clean)
        self.total += len(block)
        for side, lines in enumerate(clean):
            self._bytes[side].add(has_bad_bytes(TextBlock(raw[side])), block.start, raw[side])
            empty = np.fromiter((not line for line in lines), dtype=bool, count=len(lines))
            self._empty[side].add(empty, block.start, raw[1 - side])
        for name, masks in self._finder.find(raw, clean).items():
            for side, mask in enumerate(masks):
                shown = raw if len(masks) < len(raw) else [raw[side]]
                self._faults.setdefault((name, side), Tally(self.all_rows)).add(mask, block.start, *shown)
        return block


MOST_HASHES = 4_000_000
"""The largest number of hashes kept, 64 MB with their line numbers; of more pairs, a sample is kept."""


class Duplicates:
    """Counts duplicate pairs; of many, only those whose hashes a power of two divides, all copies of a pair or none."""

    def __init__(self, most: int = MOST_HASHES) -> None:
        self._most, self._divisor = most, 1
        self._hashes: list[np.ndarray] = []
        self._numbers: list[np.ndarray] = []
        self._kept = 0

    def add(self, block: Block) -> None:
        """Count the pairs of a block, except empty ones."""
        hashes = pair_hashes(block.clean[0], block.clean[-1])
        full = np.fromiter((bool(line) for line in block.clean[-1]), dtype=bool, count=len(block))
        places = np.flatnonzero(full & (hashes % self._divisor == 0))
        self._hashes.append(hashes[places])
        self._numbers.append(places + block.start)
        self._kept += len(places)
        while self._kept > self._most:
            self._divisor *= 2
            hashes, numbers = np.concatenate(self._hashes), np.concatenate(self._numbers)
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
        about = "" if self._divisor == 1 else f" (estimated from one in {self._divisor:,})"
        return Finding(
            "duplicates",
            "warning",
            text.where,
            len(again) * self._divisor,
            text.total,
            f"repeat an earlier one{about}",
            "pairs",
            tuple(Example(line + 1, f"as line {other + 1}") for line, other in pairs),
            "--set data.filter.duplicates=true keeps the first of each",
            tuple((np.sort(repeated) + 1).tolist()) if text.all_rows else (),
        )


_REPORTED = {"none": (Likeness.EXACT, Likeness.NEAR), "exact": (Likeness.NEAR,), "near": ()}
"""The matches that are reported, by data.filter.overlap, which keeps the others out of training."""


class Overlap:
    """Looks for the lines of held-out texts, each with its cleaned lines, in the training text. `filtered`:
    data.filter.overlap, whose matches are no findings; `named`: whether findings name the training text."""

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
        corpus = f" {train.prefix}" if self._named else ""
        return Finding(
            "overlap",
            "warning",
            text.where,
            exact + near,
            size,
            f"have source lines that are in the training text{corpus}: {exact:,} letter for letter "
            f"({int(pairs.sum()):,} of them with the same translation), {near:,} nearly so",
            "pairs",
            tuple(examples),
            "scores on them measure memorisation; data.filter.overlap removes them from training",
        )


def _joined(sides: Sequence[Sequence[str]]) -> list[str]:
    """Return each pair as a single line, with the sides separated by a tab, which cleaned lines cannot contain."""
    return ["\t".join(pair) if all(pair) else "" for pair in zip(*sides, strict=True)]
