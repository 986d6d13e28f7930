"""Placeholders: parts of a text that must be copied unchanged, such as `%1$s`, `{name}`, addresses and numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

_KINDS = (
    r"[a-z][a-z0-9+.-]{1,15}://[^\s<>\"]*[^\s<>\".,;:!?)\]}']",  # URL, RFC 3986 section 3, without final punctuation
    r"(?<![\w.])www\.[\w-]+(?:\.[\w-]+)+(?:/[^\s<>\"]*[^\s<>\".,;:!?)\]}'])?",
    r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",  # e-mail address
    r"\$\{[^{}\s]{1,80}\}|\{\{[^{}]{1,80}\}\}|\{[\w.:!,\[\]-]{0,80}\}",  # ${x}, {{ x }}, {x}, {}
    r"%\([\w.-]{1,80}+\)[#0 +-]*+\d*+(?:\.\d++)?+[a-zA-Z]",  # %(name)s
    r"%(?:\d{1,2}\$)?[#0+-]*+\d*+(?:\.\d++)?+(?:hh|h|ll|l|z|t)?[sdiufFeEgGxXoc@](?![\w])",  # %s, %1$s, %.2f, %@
    r"%[1-9](?![\w%])",  # Qt's %1
    r"(?<![\w.,])\d[\d.,:/-]*\d(?!\w)|(?<![\w.,])\d(?!\w)",  # numbers
)
_PATTERN = re.compile("|".join(f"(?:{kind})" for kind in _KINDS), re.IGNORECASE)
_MAY_HOLD = re.compile(r"[\d%{@/]|www\.", re.IGNORECASE)
"""Every placeholder contains one of these; most sentences contain none, and are scanned once."""
_DIGITS = re.compile(r"[\d.,:/\s\u00a0\u202f-]+")


@dataclass(frozen=True)
class Placeholder:
    """A placeholder at [start, end) of a text."""

    start: int
    end: int
    text: str

    @property
    def is_number(self) -> bool:
        """Return whether it consists of digits and separators, which languages write differently."""
        return _DIGITS.fullmatch(self.text) is not None


def placeholders_of(text: str) -> list[Placeholder]:
    """Return all placeholders of a text, in order."""
    if _MAY_HOLD.search(text) is None:
        return []
    return [Placeholder(found.start(), found.end(), found[0]) for found in _PATTERN.finditer(text)]


def digits_of(text: str) -> str:
    """Return only the digits of a text: 1,000.5 and 1.000,5 have the same."""
    return "".join(filter(str.isdigit, text))
