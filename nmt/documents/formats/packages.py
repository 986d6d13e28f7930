"""Packages, zip archives of XML: office documents and books. Parts with text are translated, all else is copied. In a
paragraph of runs, text with the formatting of most of the text around it is plain text. Other text becomes an element,
as do links, insertions, content controls, bookmarks and fields; what has no text (note references, pictures, symbols,
deleted text, formulas) is a mark at its place: its number between two control characters, which XML cannot contain."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from bisect import bisect_left
from collections.abc import Sequence, Set
from copy import copy
from dataclasses import replace
from html import escape, unescape
from itertools import zip_longest

from nmt.documents.document import Document, File
from nmt.documents.encodings import xml_as_utf8
from nmt.documents.formats import html, xml_places
from nmt.documents.formats.run_pieces import DRAWING, WORD, Item, Look, Piece, RunReader, behind_properties, pair
from nmt.documents.passage import Passage, Splitter
from nmt.documents.tagged_text import Token, tagged_passage
from nmt.documents.tokens import notes_whole
from nmt.errors import DataError
from nmt.system.file_kinds import HEAD_BYTES, kind_of_bytes

_MARK = re.compile(r"\x02(\d+)\x03")
_RAISED = re.compile(r"superscript|baseline=\\?[\"'][1-9]", re.IGNORECASE)
"""A part of the formatting of superscript text."""
_STYLE_NAME = re.compile(rb'\bstyle:name="([^"]*)"')
_FILE_NAME = re.compile(r"\A(?:\S*[/\\])?[^/\\]{1,100}\.(?:jpe?g|png|gif|bmp|tiff?|svg|[ew]mf|webp)", re.IGNORECASE)
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_DUBLIN_CORE = "http://purl.org/dc/elements/1.1/"
_ODF = "urn:oasis:names:tc:opendocument:xmlns:"
_PARAGRAPHS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(WORD + DRAWING, ("p",)),
    f"{_ODF}text:1.0": ("p", "h"),
    f"{_ODF}svg-compatible:1.0": ("title", "desc"),  # of pictures
    "http://www.daisy.org/z3986/2005/ncx/": ("text",),  # the table of contents of EPUB 2
    _DUBLIN_CORE: ("title", "description"),
}
"""Names of paragraphs by namespace. Those of other formats than WordprocessingML and DrawingML have no runs."""
_KEPT = ("tracked-changes", "docAuthor")
"""Elements whose paragraphs are not translated."""


def is_paragraph(one: xml_places.Element) -> bool:
    """Return whether an element is a paragraph to translate; text that OpenDocument computes is not."""
    if one.name not in _PARAGRAPHS.get(one.space, ()):
        return False
    above = one.parent
    if above is not None and above.name == "table-cell":
        if "formula" in above.attributes or above.attributes.get("value-type", "string") != "string":
            return False
    while above is not None and above.name not in _KEPT:
        above = above.parent
    return above is None


def is_description(one: xml_places.Element) -> bool:
    """Return whether an element may describe a picture of WordprocessingML, DrawingML or PresentationML."""
    return one.name in ("docPr", "cNvPr")


class Paragraph:
    """A paragraph that contains text."""

    def __init__(self, whole: xml_places.Element, content: bytes, splitter: Splitter | None, raised: Set[str]) -> None:
        self._content, self._whole = content, whole
        self._prefix = xml_places.prefix_of(content, whole)
        self.start, self.end = whole.start, whole.end
        reader = RunReader(whole, content) if whole.space in WORD + DRAWING else MixedReader(whole, content, raised)
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

    def written(self, new: str, changes: Sequence[tuple[int, int, bytes]]) -> bytes:
        """Return the XML with a translation; changes: replacements of the paragraphs within, in order."""
        starts = [start for start, _, _ in changes]

        def kept(start: int, end: int) -> bytes:
            within = changes[bisect_left(starts, start) : bisect_left(starts, end)]
            moved = [(a - start, b - start, text) for a, b, text in within]
            return xml_places.replaced(self._content[start:end], moved) if moved else self._content[start:end]

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
        return [one for both in zip_longest(parts[::2], marks, fillvalue="") for one in both if one != ""]


class Description:
    """An attribute that describes a picture: bytes [start, end) of the part, without quotes."""

    def __init__(self, start: int, end: int, content: bytes, splitter: Splitter | None) -> None:
        self.start, self.end = start, end
        self.passage = tagged_passage([Token("text", content[start:end].decode(), is_lines=True)], splitter)

    def written(self, new: str, changes: Sequence[tuple[int, int, bytes]]) -> bytes:
        """Return the attribute's value with a translation; there are no changes within."""
        return new.replace('"', "&quot;").replace("'", "&#39;").encode()


