"""Tokens of a text with markup, divided or joined: ICU messages, tags of templates, marks of notes, keys in menus."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal, NamedTuple
from unicodedata import category

from nmt.documents.placeholders import WIDE
from nmt.errors import NMTError, how_to_install

Kind = Literal["text", "open", "close", "alone", "wall"]
Syntax = Literal["", "message", "quoted message", "android", "cdata"]
"""A syntax around a text, whose rules a translation must keep: see `Sentence.translated`."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text as written. name: of the element; of a text, how it is read if that differs. syntax: how the
    text behind a wall is written. is_unread: whether a wall is text around an unreadable message. is_lines: whether
    line breaks and tabs divide a text, which are white space otherwise."""

    kind: Kind
    raw: str
    name: str = ""
    syntax: Syntax = ""
    is_unread: bool = False
    is_lines: bool = False


class UnreadMessage(str):
    """A paragraph that stays as it is, although it should be translated, as a message in it cannot be read."""


_MOST_TOKENS = 12
"""The maximum number of tokens of a mark, so that time stays linear."""
_SIGNS = re.compile(r"[*\u2217\u2020\u2021\u00a7\u00b6#]{1,4}")
_BRACKETED = re.compile(
    r"(?:\[\s*(?:[^\W\d_]{1,5}\.?\s)?(?:\d{1,4}(?:\s?[,\u2013-]\s?\d{1,4})*|[^\W\d_]|[ivx]{1,5}|[*\u2020\u2021])\s*\][\s,]*)++"
)
_NOTE_NUMBERS = re.compile(r"\(?\d{1,3}(?:\s?[,\u2013-]\s?\d{1,3})*\)?")
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
    """Return the tokens with each mark of a note as one; is_raised: whether a token begins superscript text."""
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
    is_number = _NOTE_NUMBERS.fullmatch(text) is not None
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
    if (word := _WORD.search(before)) is None:
        if before[-1] in ")]":  # (a + b)², unless words stand within
            return re.search(r"[^\W\d_]{4}", before.rpartition("(")[2]) is not None
        return before[-1] in _BEHIND_WORDS
    if category(before[-1]) == "Lo":
        return True
    if len(word[0]) < 3 or word[0].lower() in _RAISED_TO or before[: word.start()][-1:].isdigit():
        return False
    return is_number or not _ROMAN.fullmatch(word[0])


_START = re.compile(r"\{\s*+[^\s{},'#]++\s*+,\s*+(?:plural|selectordinal|select|choice)\s*+,")
_BRACE = re.compile(r"''|'(?=[{}])[^']*+'?|[{}]")
_INTERPOLATION = re.compile(r"\{\{[^{}]*+\}\}")
_QUOTE = re.compile(r"''|'(?=[{}#|])[^']*+(?:''[^']*+)*+'?")
_CHOOSING = ("plural", "selectordinal", "select")
_TAG = "\0"
"""A character in place of a token that is no text."""


class _Span(NamedTuple):
    """Characters [start, end) of a text."""

    start: int
    end: int
    kind: Kind
    syntax: Syntax = ""
    is_unread: bool = False


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
    """Yield the spans of messages; a paragraph, between two `walls`, with one that cannot be read is left."""
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
        yield _Span(max(at, walls[paragraph]), walls[paragraph + 1], "wall", is_unread=True)
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
    """Return the spans of a message's pieces. `{x}` is a placeholder, `{x, date}` and the number `#` are marks."""
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
    at = 0
    for token in tokens:
        first, end = at, at + (len(token.raw) if token.kind == "text" else 1)
        while at < end:
            while span is not None and span.end <= at:
                span = next(spans, None)
            inside = span is not None and span.start <= at
            upto = end if span is None else min(end, span.end if inside else span.start)
            raw = token.raw[at - first : upto - first] if token.kind == "text" else token.raw
            found.append(_piece(token, raw, span if inside else None))
            at = upto
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
    return token if span is None else replace(token, kind=span.kind, syntax=span.syntax, is_unread=span.is_unread)


def _joined(tokens: list[Token]) -> list[Token]:
    """Return the tokens with adjacent walls, and adjacent marks, of one message in one."""
    found: list[Token] = []
    for token in tokens:
        last = found[-1] if found else None
        is_same = last and token.kind == last.kind in ("wall", "alone") and token.is_unread == last.is_unread
        if last and is_same and (token.is_unread or last.syntax):
            found[-1] = replace(last, raw=last.raw + token.raw, syntax=token.syntax)
        else:
            found.append(token)
    return found


