"""What is told while work goes on: how far it is, and what may be wrong with lines, once a kind and not once a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

_SHOWN = 5
"""Numbers of lines told of a kind."""

Show = Callable[[str], None]
"""Is told something in one line."""


def tell_nobody(text: str) -> None:
    """The Show of who wants to hear nothing."""


@dataclass
class _Kind:
    count: int = 0
    first: list[int] = field(default_factory=list)


class Notices:
    """Collects warnings about the lines of a text."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}

    def add(self, number: int, warnings: Iterable[str]) -> None:
        """Note what may be wrong with line `number`, counted from 0; the same twice is one."""
        for text in dict.fromkeys(warnings):
            kind = self._kinds.setdefault(text, _Kind())
            kind.count += 1
            if len(kind.first) < _SHOWN:
                kind.first.append(number + 1)

    def told(self) -> list[str]:
        """Return a text for each kind: what is wrong, how many lines it is true of, and the first of them, counted from
        1."""
        found = []
        for text, kind in self._kinds.items():
            numbers = ", ".join(map(str, kind.first))
            more = ", ..." if kind.count > len(kind.first) else ""
            where = f"line {numbers}" if kind.count == 1 else f"{kind.count:,} lines: {numbers}{more}"
            found.append(f"{text} ({where})")
        return found
