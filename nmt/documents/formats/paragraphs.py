"""Paragraphs of office documents and books as text with marks, and their XML rewritten around a translation.

In a paragraph of runs, text with the formatting of most of the text around it is plain text. Text with other formatting
becomes an element, as do links, insertions, content controls, bookmarks and fields; everything without text (note
references, pictures, symbols, deleted text, formulas) is a mark at its place. A mark is represented by its number
between two control characters, which XML cannot contain.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Sequence, Set

from nmt.documents.formats.run_pieces import DRAWING, WORD, Item, Look, Piece, RunReader, behind_properties, pair
from nmt.documents.formats.xml_places import Element, attribute_place, prefix_of, replaced, without_cdata
from nmt.documents.passage import Passage
from nmt.documents.sentences import Splitter
from nmt.documents.tagged_text import Token, tagged_passage
from nmt.documents.tokens.notes import notes_whole

_MARK = re.compile(r"\x02(\d+)\x03")
_RAISED = re.compile(r"superscript|baseline=\\?[\"'][1-9]", re.IGNORECASE)
"""A part of the formatting of superscript text."""
_STYLE_NAME = re.compile(rb'\bstyle:name="([^"]*)"')
_FILE_NAME = re.compile(r"\A(?:\S*[/\\])?[^/\\]{1,100}\.(?:jpe?g|png|gif|bmp|tiff?|svg|[ew]mf|webp)", re.IGNORECASE)
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_DUBLIN_CORE = "http://purl.org/dc/elements/1.1/"
_OPEN_DOCUMENT = "urn:oasis:names:tc:opendocument:xmlns:"
_PARAGRAPHS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(WORD + DRAWING, ("p",)),
    f"{_OPEN_DOCUMENT}text:1.0": ("p", "h"),
    f"{_OPEN_DOCUMENT}svg-compatible:1.0": ("title", "desc"),  # of pictures
    "http://www.daisy.org/z3986/2005/ncx/": ("text",),  # the table of contents of EPUB 2
    _DUBLIN_CORE: ("title", "description"),
}
"""Names of paragraphs by namespace. Those of other formats than WordprocessingML and DrawingML have no runs."""
_KEPT = ("tracked-changes", "docAuthor")
"""Elements whose paragraphs are not translated."""


def is_paragraph(one: Element) -> bool:
    """Return whether an element is a paragraph to translate. Cells of OpenDocument that contain a number or a formula
    are not: their text is computed."""
    if one.name not in _PARAGRAPHS.get(one.space, ()):
        return False
    above = one.parent
    if above is not None and above.name == "table-cell":
        if "formula" in above.attributes or above.attributes.get("value-type", "string") != "string":
            return False
    while above is not None and above.name not in _KEPT:
        above = above.parent
    return above is None


def is_description(one: Element) -> bool:
    """Return whether an element may describe a picture of WordprocessingML, DrawingML or PresentationML."""
    return one.name in ("docPr", "cNvPr")


def is_language(one: Element) -> bool:
    """Return whether an element names the language of a book."""
    return one.name == "language" and one.space == _DUBLIN_CORE


class Paragraph:
    """A paragraph that contains text."""

    def __init__(self, whole: Element, content: bytes, splitter: Splitter | None, raised: Set[str]) -> None:
        self._content, self._whole = content, whole
        self._prefix = prefix_of(content, whole)
        self.start, self.end = whole.start, whole.end
        has_runs = whole.space in WORD + DRAWING
        reader = RunReader(whole, content) if has_runs else MixedReader(whole, content, raised)
        self._pieces = [*reader.pieces]
        pair(self._pieces)
        self._base: Look | None = reader.base
        self.passage: Passage = tagged_passage(
            notes_whole(
                [
                    Token(one.kind, one.text if one.kind == "text" else f"\x02{n}\x03", one.key)
                    for n, one in enumerate(self._pieces)
                ],
                lambda token: _RAISED.search(token.name) is not None,
            ),
            splitter,
        )

    @classmethod
    def all_of(
        cls, whole: Element, content: bytes, splitter: Splitter | None, raised: Set[str]
    ) -> list[Paragraph | Description]:
        """Return the paragraphs with text of an element: itself and those nested in it, such as those of text boxes,
        and descriptions of pictures. raised: names of styles of superscript text."""
        found: list[Paragraph | Description] = []
        stack = [whole]
        while stack:
            one = stack.pop()
            if is_paragraph(one) and one.inner < one.end:
                new = cls(one, content, splitter, raised)
                found += [new] if new.passage.sentences else []
            elif is_description(one):
                found += _descriptions(one, content, splitter)
            stack += reversed(one.children)
        return found

    def written(self, new: str, changes: Sequence[tuple[int, int, bytes]]) -> bytes:
        """Return the XML with a translation; changes: replacements of the paragraphs within, in order."""
        starts = [start for start, _, _ in changes]

        def kept(start: int, end: int) -> bytes:
            within = changes[bisect_left(starts, start) : bisect_left(starts, end)]
            moved = [(a - start, b - start, text) for a, b, text in within]
            return replaced(self._content[start:end], moved) if moved else self._content[start:end]

        out = _Runs(self._prefix, self._whole.space in DRAWING)
        looks = [self._base]
        for part in self._in_tree(_MARK.split(new)):
            if isinstance(part, str):
                out.add_text(looks[-1], part)
                continue
            piece = self._pieces[part]
            if piece.look is not None:
                looks.append(piece.look)
            elif piece.kind == "close" and piece.key.startswith(("look", "in")) and len(looks) > 1:
                looks.pop()
            for item in piece.items:
                out.add(item.look, kept(item.start, item.end), item.run)
            out.add_text(looks[-1], piece.text)
        opening = self._content[self._whole.start : behind_properties(self._whole)]  # up to text, or to the first run
        return opening + out.whole() + self._content[self._whole.inner_end : self._whole.end]

    def _in_tree(self, parts: Sequence[str]) -> list[str | int]:
        """Return texts and marks, each once: in the translation's order if elements form a tree there."""
        all_marks = [n for n, one in enumerate(self._pieces) if one.kind != "text"]
        marks = [int(number) for number in parts[1::2]]
        opened: list[str] = []
        is_tree = sorted(marks) == all_marks
        for n in marks if is_tree else []:
            piece = self._pieces[n]
            if piece.kind == "open":
                opened.append(piece.key)
            elif piece.kind == "close" and (not opened or opened.pop() != piece.key):
                is_tree = False
                break
        if not is_tree:
            marks = all_marks
        found: list[str | int] = []
        for n, text in enumerate(parts[::2]):
            found += [text] if text else []
            found += marks[n : n + 1]
        return found + list(marks[len(parts[::2]) :])


