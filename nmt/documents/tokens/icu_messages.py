"""ICU messages within a text, such as `{n, plural, one {# file} other {# files}}`: which parts of them are text.

The library pyicumessageformat parses them. Messages with `choice`, and those that it refuses, are kept as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from nmt.documents.tokens.token import Kind, Syntax, Token
from nmt.errors import NMTError, how_to_install

UNREAD = "ICU messages that cannot be read"
_START = re.compile(r"\{\s*+[^\s{},'#]++\s*+,\s*+(?:plural|selectordinal|select|choice)\s*+,")
_BRACE = re.compile(r"''|'(?=[{}])[^']*+'?|[{}]")
_INTERPOLATION = re.compile(r"\{\{[^{}]*+\}\}")
_QUOTE = re.compile(r"''|'(?=[{}#|])[^']*+(?:''[^']*+)*+'?")
_CHOOSING = ("plural", "selectordinal", "select")
_TAG = "\0"
"""A character in place of a token that is no text."""


class _Span(NamedTuple):
    """Characters [start, end) of a text. left: why they are not translated."""

    start: int
    end: int
    kind: Kind
    syntax: Syntax = ""
    left: str = ""


def may_have_messages(text: str) -> bool:
    """Return whether a text seems to contain messages that choose between texts."""
    return "{" in text and _START.search(text) is not None


def with_messages(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens with messages divided: their syntax is walls, what they choose between is text."""
    if not any(token.kind == "text" and may_have_messages(token.raw) for token in tokens):
        return tokens
    text = "".join(token.raw if token.kind == "text" else _TAG for token in tokens)
    walls, at = [0], 0
    for token in tokens:
        at += len(token.raw) if token.kind == "text" else 1
        walls += [at - 1, at] if token.kind == "wall" else []
    return _divided(tokens, _spans(text, [*walls, len(text)]))


def _spans(text: str, walls: list[int]) -> Iterator[_Span]:
    """Yield the spans of all messages. walls: where the paragraphs of the text begin and end: one with a message that
    cannot be read is left."""
    ends = _ends_of_braces(text)
    at, paragraph = 0, 0
    while found := _START.search(text, at):
        start, end = found.start(), ends.get(found.start(), 0)
        spans = _parsed(text[start:end]) if end else None
        if spans is not None:
            yield from (one._replace(start=one.start + start, end=one.end + start) for one in spans)
            at = end
            continue
        while walls[paragraph + 1] <= start:
            paragraph += 1
        yield _Span(max(at, walls[paragraph]), walls[paragraph + 1], "wall", "", UNREAD)
        at = walls[paragraph + 1]


def _ends_of_braces(text: str) -> dict[int, int]:
    """Return behind which character each open brace is closed."""
    opened: list[int] = []
    found: dict[int, int] = {}
    for one in _BRACE.finditer(text):
        if one[0] == "{":
            opened.append(one.start())
        elif one[0] == "}" and opened:
            found[opened.pop()] = one.end()
    return found


def _parsed(message: str) -> list[_Span] | None:
    """Return the spans of one message, or None if it cannot be read. Raises NMTError without the library."""
    try:
        from pyicumessageformat import Parser
    except ImportError:
        raise NMTError(
            f"ICU messages: must be read by the library pyicumessageformat, got none; {how_to_install('documents')}"
        ) from None
    # `{{x}}` is an interpolation of Angular, unless it is an argument as a whole text: `other {{x}}`.
    for text in dict.fromkeys((message, _INTERPOLATION.sub(lambda one: _TAG * len(one[0]), message))):
        parts: list[dict[str, str]] = []
        try:
            Parser({"require_other": False}).parse(text, parts)
        except SyntaxError:
            continue
        pieces = [(one["type"], one["text"]) for one in parts]
        if "".join(raw for _, raw in pieces) == text and ("type", "choice") not in pieces:
            return _spans_of(message, pieces)
    return None