_TEMPLATE_TAG = (
    r"\{%(?:[^%{]|%(?!\})|\{(?!%)){0,2000}+%\}|\{#(?:[^#{}]|#(?!\})){1,2000}+#\}"
    r"|<%(?![=%])(?:[^%<]|%(?!>)|<(?!%)){0,2000}+%>"
    r"|\{\{[-~]?\s*+(?:[#/^!>]|(?:else|end|if|range|with|block|define|template)\b)[^{}]{0,1000}+\}\}"
)
_TAGS = re.compile(_TEMPLATE_TAG)
_LINES = re.compile(rf"^[ \t]*+(?:(?:{_TEMPLATE_TAG})[ \t]*+)++\r?$", re.MULTILINE)
"""Lines of nothing but tags."""
_NAME = re.compile(r"\W*(\w*)")
_WALLS = frozenset(
    "block endblock extends load import from macro endmacro layout for endfor else elif elsif elseif plural empty when "
    "case endcase blocktrans endblocktrans blocktranslate endblocktranslate".split()
)
"""Tags that no sentence crosses: they begin or end a part of the page, what is repeated, or another choice."""
_OPENS = frozenset("if unless range with block define for while case begin".split())
"""Tags of ERB and Go that `end` closes."""


def has_templates(text: str) -> bool:
    """Return whether a text has tags of templates."""
    return ("{%" in text or "{{" in text or "{#" in text or "<%" in text) and _TAGS.search(text) is not None


def with_templates(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens with tags of templates divided: those around words are elements, those alone on their lines,
    and those that choose between texts, are walls."""
    if not any(token.kind == "text" and has_templates(token.raw) for token in tokens):
        return tokens
    found = [piece for n, token in enumerate(tokens) for piece in _pieces(tokens, n, token)]
    opened: dict[str, list[int]] = {}
    walls = [*accumulate(token.kind == "wall" for token in found)]
    for n, token in enumerate(found):
        if token.name[:1] == "%" and token.kind == "open":
            opened.setdefault(token.name, []).append(n)
        elif token.name[:1] == "%" and token.kind == "close":
            first = opened[token.name].pop() if opened.get(token.name) else n
            if first == n or walls[first] < walls[n]:  # it contains parts of the page, or other choices
                found[first], found[n] = replace(found[first], kind="wall"), replace(token, kind="wall")
    for n in (n for numbers in opened.values() for n in numbers):
        found[n] = replace(found[n], kind="alone")
    return found


def _pieces(tokens: Sequence[Token], n: int, token: Token) -> Iterator[Token]:
    """Yield the pieces of a token."""
    if token.kind != "text" or token.name not in ("", token.raw) or not has_templates(token.raw):
        yield token
        return
    raw, at = token.raw, 0
    begins = n == 0 or tokens[n - 1].kind == "wall"
    ends = n + 1 == len(tokens) or tokens[n + 1].kind == "wall"
    lines = (one.span() for one in _LINES.finditer(raw) if (begins or one.start()) and (ends or one.end() < len(raw)))
    alone = {one.start() for line in lines for one in _TAGS.finditer(raw, *line)}
    for one in _TAGS.finditer(raw):
        if at < one.start():
            yield replace(token, raw=raw[at : one.start()], name=token.name and raw[at : one.start()])
        kind, name = _kind(one[0])
        yield Token("wall" if one.start() in alone else kind, one[0], f"%{name}", token.syntax)
        at = one.end()
    if at < len(raw):
        yield replace(token, raw=raw[at:], name=token.name and raw[at:])


def _kind(raw: str) -> tuple[Kind, str]:
    """Return the kind of a tag, and the name of its element."""
    name = _NAME.match(raw)[1]  # type: ignore[index]
    if name in _WALLS:
        return "wall", ""
    if raw.startswith("{%"):
        return ("close", name[3:]) if name.startswith("end") else ("open", name)
    if raw[:2] == "{{" and (sign := raw[2:].lstrip("-~ ")[:1]) in "#^/":
        return "close" if sign == "/" else "open", name
    if name == "end":
        return "close", "end"
    return ("open", "end") if name in _OPENS or re.search(r"\bdo\b[^%]*%>$", raw) else ("alone", "")


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
    if (found := re.search(f"{re.escape(sign)}(?=[{WIDE}])", text)) is None:
        return text
    text = text[: found.start()] + text[found.end() :]
    end = _ENDS.search(text).start()  # type: ignore[union-attr]
    return f"{text[:end]}({sign}{letter.upper()}){text[end:]}"