class Description:
    """An attribute that describes a picture: bytes [start, end) of the part, without quotes."""

    def __init__(self, start: int, end: int, content: bytes, splitter: Splitter | None) -> None:
        self.start, self.end = start, end
        self.passage = tagged_passage([Token("text", content[start:end].decode(), is_lines=True)], splitter)

    def written(self, new: str, changes: Sequence[tuple[int, int, bytes]]) -> bytes:
        """Return the attribute's value with a translation; there are no changes within."""
        return new.replace('"', "&quot;").replace("'", "&#39;").encode()


def _descriptions(one: Element, content: bytes, splitter: Splitter | None) -> list[Description]:
    """Return the descriptions of a picture that are more than the name of a file."""
    places = (attribute_place(content, one, name) for name in ("descr", "title"))
    found = [Description(*place, content, splitter) for place in places if place is not None]
    return [one for one in found if one.passage.sentences and not _FILE_NAME.fullmatch(one.passage.source)]


def raised_styles(content: bytes) -> set[str]:
    """Return the names of the styles of an OpenDocument part that make text superscript."""
    styles = [one.partition(b"</style:style>")[0] for one in content.split(b"<style:style ")[1:]]
    found = (_STYLE_NAME.search(one) for one in styles if b'text-position="super' in one)
    return {one[1].decode() for one in found if one is not None}


