"""Placeholders: parts of a text that are no words, such as `%1$s`, `{name}`, addresses, emoji and numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u2e80-\u2fff\u3005-\u3007\u3021-\u312f\u3190-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua9e0-\ua9ff\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""Letters of scripts without spaces: Thai, Lao, Tibetan, Burmese, Khmer, kana, bopomofo, Han."""
WIDE = "\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff"
"""Letters and punctuation of Chinese and Japanese, which write no spaces between sentences either."""
_ENDING = f"{UNSPACED}\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff"
"""Letters that may follow a placeholder without a space: these, and the particles of Korean."""
_LETTER = rf"[^\W{_ENDING}]"
"""A letter, digit or underscore that would be part of the same word."""
_SIGNS = "\u3000-\u303f\uff00-\uff65\u2018-\u201f\u2026\u00ab\u00bb\u2039\u203a"
"""Punctuation that ends an address."""
_ADDRESS = rf"[^\s<>\"{_ENDING}{_SIGNS}]"
_ADDRESS_END = rf"[^\s<>\".,;:!?)\]}}'{_ENDING}{_SIGNS}]"
_LABEL = rf"(?:{_LETTER}|-)++"

_ADDRESSES = (
    rf"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{{1,15}}+://{_ADDRESS}*{_ADDRESS_END}",  # URL, RFC 3986 section 3
    rf"(?<![.])(?<!{_LETTER})[wW]{{3}}\.{_LABEL}(?:\.{_LABEL})+(?:/(?:{_ADDRESS}*{_ADDRESS_END})?)?",
    rf"(?<!{_LETTER})(?<![.+-])(?:{_LETTER}|[.+-])++@{_LABEL}(?:\.{_LABEL})+",  # e-mail address
)
_ARGUMENTS = (
    # ICU: {n, number, percent}, and a message with cases, nested twice at most.
    r"\{\s*+\w++\s*+,\s*+(?:number|date|time|spellout|ordinal|duration|list)\s*+(?:,[^{}\n]{0,80}+)?+\}",
    r"\{\s*+\w++\s*+,\s*+(?:plural|select(?:ordinal)?)\s*+,(?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+\}",
    r"\{\{\{[^{}]{1,200}+\}\}\}|\{\{(?:[^{}]|\{[^{}]{0,80}+\}){1,200}+\}\}",  # {{ x }}: Jinja, Angular, Vue, Hugo
    r"<%=(?:[^%]|%(?!>)){1,200}+%>",  # ERB; for other tags of templates see tokens.py
    r"\{ ?[A-Z]{2,20}+\([^{}()\n]{0,80}+\) ?\}",  # Fluent: { NUMBER($x) }
    r"[$#%@]\{[^{}\n]{1,80}+\}",  # ${x}, #{x}, %{x}
    r"\{ ?[\w.$@\[\]!:,-]{0,80}+ ?\}",  # {x}, {}, {0}, { $x }
    r"\{\d++ ?[:,][^{}\n]{0,80}+\}",  # .NET, Java: {0:#,##0.00}, {0,number,#.##}
    r"\{[\w.\[\]]{0,60}+(?:![rsa])?+:(?:[^{}\s%]|\{\w*+\}){0,40}+\}",  # Python: {x:>10}, {x:{width}}
    r"\{[\w.\[\]]{0,60}+:[^{}\n%]{0,40}+%[^{}\n]{0,60}+\}",  # {d:%Y-%m-%d %H:%M}
    r"%\([\w.-]{1,80}+\)[#0 +-]*+\d*+(?:\.\d++)?+[a-zA-Z]|%<\w{1,60}+>[#0 +-]*+\d*+(?:\.\d++)?+[a-zA-Z]",  # %(name)s
    r"%(?:\d{1,2}+\$)?+#@\w{1,60}+@",  # %#@files@
    r"%%",
    # printf: %s, %1$s, %-5.2f, %'d, %*d, %lld, %@; strftime: %Y
    r"(?<!\d)%(?:\d{1,2}\$)?[#0+'-]*+(?:\d++|\*)?+(?:\.(?:\d++|\*))?+(?:hh|ll|I64|[hlLzjtq])?[sdiufFeEgGxXocpn@]"
    rf"(?!{_LETTER})|(?<!{_LETTER})%[a-zA-Z](?!{_LETTER})",
    r"(?<!\d)%\d{1,2}+!\w{1,8}+!",  # Windows: %1!s!
    rf"(?<![\d%])%L?[1-9](?!{_LETTER}|%)",  # Qt's %1
    r"\[X\d{1,4}+X\]",  # Weblate
    r"%[A-Z][A-Z0-9_]{1,40}+%|(?<!\d)%[A-Za-z][A-Za-z0-9_]{1,40}+%",  # %PATH%, %AppData%
    rf"\$t\([^()\n]{{1,80}}+\)|(?<!{_LETTER})\$[A-Za-z_]{_LETTER}{{0,60}}+",  # $t(x), $HOME
    rf"(?<!{_LETTER})__[A-Za-z](?:(?!__)\w){{0,40}}+__(?!{_LETTER})",  # __count__
    rf"(?<!:)(?<!{_LETTER}):[a-z][a-z0-9_+-]{{1,40}}+:(?!:|{_LETTER})",  # :smile:
    # #FF00AA, #123, #tag, @user; api_key_1234, MAX_SIZE; Ctrl+Shift+P
    rf"(?<!{_LETTER})(?<![#@&/.])(?:#\d{{3,10}}+|[#@](?=[\w-]{{0,40}}[A-Za-z])[A-Za-z0-9_][\w-]{{1,40}}+)(?!{_LETTER})",
    rf"(?<!{_LETTER})(?<![.@-])_{{0,2}}[A-Za-z][A-Za-z0-9-]*+(?:_+[A-Za-z0-9-]++)++(?!{_LETTER})",
    rf"(?<!{_LETTER})(?<!\+)(?i:(?:ctrl|control|alt|shift|cmd|command|option|meta|super|win|fn|altgr|strg)[+])++"
    rf"(?:[A-Za-z0-9]++|[^\s\w])(?!{_LETTER})",
    # +1 (555) 010-9999, +49 30 123456, no number such as +10 000
    r"(?<![\w+])\+(?!\d{1,3}(?:[\s,.]\d{3})++(?!\d))\d{1,3}(?:[ \u00a0.-]?\(\d{1,5}\))?"
    r"(?:[ \u00a0.-]\d{1,8}){2,6}(?!\w)",
)
_PICTURES = "\u2190-\u21ff\u2300-\u23ff\u2500-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff"
_SYMBOLS = (
    "[0-9#*]\ufe0f?\u20e3",  # keycaps
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u24c2\u3030\u303d\u3297\u3299]\ufe0f",  # signs as pictures
    f"(?:[{_PICTURES}][\ufe0e\ufe0f\u200d\u20e3\U000e0020-\U000e007f]*+(?:[\u2640\u2642]\ufe0f?+)?+)++",
)
_FRACTIONS = "\u00bc-\u00be\u2150-\u215e"
_MIXED = r"\d++ \d{1,2}[/\u2044]\d{1,2}(?![\d/\u2044])"  # 2 1/2
_NUMBERS = (
    rf"\d*+[{_FRACTIONS}]"
    r"|\d{1,3}(?:[\u00a0\u2007\u2009\u202f]\d{3})++(?:[.,]\d++)?+(?!\d)"
    r"|\d++(?:[.,:/'\u2019\u066b\u066c\u2044\u2013-]\d++)*+"
)
_PATTERN = re.compile(
    "|".join(
        (
            f"(?P<argument>{'|'.join(_ARGUMENTS)})",
            f"(?P<address>{'|'.join(_ADDRESSES)})",
            f"(?P<symbol>{'|'.join(_SYMBOLS)})",
            rf"(?P<number>(?<!\S)[-\u2212\u2013](?=\d)(?:{_MIXED}|{_NUMBERS})|(?<=[(\[])[-\u2212](?=\d)(?:{_NUMBERS})|{_MIXED}|{_NUMBERS})",
        )
    )
)
_FIGURES = re.compile(_NUMBERS)
_WORDY = re.compile(r"[@_+]|:/|[wW]{3}\.")
"""Every placeholder that begins with a letter contains one of these."""
_STARTS = re.compile(r"[\d%{$:#*<-]")
_FOREIGN_STARTS = re.compile(
    rf"[\d%{{$:#*<\u2212\u2013{_FRACTIONS}{_PICTURES}\u00a9\u00ae\u203c\u2049\u2122\u2139\u24c2\u3030\u303d\u3297\u3299-]"
)
"""Signs at which all others begin: the first for texts in ASCII."""
_INSIDE = re.compile(_LETTER)
_BRACKETS = re.compile(r"\)*")
_FORMAT = re.compile(
    r"(?=\W{0,3}(?:[yMdEHhms]{1,4}|S{1,3}|[YjlDNnFgGiAaPTzZ])(?![A-Za-z]))"
    r"(?=[^\n]{0,30}(?:[yY]|[GgHh]\W{1,3}[im]|[jd]\W{1,3}[FM]|[FM]\W{1,3}[jd]))\W{0,3}"
    r"(?:(?:y{1,4}|M{1,4}|d{1,4}|E{1,4}|H{1,2}|h{1,2}|m{1,2}|s{1,2}|S{1,3}|[YjlDNnFgGiAaPTzZ])(?![A-Za-z])\W{0,5}){2,12}"
)
"""A format of dates or times: `N j, Y`, `yyyy-MM-dd`, `HH:mm`."""


