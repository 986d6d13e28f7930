"""Passages of text with tags. Everything but text is copied byte for byte; tags within a sentence follow its words."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from html.entities import html5
from typing import Literal
from unicodedata import category

from nmt.documents import passage
from nmt.documents.markup import BLOCKS, INLINE, OPAQUE, OPAQUE_INLINE, RUBY, VOID, Piece, scan, whole_elements
from nmt.documents.tagged_paragraph import Paragraph
from nmt.documents.tokens import (
    Kind,
    Syntax,
    Token,
    UnreadMessage,
    has_templates,
    may_have_messages,
    notes_whole,
    with_accelerators,
    with_messages,
    with_templates,
)

_SYMBOLS = "¶§†‡•·#*"
_MOST_SYMBOLS = 20
"""The maximum number of characters in an element around nothing but symbols."""
_KEYS = re.compile(r"\s*+(?:[-+/>\u2013\u2192]|&gt;)?+\s*+")
"""Text between keys that are pressed together."""
_XML_ENTITIES = frozenset(("amp;", "lt;", "gt;", "quot;", "apos;"))
_LINES = re.compile(r"((?:\r?\n|\t|&#(?:9|10|13|[xX]0*[9aAdD]);)+)")
"""Line breaks and tabs, which in XML may be written as references."""
_ESCAPED_TAG = re.compile(r"&lt;(/?)([A-Za-z][\w:-]*+)((?:\s(?:[^<>&]|&(?!lt;|gt;)){0,500}+|/)?)(?:&gt;|>)")
_LEAST_WIDTH = 40
"""The least length of the longest line of a text whose sentences are wrapped."""
_WITHIN = (",", "-", ")", '"', "\u2019", "\u201d")


def html_tokens(text: str, ignored: frozenset[str] = frozenset(), *, is_xml: bool = False) -> list[Token]:
    """Return the tokens of HTML, however malformed, or of a piece of XML in which any element may be inline: together
    they are the text. ignored: elements whose content is kept."""
    pieces = scan(text, is_xml=is_xml)
    kept = kept_starts(pieces, text, ignored)
    xml_kinds: dict[str, Kind] = {"text": "text", "start": "open", "end": "close"}
    kinds = [xml_kinds.get(one.kind, "alone") if is_xml else _html_kind(one) for one in pieces]
    tokens = tokens_of(text, pieces, kept, kinds, is_xml=is_xml)
    return _keys_whole(_symbols_whole(notes_whole(tokens, lambda token: token.name == "sup")))


def kept_starts(pieces: list[Piece], text: str, ignored: frozenset[str] = frozenset()) -> set[int]:
    """Return the numbers of the start tags of elements whose content is copied untranslated."""
    return {
        n
        for n, one in enumerate(pieces)
        if one.kind == "start" and (one.name in OPAQUE or one.name in ignored or is_marked(one, text))
    }


def is_marked(piece: Piece, text: str) -> bool:
    """Return whether the attributes of a tag say that its element is not translated."""
    if not piece.attributes:
        return False
    return value(piece, text, "translate").lower() == "no" or "notranslate" in value(piece, text, "class").split()


def value(piece: Piece, text: str, name: str) -> str:
    """Return the value of an attribute as written; an empty string if there is none."""
    return text[slice(*piece.attributes[name])] if name in piece.attributes else ""


def _html_kind(piece: Piece) -> Kind:
    if piece.kind == "text":
        return "text"
    if piece.kind == "comment":
        return "alone"
    if piece.name in INLINE or piece.name in OPAQUE_INLINE:
        if piece.kind == "single" or piece.name in VOID:
            return "alone"
        return "open" if piece.kind == "start" else "close"
    return "wall"


def tokens_of(
    text: str,
    pieces: list[Piece],
    kept: set[int],
    kinds: Sequence[Kind],
    *,
    is_xml: bool,
    lines: Set[int] = frozenset(),
) -> list[Token]:
    """Return the tokens of pieces; an element that begins at `kept` is one. `lines`: texts whose line breaks count."""
    found: list[Token] = []
    at = 0
    for first, last in [*whole_elements(pieces, kept, is_xml=is_xml), (len(pieces), len(pieces))]:
        for n in range(at, first):
            raw = text[pieces[n].start : pieces[n].end]
            found.append(Token(kinds[n], raw, pieces[n].name, is_lines=n in lines))
        if first < last:
            one, other = pieces[first], pieces[last - 1]
            # An element without an end tag stays where it is: if moved, it would end elsewhere.
            stays = kinds[first] == "wall" or other.kind != "end" or other.name != one.name
            found.append(Token("wall" if stays else "alone", text[one.start : other.end], one.name))
        at = last
    return _readings_ended(found)


def _readings_ended(tokens: list[Token]) -> list[Token]:
    """Return the tokens with each reading of ruby that has no end tag joined to the tag that ends it."""
    found: list[Token] = []
    unended: list[Token] = []
    for token in tokens:
        if token.kind == "wall" and token.name in RUBY and not token.raw.endswith(f"</{token.name}>"):
            unended.append(token)
            continue
        if unended and token.kind in ("alone", "close"):
            token = replace(token, raw="".join(one.raw for one in [*unended, token]))
        else:
            found += unended
        unended = []
        found.append(token)
    return found + unended


def _symbols_whole(tokens: list[Token]) -> list[Token]:
    """Return the tokens with elements around symbols alone, such as the link after a heading, as one token each."""
    found: list[Token] = []
    for token in tokens:
        found.append(token)
        if token.kind != "close" or len(found) < 3 or found[-2].kind != "text":
            continue
        before, inner = found[-3], found[-2].raw
        if before.kind == "open" and before.name == token.name and _is_symbols(inner):
            found[-3:] = [Token("alone", before.raw + inner + token.raw, token.name)]
    return found


def _keys_whole(tokens: Iterable[Token]) -> list[Token]:
    """Return the tokens with keys that are pressed together, `<kbd>Ctrl</kbd>+<kbd>C</kbd>`, merged to one token."""
    found: list[Token] = []
    for token in tokens:
        found.append(token)
        if len(found) < 3 or not token.kind == found[-3].kind == "alone" or found[-2].kind != "text":
            continue
        if token.name.lstrip("&") == "kbd" == found[-3].name.lstrip("&") and _KEYS.fullmatch(found[-2].raw):
            found[-3:] = [replace(token, raw=found[-3].raw + found[-2].raw + token.raw)]
    return found


def _is_symbols(raw: str) -> bool:
    """Return whether a text has symbols, but no words and no punctuation that ends or divides sentences."""
    if len(raw) > 10 * _MOST_SYMBOLS or len(text := html.unescape(raw)) > _MOST_SYMBOLS:
        return False
    return bool(text.strip()) and all(c.isspace() or c in _SYMBOLS or category(c).startswith("S") for c in text)


def tagged_passage(
    tokens: Sequence[Token],
    splitter: passage.Splitter | None = None,
    entities: Literal["html", "xml"] = "html",
    escape: dict[int, str] = passage.HTML_ESCAPES,
    syntax: Syntax = "",
) -> passage.Passage:
    """Return the passage of tokens, whose walls divide it into paragraphs. entities: which names are known, others
    stay; escape: how characters of the translation are written; syntax: that of the text outside of ICU messages."""
    parts: list[str | passage.Sentence] = []
    own = syntax
    known = html5 if entities == "html" else _XML_ENTITIES
    paragraph = Paragraph(escape, known)
    for token in (*_with_lines(with_templates(with_messages(tokens))), Token("wall", "")):
        if token.kind == "text" and token.name:
            paragraph.add_read(token.name, token.raw)
        elif token.kind == "text":
            paragraph.add_text(token.raw)
        elif token.kind != "wall":
            paragraph.add_tag(token.raw, token.kind, token.name)
        else:
            found = paragraph.parts(splitter)
            if own not in ("", "quoted message"):  # in a quoted one, escapes are enough
                found = [one if isinstance(one, str) else replace(one, syntax=own) for one in found]
            parts += [*found, UnreadMessage(token.raw) if token.is_unread else token.raw]
            own = token.syntax or syntax
            quote = {ord("'"): escape.get(ord("'"), "'") * 2} if own == "quoted message" else {}
            paragraph = Paragraph(escape | quote if quote else escape, known)
    return passage.Passage(tuple(part for part in parts if part != ""))


def with_escaped_tags(tokens: Iterable[Token]) -> list[Token]:
    """Return the tokens of XML with tags of HTML that are written as text, `&lt;b&gt;`, as tags."""
    return unclosed_alone(_keys_whole(_opaque_whole(_escaped_tags(tokens))))


def unclosed_alone(tokens: list[Token]) -> list[Token]:
    """Return the tokens with opening tags whose name no tag closes, such as the placeholder <file>, as single marks."""
    closed = {token.name for token in tokens if token.kind == "close"}
    return [replace(one, kind="alone") if one.kind == "open" and one.name not in closed else one for one in tokens]


def _opaque_whole(tokens: Iterable[Token]) -> list[Token]:
    """Return the tokens with elements such as `&lt;code&gt;`, whose content is kept, merged to one token each."""
    found: list[Token] = []
    inner: list[Token] = []  # the element, from its start
    opened: list[str] = []
    for token in tokens:
        if not inner and not (token.kind == "open" and token.name[:1] == "&" and token.name[1:] in OPAQUE):
            found.append(token)
            continue
        inner.append(token)
        if token.kind == "open":
            opened.append(token.name)
        elif token.kind == "close" and opened.pop() != token.name:  # elements that cross stay tags
            found, inner, opened = found + inner, [], []
        elif not opened:
            found.append(Token("alone", "".join(one.raw for one in inner), token.name))
            inner = []
    return found + inner


def _escaped_tags(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        at = 0
        for found in _ESCAPED_TAG.finditer(token.raw) if token.kind == "text" and "&lt;" in token.raw else ():
            if at < found.start():
                yield replace(token, raw=token.raw[at : found.start()])
            name = found[2].lower()
            kind: Kind = "close" if found[1] else "alone" if name in VOID or found[3].endswith("/") else "open"
            yield Token("wall" if name in BLOCKS else kind, found[0], f"&{name}")
            at = found.end()
        if at < len(token.raw) or not at:
            yield replace(token, raw=token.raw[at:])


def plain_passage(text: str, splitter: passage.Splitter | None = None) -> passage.Passage:
    """Return the passage of a text without tags, each line a paragraph but in ICU messages and templates."""
    if not (may_have_messages(text) or has_templates(text) or ("\n" in text and wraps(passage.LINES.split(text)))):
        return passage.text_passage(text, splitter)
    return tagged_passage([Token("text", text, text, is_lines=True)], splitter, escape={})


def _with_lines(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens, texts of lines divided at line breaks and tabs, and behind marks of lists."""
    syntax: Syntax = ""
    former = "wall"
    for token in tokens:
        begins, former = former == "wall", token.kind
        syntax = token.syntax if token.kind == "wall" else syntax
        if not token.is_lines or token.kind != "text" or token.name not in ("", token.raw):
            yield token
            continue
        is_plain = token.name == token.raw
        pieces = (passage.LINES if is_plain else _LINES).split(token.raw)
        within = wraps(pieces)
        for n in within:  # the white space around the line break is part of it
            before, after = pieces[n - 1].rstrip(" "), pieces[n + 1].lstrip(" ")
            pieces[n] = pieces[n - 1][len(before) :] + pieces[n] + pieces[n + 1][: len(pieces[n + 1]) - len(after)]
            pieces[n - 1], pieces[n + 1] = before, after
        for n, piece in enumerate(pieces):
            if n % 2 and n in within:
                yield Token("text", piece, " ")
            elif n % 2:
                yield Token("wall", piece, syntax=syntax)
            elif piece:
                item = passage.ITEM.match(piece) if n - 1 not in within and (n or begins) else None
                if item:
                    yield Token("wall", item[0], syntax=syntax)
                    piece = piece[item.end() :]
                yield Token("text", piece, piece if is_plain else "")


