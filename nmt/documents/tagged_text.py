"""Passages of text with tags. What is no text keeps every byte; tags within a sentence follow its words."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import Literal
from unicodedata import category

from nmt.documents.marks import Mark
from nmt.documents.passage import HTML_ESCAPES, Passage, Sentence
from nmt.documents.sentences import Splitter, pieces

Kind = Literal["text", "open", "close", "alone", "wall"]

_INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite data del dfn em font i img ins label mark q rp rt ruby s small span strike "
    "strong sub sup time tt u wbr g x bx ex ph bpt ept it mrk".split()
)
"""Elements within a sentence (HTML Living Standard, 3.2.5.2.5 Phrasing content, without form controls; XLIFF 1.2, 2.3).
Any other is a wall: sentences end there."""
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_OPAQUE = frozenset("script style code kbd samp var svg math textarea template noscript object iframe pre".split())
"""Elements whose content is not translated."""
_SYMBOLS = "¶§†‡•·#*"
_OPAQUE_INLINE = frozenset("code kbd samp var svg math".split())


@dataclass(frozen=True)
class Token:
    """A piece of the text as it is written."""

    kind: Kind
    raw: str
    name: str = ""


class _Reader(HTMLParser):
    """Tokens by the places that the parser tells. What the parser does not mention is text."""

    def __init__(self, text: str, ignored: frozenset[str] = frozenset()) -> None:
        super().__init__(convert_charrefs=False)
        self._text, self._ignored = text, ignored
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self._found: list[tuple[int, Kind, str, bool]] = []  # where, kind, name, whether its content stays as it is
        try:
            self.feed(text)
            self.close()
        except AssertionError:  # what the parser says to some broken declarations: from there on all is text
            self._note("text")

    def tokens(self) -> list[Token]:
        """The whole text, cut."""
        bounds = [at for at, *_ in self._found] + [len(self._text)]
        pieces = [Token("text", self._text[: bounds[0]])] if bounds[0] else []
        for (at, kind, name, _), end in zip(self._found, bounds[1:], strict=True):
            pieces.append(Token(kind, self._text[at:end], name))
        return _kept_whole(pieces, self._kept_names())

    def _kept_names(self) -> list[bool]:
        first = [False] if self._found and self._found[0][0] else []
        return first + [kept for *_, kept in self._found]

    def _note(self, kind: Kind, name: str = "", kept: bool = False) -> None:
        line, column = self.getpos()
        self._found.append((self._starts[line - 1] + column, kind, name, kept))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag."""
        given = dict(attrs)
        kept = (
            tag in _OPAQUE
            or tag in self._ignored
            or given.get("translate") == "no"
            or "notranslate" in (given.get("class") or "").split()
        )
        if tag in _VOID:
            self._note("alone" if tag in _INLINE else "wall", tag)
            return
        inline = tag in _INLINE or tag in _OPAQUE_INLINE
        self._note("open" if inline else "wall", tag, kept)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """<br/>"""
        self._note("alone" if tag in _INLINE else "wall", tag)

    def handle_endtag(self, tag: str) -> None:
        """A tag."""
        self._note("close" if tag in _INLINE or tag in _OPAQUE_INLINE else "wall", tag)

    def handle_data(self, data: str) -> None:
        """Text."""
        self._note("text")

    def handle_entityref(self, name: str) -> None:
        """&amp;"""
        self._note("text")

    def handle_charref(self, name: str) -> None:
        """&#38;"""
        self._note("text")

    def handle_comment(self, data: str) -> None:
        """A comment."""
        self._note("alone")

    def handle_decl(self, decl: str) -> None:
        """<!doctype html>"""
        self._note("wall")

    def handle_pi(self, data: str) -> None:
        """<?xml ... ?>"""
        self._note("wall")

    def unknown_decl(self, data: str) -> None:
        """<![CDATA[ ... ]]>"""
        self._note("alone")