class Kind(Enum):
    """The kinds of placeholders. ARGUMENT: read by a program, or a name or keys; SYMBOL: emoji and pictures."""

    ARGUMENT = "argument"
    ADDRESS = "address"
    SYMBOL = "symbol"
    NUMBER = "number"


@dataclass(frozen=True)
class Placeholder:
    """A placeholder at [start, end) of a text. is_inside: whether it is a number next to letters, such as `v1`."""

    start: int
    end: int
    text: str
    kind: Kind = Kind.ARGUMENT
    is_inside: bool = False

    @property
    def is_number(self) -> bool:
        """Return whether it is a number, which languages write differently."""
        return self.kind is Kind.NUMBER


def scanned(text: str) -> list[Placeholder]:
    """Return all placeholders of a text, in order, numbers within words included."""
    found = []
    for one in _PATTERN.finditer(text) if _WORDY.search(text) else _from_signs(text):
        kind, (start, end) = Kind(one.lastgroup), one.span()
        if kind is Kind.ADDRESS:  # a bracket that the address opened belongs to it
            opened = text.count("(", start, end) - text.count(")", start, end)
            end += len(_BRACKETS.match(text, end, end + max(0, opened))[0])  # type: ignore[index]
        beside = _INSIDE.match(text, end) or (start and _INSIDE.match(text, start - 1))
        inside = kind is Kind.NUMBER and bool(beside)
        found.append(Placeholder(start, end, text[start:end], kind, inside))
    return found


def _from_signs(text: str) -> Iterator[re.Match[str]]:
    """Return the matches of `_PATTERN` in a text whose placeholders begin with a sign or digit: tried there only."""
    starts, at = _STARTS if text.isascii() else _FOREIGN_STARTS, 0
    while start := starts.search(text, at):
        at = start.start()
        if one := _PATTERN.match(text, at):
            yield one
            at = one.end()
        else:
            at += 1


def figures_of(text: str) -> list[Placeholder]:
    """Return all numbers of a text in figures, whatever they are parts of."""
    return [Placeholder(*one.span(), one[0], Kind.NUMBER) for one in _FIGURES.finditer(text)]


def placeholders_of(text: str) -> list[Placeholder]:
    """Return all placeholders of a text, in order."""
    return [one for one in scanned(text) if not one.is_inside]


def has_words(text: str, placeholders: list[Placeholder]) -> bool:
    """Return whether a text has a letter outside of its placeholders, and is no format of dates."""
    if _FORMAT.fullmatch(text):
        return False
    at = 0
    for one in placeholders:
        if any(map(str.isalpha, text[at : one.start])):
            return True
        at = one.end
    return any(map(str.isalpha, text[at:]))
