"""Passages of formats whose text may contain tags although it is not HTML: PO messages, subtitles, CDATA."""

from __future__ import annotations

import re
from dataclasses import replace

from nmt.documents.elements import BLOCKS
from nmt.documents.passage import Passage
from nmt.documents.sentences import Splitter
from nmt.documents.tagged_text import Token, html_tokens, plain_passage, tagged_passage, unclosed_alone
from nmt.documents.tokens.accelerators import with_accelerators

_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z]\w{1,31});")


def loose_passage(text: str, splitter: Splitter | None, *, is_lines: bool, marks: str = "") -> Passage:
    """Return the passage of a text; its tags, if any, follow their words. `is_lines`: whether line breaks and tabs
    divide it; otherwise they are white space; `marks`: a regular expression, without groups, of what is copied next to
    its word."""
    if is_lines and not has_markup(text):
        found = with_accelerators([Token("text", text, text, is_lines=True)])
        return tagged_passage(found, splitter, escape={}) if len(found) > 1 else plain_passage(text, splitter)
    cuts = re.compile(f"({marks or '(?!)'})")
    tokens: list[Token] = []
    for token in with_accelerators(inline_tokens(text)) if is_lines else inline_tokens(text):
        pieces = cuts.split(token.raw) if token.kind == "text" else [token.raw]
        if len(pieces) == 1:
            tokens.append(replace(token, is_lines=is_lines))
            continue
        for n, piece in enumerate(pieces):
            tokens += [Token("alone" if n % 2 else "text", piece, is_lines=is_lines)] if piece else []
    return tagged_passage(tokens, splitter)


def has_markup(text: str) -> bool:
    """Return whether a text has tags or character references."""
    return _TAG.search(text) is not None or has_references(text)


def has_references(text: str) -> bool:
    """Return whether a text has character references."""
    return _ENTITY.search(text) is not None


def inline_tokens(text: str) -> list[Token]:
    """Return the tokens of a text, in which unknown elements are inline."""
    tokens = html_tokens(text)
    return unclosed_alone([_inline(one) if one.kind == "wall" and one.name not in BLOCKS else one for one in tokens])


def _inline(token: Token) -> Token:
    """Return the token as inline."""
    tag = token.raw.startswith("<") and bool(token.name)
    if not tag or token.raw.endswith("/>"):
        return replace(token, kind="alone")
    return replace(token, kind="close" if token.raw.startswith("</") else "open")


def as_loose(source: str, new: str) -> str:
    """Return a translation without character references if its source has none."""
    if new == source or has_references(source):
        return new
    return new.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
