"""Codes of XLIFF as the tags that they stand for: some divide a text, some surround its words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from html import unescape

from nmt.documents.elements import BLOCKS, OPAQUE, VOID
from nmt.documents.tokens.token import Kind, Token

CODES = frozenset({"ph", "bpt", "ept", "it", "x", "bx", "ex", "cp", "pc-start", "sc", "ec"})
"""Inline elements whose content is code of the original format (XLIFF 1.2, 2.3; 2.0, 4.3)."""
_HEAD = re.compile(r"<[^\s/<>]++((?:\s++[\w:.-]++\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'))*+)\s*+/?>")
_ATTRIBUTE = re.compile(r"(?<![\w:.-])([\w:.-]++)\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)')")
_SHOWN_TAG = re.compile(r"<(/?)([A-Za-z][\w:-]*+)[^<]*?(/?)>", re.DOTALL)
_STARTS, _ENDS = frozenset({"bpt", "bx", "sc"}), frozenset({"ept", "ex", "ec"})


def with_codes(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens of a text, each code as what it stands for: a wall for a line break or an item of a list, the
    start or end of an element if two codes are a pair. A code says so by its kind, by the tag of HTML that it shows
    (`equiv-text`, `disp`, its content), by its `ctype`, or by names such as Angular's START_LINK."""
    opened: list[Token] = []  # elements around text
    for token in tokens:
        if token.name in CODES and token.kind == "alone":
            yield _code(token)
        elif token.name in ("pc", "g") and token.kind == "open":
            code = _code(token)
            opened.append(code if code.kind == "wall" or code.name[1:] in OPAQUE else token)
            yield opened[-1]
        elif token.name in ("pc", "g") and token.kind == "close" and opened:
            first = opened.pop()
            yield replace(token, kind="wall" if first.kind == "wall" else "close", name=first.name)
        else:
            yield token


def _code(token: Token) -> Token:
    """Return the token of a code as what it stands for."""
    head = _HEAD.match(token.raw)
    if head is None:
        return token
    given = {one[1]: unescape(one[2] or one[3] or "") for one in _ATTRIBUTE.finditer(head[1])}
    content = unescape(token.raw[head.end() : token.raw.rfind("<")]) if token.kind == "alone" else ""
    shown = next((given[key] for key in ("equiv-text", "disp", "dispStart") if key in given), content)
    tag = _SHOWN_TAG.fullmatch(shown.strip())
    kind_given = given.get("ctype", "").removeprefix("x-").removeprefix("html-").lower()
    name = tag[2].lower() if tag else kind_given
    place = given.get("equiv", given.get("id", ""))
    if name in BLOCKS or kind_given in ("lb", "pb") or given.get("subType") in ("xlf:lb", "xlf:pb"):
        return replace(token, kind="wall")
    kind: Kind = "alone"
    if token.name in _ENDS or place.startswith("CLOSE_") or (tag and tag[1]):
        kind = "close"
    elif token.name in _STARTS | {"pc", "g"} or place.startswith("START_") or (tag and not tag[3] and name not in VOID):
        kind = "open"
    if token.name in _STARTS | _ENDS and name not in OPAQUE:
        name = given.get("rid", given.get("startRef", given.get("id", "")))
    return token if kind == "alone" else replace(token, kind=kind, name=f"&{name}")
