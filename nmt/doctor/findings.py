"""The findings about a corpus: counts, and examples with their line numbers; printed as text or JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

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
    """A name from `nmt.data.quality.filter.FAULTS`, or one of a few others."""
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
        share = f" ({_percent(self.count / self.total)})" if self.total else ""
        counted = f"{self.count:,} of {self.total:,} {self.unit}{share} " if self.total else ""
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


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}" if share >= 0.001 else "under 0.1%"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
