"""Progress and warnings during work; a warning about lines is given once for each kind, not for each line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

_SHOWN = 5
"""Number of line numbers listed for each kind."""

Show = Callable[[str], None]
"""A function that receives a line of text to show."""


def tell_nobody(text: str) -> None:
    """Discard the text: a Show for no output."""


@dataclass
class _Kind:
    count: int = 0
    first: list[int] = field(default_factory=list)


class Notices:
    """Collects warnings about the lines of a text."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}

    def add(self, number: int, warnings: Iterable[str]) -> None:
        """Record warnings about line `number`, counted from 0; duplicates count once."""
        for text in dict.fromkeys(warnings):
            kind = self._kinds.setdefault(text, _Kind())
            kind.count += 1
            if len(kind.first) < _SHOWN:
                kind.first.append(number + 1)

    def told(self) -> list[str]:
        """Return a text for each kind of warning: the problem, the number of lines, and the first line numbers, counted
        from 1."""
        found = []
        for text, kind in self._kinds.items():
            numbers = ", ".join(map(str, kind.first))
            more = ", ..." if kind.count > len(kind.first) else ""
            where = f"line {numbers}" if kind.count == 1 else f"{kind.count:,} lines: {numbers}{more}"
            found.append(f"{text} ({where})")
        return found