def wraps(pieces: Sequence[str]) -> set[int]:
    """Return the numbers of the line breaks within sentences, given the lines of a text and between them what divides
    them: the next line begins with a small letter and with a word for which the longest line has no room."""
    longest = max(map(len, pieces[::2]))
    found = set()
    for n in range(1, len(pieces), 2) if longest >= _LEAST_WIDTH else ():
        before, after = pieces[n - 1].rstrip(" "), pieces[n + 1].lstrip(" ")
        is_inside = before[-1:].isalnum() or before[-1:] in _WITHIN
        room = len(before) + 1 + len(after.split(" ", 1)[0])
        has_begun = n - 2 in found or not before.lstrip(" ")[:1].islower()  # no corpus in small letters
        if pieces[n] in ("\n", "\r\n") and has_begun and is_inside and after[:1].islower() and room > longest:
            found.add(n)
    return found


_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z]\w{1,31});")


def loose_passage(text: str, splitter: passage.Splitter | None, *, is_lines: bool, marks: str = "") -> passage.Passage:
    """Return the passage of a text; its tags follow their words. `is_lines`: whether line breaks and tabs divide it;
    `marks`: a regular expression, without groups, of what is copied next to its word."""
    if is_lines and not has_markup(text):
        found = with_accelerators([Token("text", text, text, is_lines=True)])
        return tagged_passage(found, splitter, escape={}) if len(found) > 1 else plain_passage(text, splitter)
    cuts = re.compile(f"({marks or '(?!)'})")
    tokens: list[Token] = []
    for token in with_accelerators(inline_tokens(text)) if is_lines else inline_tokens(text):
        for n, piece in enumerate(cuts.split(token.raw) if token.kind == "text" else [token.raw]):
            kind = "alone" if n % 2 else token.kind
            tokens += [replace(token, kind=kind, raw=piece, is_lines=is_lines)] if piece else []
    return tagged_passage(tokens, splitter)


def has_markup(text: str) -> bool:
    """Return whether a text has tags or character references."""
    return _TAG.search(text) is not None or has_references(text)


def has_references(text: str) -> bool:
    """Return whether a text has character references."""
    return _REFERENCE.search(text) is not None


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


def read_passage(
    text: str,
    markup: passage.Markup = "text",
    splitter: passage.Splitter | None = None,
    ignored: frozenset[str] = frozenset(),
    rules: passage.Rules = passage.RULES,
) -> passage.Passage:
    """Split a text into sentences. markup: the kind of its tags; splitter: of paragraphs, if there is one; ignored:
    names of elements whose content is not translated; rules: of all sentences."""
    if markup == "text":
        return plain_passage(text, splitter).ruled(rules)
    return tagged_passage(html_tokens(text, ignored, is_xml=markup == "xml"), splitter).ruled(rules)