def _descriptions(one: xml_places.Element, content: bytes, splitter: Splitter | None) -> list[Description]:
    """Return the descriptions of a picture that are more than the name of a file."""
    places = (xml_places.attribute_place(content, one, name) for name in ("descr", "title"))
    found = [Description(*place, content, splitter) for place in places if place is not None]
    return [one for one in found if one.passage.sentences and not _FILE_NAME.fullmatch(one.passage.source)]


class _Runs:
    """XML of runs and what is between them. is_single: whether a run has one text, with its spaces, as in DrawingML."""

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
        plain = unescape(text)
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
    """A reader of a paragraph's pieces. Elements that are neither inline nor white space are marks at their places."""

    base: None = None

    def __init__(self, whole: xml_places.Element, content: bytes, raised: Set[str]) -> None:
        self._content, self._raised = content, raised
        self.pieces: list[Piece] = []
        self._is_spaced = True  # whether the text so far ends with a space, or there is none
        self._contents(whole)

    def _contents(self, one: xml_places.Element) -> None:
        at = one.inner
        for child in one.children:
            self._text(at, child.start)
            self._child(child)
            at = child.end
        self._text(at, one.inner_end)

    def _text(self, start: int, end: int) -> None:
        if raw := _INSTRUCTION.sub("", xml_places.without_cdata(self._content[start:end].decode())):
            self.pieces.append(Piece("text", raw))
            self._is_spaced = raw[-1].isspace()

    def _child(self, one: xml_places.Element) -> None:
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


_OPEN_DOCUMENT = ("content", r"(?:content|styles)\.xml")
_PACKAGES = {
    "docx": ("word/document", r"word/(?:document|header|footer|footnotes|endnotes|comments)\d*\.xml"),
    "pptx": ("ppt/presentation", r"ppt/(?:(?:notesS|s)lides/\w+|charts/chart\d*|diagrams/(?:data|drawing)\d*)\.xml"),
    "odt": _OPEN_DOCUMENT,
    "ods": _OPEN_DOCUMENT,
    "odp": _OPEN_DOCUMENT,
    "epub": ("META-INF/container", r"(?!META-INF/).+\.(?:x?html?|ncx|opf)"),
}
"""By format, the part of every package, without .xml, and the names of parts with text (ECMA-376; ODF; EPUB 3.3)."""
_ROOT = re.compile(rb"<(?:\w+:)?(?:html|body|package|ncx)\s[^<>]*>")
"""Tags around all text of a part of a book."""
_LANGUAGE = re.compile(rb"""(\s(?:xml:)?lang\s*=\s*["'])([\w-]+)(["'])""")
_HTML = re.compile(r"x?html?")
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def read(file: File) -> Document:
    """Read a package. Raises DataError if it is not one of its format, or exceeds the limits."""
    archive, contents = _opened(file)
    parts: dict[str, Document] = {}
    for name, content in contents.items():
        part = replace(file, content=content, name=f"{file.name}: {name}")
        is_html = _HTML.fullmatch(name.rpartition(".")[2]) is not None
        parts[name] = html.read(part) if is_html else _xml_part(part)
    passages = [one for part in parts.values() for one in part.passages]

    def write(texts: Sequence[str]) -> bytes:
        if all(new == one.source for one, new in zip(passages, texts, strict=True)):
            return file.content
        rest = iter(texts)
        new = {name: part.write([next(rest) for _ in part.passages]) for name, part in parts.items()}
        if file.form == "epub" and file.languages is not None and all(file.languages):
            new = {name: _in_language(part, *file.languages) for name, part in new.items()}
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as packed:
            for info in archive.infolist():
                member = new[info.filename] if info.filename in new else archive.read(info)
                packed.writestr(copy(info), member)  # a copy, as writestr changes it
        return out.getvalue()

    return Document(passages, write)


