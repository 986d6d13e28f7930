"""Tokens of a text with markup, and the parts of a passage that cannot be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "open", "close", "alone", "wall"]
Syntax = Literal["", "message", "quoted message", "android", "cdata"]
"""A syntax around a text, whose rules a translation must keep: see `nmt.documents.written`."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text as written. name: of the element; of a text, how it is read if that differs. syntax: how the
    text behind a wall is written. left: why a wall is text that is not translated, empty for others. is_lines: whether
    line breaks and tabs divide a text, which are white space otherwise."""

    kind: Kind
    raw: str
    name: str = ""
    syntax: Syntax = ""
    left: str = ""
    is_lines: bool = False


class Left(str):
    """Text that stays as it is although it should be translated. reason: why, as words that follow a number."""

    reason: str

    def __new__(cls, text: str, reason: str) -> Left:
        """Return the text with the reason."""
        one = super().__new__(cls, text)
        one.reason = reason
        return one

    def __reduce__(self) -> tuple[type[Left], tuple[str, str]]:
        """Return what pickles need."""
        return Left, (str(self), self.reason)


def reasons_of(parts: Iterable[object]) -> Counter[str]:
    """Return how many parts of passages are left untranslated, by reason."""
    return Counter(part.reason for part in parts if isinstance(part, Left))