def _spans_of(message: str, pieces: list[tuple[str, str]]) -> list[_Span]:
    """Return the spans of a message's pieces. A simple argument `{x}` is a placeholder within its text, one with a
    format such as `{x, date}` and the number `#` are marks."""
    is_quoted = any(kind == "text" and _QUOTE.search(raw) for kind, raw in pieces)
    syntax: Syntax = "quoted message" if is_quoted else "message"
    found: list[_Span] = []
    opened: list[str] = []
    at, former = 0, ""
    for n, (kind, raw) in enumerate(pieces):
        if raw == "{" and kind == "syntax":
            opened.append("text" if former == "selector" else _kind_of_argument(pieces[n + 1 :]))
        inside = opened[-1] if opened else "wall"
        is_brace = kind == "syntax" and raw in "{}"
        own: str = "wall" if inside == "text" and is_brace else inside
        if kind == "hash":
            own = "alone"
        elif kind == "text":
            found += _quotes(message[at : at + len(raw)], at, syntax)
            own = ""
        if own:
            found.append(_Span(at, at + len(raw), own if own in ("wall", "alone") else "text", syntax))  # type: ignore[arg-type]
        if raw == "}" and kind == "syntax":
            opened.pop()
        at += len(raw)
        former = kind if kind != "space" else former
    return [*found[:-1], found[-1]._replace(syntax="")]


def _kind_of_argument(pieces: list[tuple[str, str]]) -> str:
    """Return the kind of an argument's pieces: a wall if it chooses between texts, a mark if it has another format."""
    kinds = [(kind, raw) for kind, raw in pieces[:6] if kind != "space"][1:3]
    if len(kinds) < 2 or kinds[1][0] != "type":
        return "placeholder"
    return "wall" if kinds[1][1] in _CHOOSING else "alone"


def _quotes(text: str, start: int, syntax: Syntax) -> Iterator[_Span]:
    """Yield a text and what is quoted in it: `''` is an apostrophe, `'{x}'` is a mark."""
    at = 0
    for one in _QUOTE.finditer(text):
        yield _Span(start + at, start + one.start(), "text", syntax)
        yield _Span(start + one.start(), start + one.end(), "text" if one[0] == "''" else "alone", syntax)
        at = one.end()
    yield _Span(start + at, start + len(text), "text", syntax)


def _divided(tokens: Sequence[Token], spans: Iterator[_Span]) -> list[Token]:
    """Return the tokens, divided at the spans; tokens that are no text are one character long there."""
    found: list[Token] = []
    span = next(spans, None)
    at = 0  # the first character of the token
    for token in tokens:
        end = at + (len(token.raw) if token.kind == "text" else 1)
        done = at
        while done < end:
            while span is not None and span.end <= done:
                span = next(spans, None)
            inside = span is not None and span.start <= done
            upto = end if span is None else min(end, span.end if inside else span.start)
            raw = token.raw[done - at : upto - at] if token.kind == "text" else token.raw
            found.append(_piece(token, raw, span if inside else None))
            done = upto
        at = end
    return _joined(found)


def _piece(token: Token, raw: str, span: _Span | None) -> Token:
    """Return a piece of a token within a span."""
    if token.kind == "text":
        name = token.name if raw == token.raw else raw if token.name == token.raw else ""
        token = replace(token, raw=raw, name=name)
        if raw == "''" and span is not None and span.kind == "text":
            token = replace(token, name="'")
    elif span is not None and span.kind == "text":
        return replace(token, syntax=span.syntax)  # a tag within a text
    return token if span is None else replace(token, kind=span.kind, syntax=span.syntax, left=span.left)


def _joined(tokens: list[Token]) -> list[Token]:
    """Return the tokens with adjacent walls, and adjacent marks, of one message in one."""
    found: list[Token] = []
    for token in tokens:
        last = found[-1] if found else None
        is_same = last and token.kind == last.kind in ("wall", "alone") and token.left == last.left
        if last and is_same and (token.left or last.syntax):
            found[-1] = replace(last, raw=last.raw + token.raw, syntax=token.syntax)
        else:
            found.append(token)
    return found