def _kept_whole(tokens: list[Token], kept: list[bool]) -> list[Token]:
    """The same with elements that are not translated as one token each."""
    found: list[Token] = []
    n = 0
    while n < len(tokens):
        if not kept[n]:
            found.append(tokens[n])
            n += 1
            continue
        name, depth, end = tokens[n].name, 0, n
        for end in range(n, len(tokens)):
            if tokens[end].name == name:
                depth += (tokens[end].kind in ("open", "wall") and not tokens[end].raw.startswith("</")) or -1
                if depth == 0:
                    break
        raw = "".join(one.raw for one in tokens[n : end + 1])
        found.append(Token("alone" if tokens[n].kind == "open" else "wall", raw, name))
        n = end + 1
    return found


def html_tokens(text: str, ignored: frozenset[str] = frozenset()) -> list[Token]:
    """Of HTML, whatever is wrong with it: the tokens together are the text. ignored: elements that are not looked
    into."""
    return _symbols_whole(_Reader(text, ignored).tokens())


def _symbols_whole(tokens: list[Token]) -> list[Token]:
    """The same with elements around nothing but symbols, such as the link behind a heading, as one token each: they
    are no words, and stay beside the one that they stood beside."""
    found: list[Token] = []
    for token in tokens:
        found.append(token)
        if token.kind != "close":
            continue
        start = len(found) - 2
        while start >= 0 and found[start].kind == "text":
            start -= 1
        inner = html.unescape("".join(one.raw for one in found[start + 1 : -1]))
        if start >= 0 and found[start].kind == "open" and found[start].name == token.name and _is_symbols(inner):
            found[start:] = [Token("alone", "".join(one.raw for one in found[start:]), token.name)]
    return found


def _is_symbols(text: str) -> bool:
    """Whether a text holds symbols, and neither words nor what ends or divides sentences."""
    return bool(text.strip()) and all(c.isspace() or c in _SYMBOLS or category(c).startswith("S") for c in text)


def html_passage(text: str, splitter: Splitter | None = None, ignored: frozenset[str] = frozenset()) -> Passage:
    """Of a piece or page of HTML."""
    return tagged_passage(html_tokens(text, ignored), splitter)


def xml_passage(text: str, splitter: Splitter | None = None, ignored: frozenset[str] = frozenset()) -> Passage:
    """Of a piece of XML, in which any element may stand within a sentence."""
    kinds: dict[Kind, Kind] = {"wall": "alone"}
    tokens = [
        replace(t, kind=_tag_kind(t.raw) if t.name else kinds.get(t.kind, t.kind)) for t in html_tokens(text, ignored)
    ]
    return tagged_passage(tokens, splitter)


def _tag_kind(raw: str) -> Kind:
    return "close" if raw.startswith("</") else "open" if not raw.endswith("/>") and raw.count("<") == 1 else "alone"


def tagged_passage(tokens: Sequence[Token], splitter: Splitter | None = None) -> Passage:
    """Of tokens: walls divide it, and what lies between them is a paragraph."""
    parts: list[str | Sentence] = []
    paragraph: list[Token] = []
    for token in [*tokens, Token("wall", "")]:
        if token.kind != "wall":
            paragraph.append(token)
            continue
        parts += _paragraph(paragraph, splitter)
        parts.append(token.raw)
        paragraph = []
    return Passage(tuple(part for part in parts if part != ""))


@dataclass
class _Character:
    """A character of the text that the model reads, how it was written, and the tags right before it."""

    text: str
    raw: str
    tags: list[Token]


def _paragraph(tokens: Sequence[Token], splitter: Splitter | None) -> list[str | Sentence]:
    """The sentences of a paragraph, and what is between them."""
    characters = _characters(tokens)
    text = "".join(one.text for one in characters)
    parts: list[str | Sentence] = []
    at = 0
    for piece in pieces(text, splitter):
        if piece.strip():
            last = at + len(piece) == len(text)
            parts.append(_sentence(characters[at : at + len(piece)], characters[-1].tags if last else []))
        else:
            parts.append("".join(_written(one) for one in characters[at : at + len(piece)]))
        at += len(piece)
    if not parts or isinstance(parts[-1], str):
        parts.append("".join(token.raw for token in characters[-1].tags))
    return parts