class _Runs:
    """XML of runs and what is between them; adjacent texts with the same formatting are merged. is_single: whether a
    run has one text, whose spaces are preserved, as in DrawingML."""

    def __init__(self, prefix: bytes, is_single: bool) -> None:
        self._prefix, self._is_single = prefix, is_single
        self._parts: list[bytes] = []
        self._look: Look | None = None
        self._run = 0

    def add(self, look: Look | None, inner: bytes, run: int = 0) -> None:
        """Add the content of a run with this formatting; without a look, add content between runs."""
        is_other = look is None or self._look is None or look.form != self._look.form or run != self._run
        if self._look is not None and (is_other or self._is_single):
            self._parts.append(b"</%sr>" % self._prefix)
            self._look = None
        if look is not None and self._look is None:
            self._parts.append((look.head[:-2].rstrip() + b">" if look.head.endswith(b"/>") else look.head) + look.form)
            self._look, self._run = look, run
        self._parts.append(inner)

    def add_text(self, look: Look | None, text: str) -> None:
        """Add escaped text, in a run if it has a look; spaces at its ends are preserved."""
        text = _NO_XML.sub("", text)
        plain = html.unescape(text)
        space = b' xml:space="preserve"' if plain != plain.strip() and not self._is_single else b""
        if look is None:
            self._parts.append(text.encode())
        elif text:
            self.add(look, b"<%st%s>%s</%st>" % (self._prefix, space, text.encode(), self._prefix))

    def whole(self) -> bytes:
        """Return the XML."""
        if self._look is not None:
            self._parts.append(b"</%sr>" % self._prefix)
        return b"".join(self._parts)


_INLINE = ("span", "a", "meta", "ruby", "ruby-base")
_WALLS = ("tab", "line-break")
_START, _END = "-start", "-end"
"""Endings of the names of elements around a range, such as bookmarks and tracked insertions."""
_INSTRUCTION = re.compile(r"<\?.*?(?:\?>|\Z)", re.DOTALL)


class MixedReader:
    """A reader of the pieces of a paragraph, in order. Elements that are neither inline nor white space, such as notes,
    pictures and computed fields, are marks at their places."""

    base: None = None

    def __init__(self, whole: Element, content: bytes, raised: Set[str]) -> None:
        self._content, self._raised = content, raised
        self.pieces: list[Piece] = []
        self._is_spaced = True  # whether the text so far ends with a space, or there is none
        self._contents(whole)

    def _contents(self, one: Element) -> None:
        at = one.inner
        for child in one.children:
            self._text(at, child.start)
            self._child(child)
            at = child.end
        self._text(at, one.inner_end)

    def _text(self, start: int, end: int) -> None:
        raw = _INSTRUCTION.sub("", without_cdata(self._content[start:end].decode()))
        if raw:
            self.pieces.append(Piece("text", raw))
            self._is_spaced = raw[-1].isspace()

    def _child(self, one: Element) -> None:
        item, ids = Item(one.start, one.end), one.attributes
        if one.name == "s" and not self._is_spaced:  # spaces: the first one divides words, others are a mark
            self.pieces.append(Piece("text", " "))
            self._is_spaced = True
            if ids.get("c", "1") == "1":
                return
        if one.name in _INLINE and one.inner < one.end:
            style = ids.get("style-name", "")
            key = f"in{one.start}{' superscript' * (style in self._raised)} {style}"
            self.pieces.append(Piece("open", "", [Item(one.start, one.inner)], key))
            self._contents(one)
            self.pieces.append(Piece("close", "", [Item(one.inner_end, one.end)], key))
        elif one.name in _WALLS:
            self.pieces.append(Piece("wall", "", [item]))
            self._is_spaced = True
        elif one.name.endswith((_START, _END)):
            name, _, end = one.name.rpartition("-")
            key = f"range {name} {ids.get('name') or ids.get('change-id') or ids.get('id')}"
            self.pieces.append(Piece("open" if end == "start" else "close", "", [item], key))
        elif self.pieces and self.pieces[-1].kind == "alone":
            self.pieces[-1].items.append(item)
        else:
            self.pieces.append(Piece("alone", "", [item]))