def _xml_part(part: File) -> Document:
    """Read a part in XML. A language that it declares becomes the target language."""
    data, back = xml_as_utf8(part.content, part.name)
    paragraphs: list[Paragraph | Description] = []
    languages: list[xml_places.Element] = []
    styles = [one.partition(b"</style:style>")[0] for one in data.split(b"<style:style ")[1:]]
    found = (_STYLE_NAME.search(one) for one in styles if b'text-position="super' in one)
    raised = {one[1].decode() for one in found if one is not None}

    def wanted(one: xml_places.Element) -> bool:
        return is_paragraph(one) or is_description(one) or (one.name == "language" and one.space == _DUBLIN_CORE)

    for tree in xml_places.trees(data, part.name, wanted, part.limits):
        languages += [tree] if tree.name == "language" and tree.inner < tree.end else []  # of a book
        for one in xml_places.in_order([tree]):
            if is_paragraph(one) and one.inner < one.end:
                new = Paragraph(one, data, part.splitter, raised)
                paragraphs += [new] if new.passage.sentences else []
            elif is_description(one):
                paragraphs += _descriptions(one, data, part.splitter)

    def write(texts: Sequence[str]) -> bytes:
        changes = _changes(paragraphs, texts)
        if part.languages is not None and part.languages[1] and languages:  # the first one is the main language
            changes.append((languages[0].inner, languages[0].inner_end, escape(part.languages[1]).encode()))
        return back(xml_places.replaced(data, changes)) if changes else part.content

    return Document([one.passage for one in paragraphs], write)


def _in_language(content: bytes, source: str, target: str) -> bytes:
    """Return a part of a book whose text as a whole, if it is said to be in the source language, is in the target's."""

    def changed(found: re.Match[bytes]) -> bytes:
        return _LANGUAGE.sub(lambda one: one[1] + target.encode() + one[3] if is_source(one[2]) else one[0], found[0])

    def is_source(code: bytes) -> bool:
        return re.split(b"[-_]", code)[0].lower() == re.split("[-_]", source)[0].lower().encode()

    return _ROOT.sub(changed, content)


def _changes(paragraphs: Sequence[Paragraph | Description], texts: Sequence[str]) -> list[tuple[int, int, bytes]]:
    """Return the byte ranges to replace; a changed paragraph includes the changes within it, as in text boxes."""
    changes: list[tuple[int, int, bytes]] = []
    for one, new in sorted(zip(paragraphs, texts, strict=True), key=lambda pair: pair[0].end):
        if new == one.passage.source:
            continue
        within = len(changes)
        while within and changes[within - 1][0] >= one.start:
            within -= 1
        changes[within:] = [(one.start, one.end, one.written(new, changes[within:]))]
    return changes


def _opened(file: File) -> tuple[zipfile.ZipFile, dict[str, bytes]]:
    """Return the archive, all of whose members are readable, and its parts with text. Raises DataError."""
    name, limits = file.name, file.limits
    kind = f"{'an' if file.form[0] in 'eo' else 'a'} {file.form.upper()} file"
    needed, wanted = _PACKAGES[file.form]
    try:
        archive = zipfile.ZipFile(io.BytesIO(file.content))
        members = archive.infolist()
        if sum(info.file_size for info in members) > limits.archive_bytes:
            raise DataError(f"{name}: must unpack to at most {limits.archive_bytes:,} bytes, got more; split it")
        names = [info.filename for info in members]
        if len(set(names)) < len(names):
            raise DataError(f"{name}: must be {kind} without two members of one name, got some; save it again")
        if any(info.flag_bits & 1 for info in members):
            raise DataError(f"{name}: must be {kind} without a password, got an encrypted one; save it without")
        texts = [info for info in members if re.fullmatch(wanted, info.filename)]
        limits.check_content(sum(info.file_size for info in texts), name)
        if any(info.compress_type not in _PACKED for info in members) or archive.testzip() is not None:
            raise zipfile.BadZipFile("a member cannot be unpacked")
        parts = {info.filename: archive.read(info) for info in texts}
        limits.check_elements(sum(map(xml_places.count_elements, parts.values())), name)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError, OSError) as error:
        other = kind_of_bytes(file.content[:HEAD_BYTES])
        if other is not None and not file.content.startswith(b"PK"):
            raise DataError(f"{name}: must be {kind}, got {other.what}; {other.advice}") from None
        raise DataError(f"{name}: must be {kind}, got a broken one ({error}); save it again") from None
    if not any(one.startswith(needed) for one in names):
        raise DataError(f"{name}: must be {kind} with {needed}.xml, got another archive; save it again")
    return archive, parts