def _written(one: _Character) -> str:
    return "".join(tag.raw for tag in one.tags) + one.raw


def _characters(tokens: Sequence[Token]) -> list[_Character]:
    """Of a paragraph, its end the last one. A run of white space is one space, as a reader sees it."""
    found: list[_Character] = []
    tags: list[Token] = []
    text = ""
    for token in [*tokens, Token("text", "")]:
        if token.kind != "text":
            tags.append(token)
            continue
        for m in re.finditer(
            r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});|\s+|.", token.raw, re.DOTALL
        ):
            text = " " if m[0].isspace() else html.unescape(m[0])
            if text == "\xa0":
                text = " "
            found.append(_Character(text[:1], m[0], tags))
            found += [_Character(more, "", []) for more in text[1:]]
            tags = []
    return [*found, _Character("", "", tags)]


def _sentence(characters: list[_Character], closing: list[Token]) -> Sentence:
    """A sentence of these characters, and the tags behind its last one if it is the paragraph's last."""
    first = next(n for n, one in enumerate(characters) if one.text.strip())
    last = max(n for n, one in enumerate(characters) if one.text.strip())
    marks: list[Mark] = []
    inner = characters[first : last + 1]
    before = "".join(_written(one) for one in characters[:first])
    after = "".join(_written(one) for one in characters[last + 1 :])
    text = ""
    for one in inner:
        marks += [_mark(tag, len(text)) for tag in one.tags]
        text += one.text
    trailing = characters[last + 1].tags if last + 1 < len(characters) else closing
    if trailing and last + 1 < len(characters):
        after = after[sum(len(tag.raw) for tag in trailing) :]
    marks += [_mark(tag, len(text)) for tag in trailing]
    if last + 1 < len(characters):
        after += "".join(tag.raw for tag in closing)
    raw = "".join(_written(one) for one in inner) + "".join(tag.raw for tag in trailing)
    return _outer_marks_apart(Sentence(text, before, after, raw, _paired(marks, trailing, inner), HTML_ESCAPES))


def _mark(tag: Token, at: int) -> Mark:
    kind = tag.kind if tag.kind in ("open", "close") else "alone"
    return Mark(tag.raw, at, kind)


def _paired(marks: list[Mark], trailing: list[Token], inner: list[_Character]) -> tuple[Mark, ...]:
    """Marks that know their partners; names come from the tags, in the same order."""
    names = [tag.name for one in inner for tag in one.tags] + [tag.name for tag in trailing]
    opened: list[int] = []
    found = list(marks)
    for n, mark in enumerate(marks):
        if mark.kind == "open":
            opened.append(n)
        elif mark.kind == "close" and opened and names[opened[-1]] == names[n]:
            found[opened[-1]] = replace(found[opened[-1]], partner=n)
            found[n] = replace(mark, partner=opened.pop())
    return tuple(found)


def _outer_marks_apart(sentence: Sentence) -> Sentence:
    """The same with what stands before all words, or around all of them, outside: it need not follow any word."""
    marks, first, last = sentence.marks, 0, len(sentence.marks) - 1
    end = len(sentence.text)
    before: list[str] = []
    after: list[str] = []
    while first <= last:
        one, other = marks[first], marks[last]
        if one.kind == "open" and one.at == 0 and one.partner == last and other.at == end:
            before.append(one.raw)
            after.append(other.raw)
            first, last = first + 1, last - 1
        elif one.partner is None and one.at == 0:
            before.append(one.raw)
            first += 1
        elif other.partner is None and other.at == end:
            after.append(other.raw)
            last -= 1
        else:
            break
    head, tail = "".join(before), "".join(after[::-1])
    inner = [replace(m, partner=None if m.partner is None else m.partner - first) for m in marks[first : last + 1]]
    return replace(
        sentence,
        before=sentence.before + head,
        after=tail + sentence.after,
        raw=sentence.raw[len(head) : len(sentence.raw) - len(tail)],
        marks=tuple(inner),
    )
