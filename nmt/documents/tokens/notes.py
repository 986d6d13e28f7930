"""Marks of notes, such as `<sup>[1]</sup>` behind a word: no words, unlike exponents, units and ordinals."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from unicodedata import category

from nmt.documents.tokens.token import Token

_MOST_TOKENS = 12
"""The maximum number of tokens of a mark, so that time stays linear."""
_SIGNS = re.compile(r"[*\u2217\u2020\u2021\u00a7\u00b6#]{1,4}")
_BRACKETED = re.compile(
    r"(?:\[\s*(?:[^\W\d_]{1,5}\.?\s)?(?:\d{1,4}(?:\s?[,\u2013-]\s?\d{1,4})*|[^\W\d_]|[ivx]{1,5}|[*\u2020\u2021])\s*\][\s,]*)++"
)
_NUMBERS = re.compile(r"\(?\d{1,3}(?:\s?[,\u2013-]\s?\d{1,3})*\)?")
_LETTER = re.compile(r"\(?[a-zA-Z]\)?")
_BEHIND_WORDS = tuple(".,;:!?\u2026%)]\u00bb\u201d\u2019\"'*\u3002\uff0c\u3001")
_WORD = re.compile(r"[^\W\d_]+$")
_ROMAN = re.compile(r"[IVXLCDMivxlcdm]+")
_RAISED_TO = frozenset(
    "sin cos tan cot sec csc sinh cosh tanh log exp det min inch inches foot feet yard yards mile miles mol bar rad "
    "meter meters metre metres mètre mètres".split()
)
"""Units and functions of three letters and more, which may have an exponent."""


def notes_whole(tokens: Sequence[Token], is_raised: Callable[[Token], bool]) -> list[Token]:
    """Return the tokens with each mark of a note merged to one token, which stays next to its word. is_raised: whether
    an opening token begins superscript text."""
    found: list[Token] = []
    n = 0
    while n < len(tokens):
        end = _end_of_mark(tokens, n, is_raised) if tokens[n].kind == "open" else 0
        if end:
            found.append(Token("alone", "".join(one.raw for one in tokens[n:end]), tokens[n].name))
        else:
            found.append(tokens[n])
        n = end or n + 1
    return found


def _end_of_mark(tokens: Sequence[Token], first: int, is_raised: Callable[[Token], bool]) -> int:
    """Return the token behind the mark that begins here; 0 if none does."""
    opened: list[str] = []
    text, raised, linked = "", False, False
    for n in range(first, min(len(tokens), first + _MOST_TOKENS)):
        token = tokens[n]
        if token.kind == "open":
            opened.append(token.name)
            raised, linked = raised or is_raised(token), linked or token.name == "a"
        elif token.kind == "text" and len(token.raw) < 100:
            text += html.unescape(token.raw)
        elif token.kind != "close" or opened.pop() != token.name:
            return 0
        if not opened:
            before, after = _text_before(tokens, first), _text_behind(tokens, n + 1)
            return n + 1 if (raised or linked) and _is_mark(text.strip(), before, after, raised, linked) else 0
    return 0


def _text_before(tokens: Sequence[Token], n: int) -> str:
    """Return the end of the text before a token; a mark before it is `*`."""
    for token in reversed(tokens[max(0, n - _MOST_TOKENS) : n]):
        if token.kind == "text":
            return html.unescape(token.raw[-100:])
        if token.kind != "close":
            return "*" if token.kind == "alone" else ""
    return ""


def _text_behind(tokens: Sequence[Token], n: int) -> str:
    """Return the beginning of the text behind a token."""
    for token in tokens[n : n + _MOST_TOKENS]:
        if token.kind != "close":
            return html.unescape(token.raw[:100]) if token.kind == "text" else ""
    return ""


def _is_mark(text: str, before: str, after: str, raised: bool, linked: bool) -> bool:
    """Return whether a superscript or linked text is the mark of a note."""
    is_number = _NUMBERS.fullmatch(text) is not None
    if not raised:  # a link
        if not before[-1:].isalnum() and before[-1:] not in _BEHIND_WORDS:
            return False
        is_apart = not before[-1:].isdigit() and before[-1:] != "," and not after[:1].isalnum()
        return _BRACKETED.fullmatch(text) is not None or (is_number and is_apart)
    if _BRACKETED.fullmatch(text) or _SIGNS.fullmatch(text):
        return True
    if not (is_number or _LETTER.fullmatch(text)):
        return False
    if linked:
        return True
    if after[:1].isalnum() or after[:1] in ("/", "\u2044"):
        return False
    return not before.strip() or before[-1].isspace() or _may_have_note(before, is_number)


def _may_have_note(before: str, is_number: bool) -> bool:
    """Return whether a superscript number or letter behind this text is no exponent, unit or ordinal."""
    word = _WORD.search(before)
    if word is None:
        if before[-1] in ")]":  # (a + b)², unless words stand within
            return re.search(r"[^\W\d_]{4}", before.rpartition("(")[2]) is not None
        return before[-1] in _BEHIND_WORDS
    if category(before[-1]) == "Lo":
        return True
    if len(word[0]) < 3 or word[0].lower() in _RAISED_TO or before[: word.start()][-1:].isdigit():
        return False
    return is_number or not _ROMAN.fullmatch(word[0])
