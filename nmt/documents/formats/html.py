"""HTML files: the text, and the attributes that readers see."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from nmt.documents.document import Document, File
from nmt.documents.encodings import declared_text
from nmt.documents.markup import Piece, scan, whole_elements
from nmt.documents.passage import Passage, Splitter
from nmt.documents.tagged_text import Token, html_tokens, is_marked, kept_starts, tagged_passage, value

_SHOWN: dict[str, frozenset[str]] = {
    **dict.fromkeys("title aria-label aria-description aria-roledescription aria-valuetext".split(), frozenset()),
    "alt": frozenset(("img", "area", "input")),
    "placeholder": frozenset(("input", "textarea")),
    "aria-placeholder": frozenset(),
    "label": frozenset(("option", "optgroup", "track")),
    "abbr": frozenset(("th",)),
    "content": frozenset(("meta",)),
    "value": frozenset(("input",)),
}
"""Attributes that are translated (HTML, 3.2.6.2; WAI-ARIA 1.3), and on which elements; on all if none are named."""
_ABOUT = frozenset(
    "description keywords application-name og:title og:description og:site_name og:image:alt twitter:title "
    "twitter:description twitter:image:alt".split()
)
"""Names of metadata whose content is text."""
_HIDDEN = frozenset(("script", "style", "template"))
_VALUE = re.compile(r"\x02(\d+)\x03")
_QUOTES = {'"': "&quot;", "'": "&#39;"}


def read(file: File) -> Document:
    """Read a page. Raises DataError if it cannot be decoded."""
    text, encode = declared_text(file.content, file.name)
    passages, write = html_passages(text, file.splitter)
    return Document(passages, lambda found: encode(write(found)))


def html_passages(text: str, splitter: Splitter | None) -> tuple[list[Passage], Callable[[Sequence[str]], str]]:
    """Return the passages of a page of HTML or XHTML, its text and then its attributes, and a function that returns the
    page, given their new texts. In the text, an attribute is a number between two control characters."""
    values: list[tuple[Passage, str]] = []  # with the sign before each, a quotation mark if it has any
    parts: list[str] = []
    at = 0
    for start, end in [] if "\x02" in text else _shown(text):
        found = tagged_passage([Token("text", text[start:end])], splitter)
        if found.sentences:
            parts += [text[at:start], f"\x02{len(values)}\x03"]
            at = end
            values.append((found, text[start - 1]))
    page = tagged_passage(html_tokens("".join([*parts, text[at:]])), splitter)

    def written(n: int, new: str) -> str:
        value, quote = values[n]
        if new == value.source:
            return new
        return new.replace(quote, _QUOTES[quote]) if quote in _QUOTES else f'"{new.replace(chr(34), "&quot;")}"'

    def write(texts: Sequence[str]) -> str:
        if not values:
            return texts[0]
        return _VALUE.sub(lambda found: written(int(found[1]), texts[int(found[1]) + 1]), texts[0])

    return [page, *(value for value, _ in values)], write


def _shown(text: str) -> list[tuple[int, int]]:
    """Return the ranges of the values of attributes to translate, in order."""
    pieces = scan(text)
    kept: set[int] = set()
    for first, last in whole_elements(pieces, kept_starts(pieces, text), is_xml=False):
        kept.update(range(first + 1, last))
    return sorted(
        piece.attributes[name]
        for n, piece in enumerate(pieces)
        if piece.attributes and n not in kept and piece.name not in _HIDDEN and not is_marked(piece, text)
        for name in piece.attributes.keys() & _SHOWN.keys()
        if _is_shown(piece, name, text)
    )


def _is_shown(piece: Piece, name: str, text: str) -> bool:
    """Return whether readers see this attribute of a tag."""
    if name == "content" and piece.name == "meta":
        return not _ABOUT.isdisjoint((value(piece, text, "name").lower(), value(piece, text, "property").lower()))
    if name == "value" and piece.name == "input":
        kind = value(piece, text, "type").lower()  # values of other kinds and of names are sent to the server
        return kind in ("button", "reset") or (kind == "submit" and "name" not in piece.attributes)
    return not _SHOWN[name] or piece.name in _SHOWN[name]
