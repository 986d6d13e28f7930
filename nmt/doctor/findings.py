"""What was found in a corpus: counts, and examples with their lines; as lines of text and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

SHOWN = 5
"""Examples kept of a kind."""
_WIDTH = 90
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True)
class Example:
    """Line `line` of a file, counted from 1, and what stands there, shortened."""

    line: int
    text: str

    @classmethod
    def of(cls, line: int, *texts: str) -> Example:
        """Return an example of one line or of the lines of both sides."""
        return cls(line, " ||| ".join(map(_shortened, texts)))


@dataclass(frozen=True)
class Finding:
    """One kind of trouble in one file or pair of files."""

    name: str
    """As in `nmt.data.quality.faults.FAULTS`, and some more."""
    level: Literal["error", "warning"]
    """With an error training cannot work, or teaches nonsense."""
    where: str
    count: int
    total: int
    what: str
    """What is true of so many of all: `200 of 1,000 lines WHAT`."""
    unit: str = "lines"
    examples: tuple[Example, ...] = ()
    advice: str = ""

    def line(self) -> str:
        """Return one line of text: where, how many, what, the lines' numbers, what to do."""
        if not self.what:
            return self.where  # an error that is a line already
        share = f" ({_percent(self.count / self.total)})" if self.total else ""
        counted = f"{self.count:,} of {self.total:,} {self.unit}{share} " if self.total else ""
        numbers = ", ".join(str(example.line) for example in self.examples)
        more = ", ..." if self.count > len(self.examples) else ""
        lines = f" (line{'s' if len(self.examples) > 1 else ''} {numbers}{more})" if self.examples else ""
        return f"{self.where}: {counted}{self.what}{lines}" + (f"; {self.advice}" if self.advice else "")

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return {**vars(self), "examples": [vars(example) for example in self.examples]}


@dataclass
class Findings:
    """All that was found."""

    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    """Lines looked at of each text, by its prefix."""
    seconds: float = 0.0
    complete: bool = True
    """Whether all lines of the training text were looked at."""

    @property
    def errors(self) -> list[Finding]:
        """Return those with which training cannot work."""
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """Return the others."""
        return [finding for finding in self.findings if finding.level == "warning"]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, for JSON."""
        return {
            "lines": self.counts,
            "complete": self.complete,
            "seconds": round(self.seconds, 1),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def summary(self) -> str:
        """Return what was looked at, in a line."""
        looked = ", ".join(f"{count:,} of {name}" for name, count in self.counts.items())
        part = "" if self.complete else ", the first lines alone"
        return f"data: looked at {looked}{part} in {self.seconds:.1f} s: {_counted(len(self.errors), 'error')}, " + (
            _counted(len(self.warnings), "warning")
        )

    def page(self) -> str:
        """For a person: every finding with its examples."""
        lines = [self.summary()]
        for finding in (*self.errors, *self.warnings):
            lines += ["", f"{finding.level}: {finding.line()}"]
            lines += [f"    {example.line:>9,}  {example.text}" for example in finding.examples if example.text]
        return "\n".join(lines)


class Tally:
    """How many lines have a fault, and the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self.examples: list[Example] = []

    def add(self, marked: np.ndarray, start: int, *sides: Sequence[str]) -> None:
        """Note the lines that are marked (bool [N]) of a block whose first line is number `start`, from 0."""
        numbers = np.flatnonzero(marked)
        self.count += len(numbers)
        for number in numbers[: SHOWN - len(self.examples)].tolist():
            self.examples.append(Example.of(start + number + 1, *(side[number] for side in sides)))

    def finding(self, name: str, where: str, total: int, what: str, **more: Any) -> Finding:
        """Return the finding, a warning unless `more` says otherwise."""
        more.setdefault("level", "warning")
        return Finding(
            name, where=where, count=self.count, total=total, what=what, examples=tuple(self.examples), **more
        )


def found(findings: Iterable[Finding | None]) -> list[Finding]:
    """Return those that have something to tell."""
    return [finding for finding in findings if finding is not None and finding.count]


def _shortened(text: str) -> str:
    """Return a line in a form that a terminal can show."""
    text = _UNPRINTABLE.sub(lambda match: f"\\x{_code(match[0]):02x}", text[: 2 * _WIDTH])
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def _code(character: str) -> int:
    """Return the byte behind a lone surrogate that stands for one, else the code point."""
    code = ord(character)
    return code - 0xDC00 if 0xDC80 <= code < 0xDD00 else code


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}" if share >= 0.001 else "under 0.1%"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
