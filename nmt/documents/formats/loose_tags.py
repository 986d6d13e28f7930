"""Passages of formats whose text may contain tags although it is not HTML: PO messages, subtitles, CDATA."""

from __future__ import annotations

import re
from dataclasses import replace

from nmt.documents.passage import Passage, text_passage
from nmt.documents.sentences import Splitter
from nmt.documents.tagged_text import Kind, Token, html_tokens, tagged_passage

_BREAK = r"\r?\n"
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z]\w{1,31});")
_BLOCKS = frozenset(
    "address article blockquote br caption dd details div dl dt figcaption figure footer form h1 h2 h3 h4 h5 h6 header "
    "hr li main nav ol p pre script section style summary table tbody td tfoot th thead tr ul".split()
)
"""Elements that end sentences. Others may be placeholders such as <name>, which are inline."""


def loose_passage(text: str, splitter: Splitter | None, *, is_lines: bool, marks: str = "") -> Passage:
    """Return the passage of a text; its tags, if any, follow their words. `is_lines`: whether each line is a paragraph;
    otherwise line breaks are white space; `marks`: a regular expression, without groups, of what is copied next to its
    word."""
    if is_lines and not (_TAG.search(text) or _ENTITY.search(text)):
        return text_passage(text, splitter)
    cuts = re.compile(f"({'|'.join(filter(None, [_BREAK if is_lines else '', marks]))})")
    tokens: list[Token] = []
    for token in inline_tokens(text):
        if token.kind != "text":
            tokens.append(token)
            continue
        for n, piece in enumerate(cuts.split(token.raw)):
            kind: Kind = ("alone" if piece.strip() else "wall") if n % 2 else "text"
            tokens += [Token(kind, piece)] if piece else []
    return tagged_passage(tokens, splitter)


def inline_tokens(text: str) -> list[Token]:
    """Return the tokens of a text, in which unknown elements are inline."""
    return [
        _inline(token) if token.kind == "wall" and token.name not in _BLOCKS else token for token in html_tokens(text)
    ]


def _inline(token: Token) -> Token:
    """Return the token as inline."""
    tag = token.raw.startswith("<") and bool(token.name)
    if not tag or token.raw.endswith("/>"):
        return replace(token, kind="alone")
    return replace(token, kind="close" if token.raw.startswith("</") else "open")


def as_loose(source: str, new: str) -> str:
    """Return a translation without character references if its source has none."""
    if new == source or _ENTITY.search(source):
        return new
    return new.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
