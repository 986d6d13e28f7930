"""Signs of keys in the texts of menus and buttons: `&Open`, `E&xit`, `_Save`. The model reads none; the translation has
the sign before the same word, and behind itself in scripts without such keys: `\u958b\u304f(&O)`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from nmt.documents.placeholders import WIDE
from nmt.documents.tokens.token import Token


class Accelerator(str):
    """The sign of a key, as written."""


_SIGN = re.compile(
    r"\([&_](?:amp;)?[A-Z0-9]\)|(?:(?<!\S)&(?:amp;)?(?=[^\W\d_])|(?<=[A-Za-z])&(?:amp;)?(?=[a-z]))(?!\w+;)"
    r"|(?<!\S)_(?=[A-Z][a-z])"
)
_MOST_LETTERS = 60
_ENDS = re.compile(r"(?:\.{3}|[.:\u2026\uff1a\u3002])?$")


def with_accelerators(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with the sign of a key in a short text as a mark."""
    found: list[Token] = []
    for token in tokens:
        raw = token.raw
        is_menu = token.kind == "text" and token.name in ("", raw) and len(raw) <= _MOST_LETTERS and "://" not in raw
        signs = [*_SIGN.finditer(raw)] if is_menu and "=" not in raw else []
        if len(signs) != 1:
            found.append(token)
            continue
        cuts = [0, *signs[0].span(), len(raw)]
        for n, piece in enumerate(raw[a:b] for a, b in zip(cuts, cuts[1:], strict=False)):
            sign = piece if piece[:1] == "(" else Accelerator(piece)
            found.append(Token("alone", sign) if n == 1 else replace(token, raw=piece, name=token.name and piece))
    return [one for one in found if one.raw]


def behind_words(text: str, sign: str, letter: str) -> str:
    """Return a translation whose sign stands before a letter of a script without keys with it and its key behind it."""
    found = re.search(f"{re.escape(sign)}(?=[{WIDE}])", text)
    if found is None:
        return text
    text = text[: found.start()] + text[found.end() :]
    end = _ENDS.search(text).start()  # type: ignore[union-attr]
    return f"{text[:end]}({sign}{letter.upper()}){text[end:]}"
