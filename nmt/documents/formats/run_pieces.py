"""Split a paragraph of WordprocessingML or DrawingML into pieces, in their order: texts (those of its runs), the
beginnings and ends of ranges around them such as links, and marks such as line breaks."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from nmt.documents.formats.xml_places import Element, prefix_of, without_cdata
from nmt.documents.tagged_text import Kind

WORD = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
DRAWING = ("http://schemas.openxmlformats.org/drawingml/2006/main", "http://purl.oclc.org/ooxml/drawingml/main")
_SPACES = WORD + DRAWING
_CONTAINERS = ("hyperlink", "ins", "moveTo", "smartTag", "customXml", "bdo", "dir", "fldSimple")
_PROPERTIES = ("pPr", "rPr", "sdtPr", "sdtEndPr", "smartTagPr", "customXmlPr", "fldData")
_WALLS = ("tab", "br", "cr", "ptab")
_STALE = ("proofErr", "lastRenderedPageBreak", "softHyphen")
_STALE_ATTRIBUTES = re.compile(rb"""\s(?:dirty|err|smtClean)\s*=\s*(?:"[^"]*"|'[^']*')""")
"""Elements, and attributes of properties in DrawingML, that describe the old text only."""
_RANGES = {"bookmarkStart": "bookmarkEnd", "commentRangeStart": "commentRangeEnd", "permStart": "permEnd"}
_ENDS = {end: start for start, end in _RANGES.items()}
_TAB = re.compile(r"(\t|&#(?:9|x9);|_x000[9ABDabd]_)")
"""Tabs and line breaks as text of DrawingML."""
_TEXT_FIELDS = ("HYPERLINK", "TOC", "TOA", "INDEX", "QUOTE")
"""Fields whose results are translated. The results of others, such as page numbers, are computed by Word and kept."""


@dataclass(frozen=True)
class Look:
    """The formatting of a run: its tag, and its properties, by which looks are compared."""

    head: bytes
    form: bytes


@dataclass(slots=True)
class Item:
    """Bytes [start, end) of the part; look: the formatting of the run that contains them, None between runs; run: where
    that run begins, 0 if the content may be merged into the adjacent run."""

    start: int
    end: int
    look: Look | None = None
    run: int = 0


@dataclass(slots=True)
class Piece:
    """A piece of the paragraph. kind: of a token; text: of a text, or a tab of DrawingML, which is a wall; key: of both
    pieces of a pair; look: the formatting of a text, or of the text within a container."""

    kind: Kind
    text: str = ""
    items: list[Item] = field(default_factory=list)
    key: str = ""
    look: Look | None = None


@dataclass(slots=True)
class _Field:
    """A complex field being read, with `depth` nested ones, and its instruction up to its result."""

    piece: Piece
    levels: int
    depth: int = 1
    instruction: str = ""


def behind_properties(one: Element) -> int:
    """Return where the content of an element begins, after its properties."""
    at = one.inner
    for child in one.children:
        if child.name not in _PROPERTIES:
            break
        at = child.end
    return at


def _ruby_base(run: Element) -> Element | None:
    """Return the base text of a run that is nothing but a text with its reading."""
    inner = [one for one in run.children if one.name not in _PROPERTIES]
    if len(inner) != 1 or inner[0].name != "ruby":
        return None
    return next((one for one in inner[0].children if one.name == "rubyBase"), None)


class RunReader:
    """A reader of the pieces of a paragraph, in order."""

    def __init__(self, whole: Element, content: bytes) -> None:
        self._content = content
        self._prefix = prefix_of(content, whole)
        self.pieces: list[Piece] = []
        self._fields: list[_Field | str] = []  # open fields: being read, or, once the result has begun, their key
        self._level = 0
        self._look: str = ""  # the key of the open look
        self._last_text = 0
        self.base = self._base_of(whole, Look(b"<%sr>" % self._prefix, b""))
        self._contents(whole, self.base)
        self._end_look()
        while self._fields:
            self._flush()

    @property
    def _field(self) -> _Field | None:
        """Return the field that is being read."""
        return top if self._fields and isinstance(top := self._fields[-1], _Field) else None

    def _base_of(self, container: Element, outer: Look) -> Look:
        """Return the formatting of most of the text directly within a container; the outer one if it contains none."""
        sizes: Counter[bytes] = Counter()
        looks: dict[bytes, Look] = {}
        for run in container.children:
            if run.name != "r":
                continue
            if size := sum(one.inner_end - one.inner for one in run.children if one.name == "t"):
                look = self._look_of(run)
                looks.setdefault(look.form, look)
                sizes[look.form] += size
        return looks[sizes.most_common(1)[0][0]] if sizes else outer

    def _look_of(self, run: Element) -> Look:
        form = next((one for one in run.children if one.name == "rPr"), None)
        return Look(
            self._content[run.start : run.inner],
            _STALE_ATTRIBUTES.sub(b"", self._content[form.start : form.end]) if form is not None else b"",
        )

    # ------------------------------------------------------------ between runs

    def _contents(self, container: Element, base: Look) -> None:
        for child in container.children:
            own = child.space in _SPACES
            if own and child.name == "r" and (ruby := _ruby_base(child)) is not None:
                self._container(child, ruby, base)
            elif own and child.name == "r":
                self._run(child, base)
            elif own and child.name == "sdt":
                self._container(child, next((one for one in child.children if one.name == "sdtContent"), None), base)
            elif own and child.name in _CONTAINERS and not self._is_computed(child):
                self._container(child, child, base)
            elif own and child.name in (*_RANGES, *_ENDS):
                key = f"range {_ENDS.get(child.name, child.name)} {child.attributes.get('id')}"
                kind: Kind = "open" if child.name in _RANGES else "close"
                self._emit(Piece(kind, "", [Item(child.start, child.end)], key))
            elif own and child.name in _WALLS:
                self._emit(Piece("wall", "", [Item(child.start, child.end)]))
            elif not (own and child.name in (*_PROPERTIES, *_STALE)):
                self._point(Item(child.start, child.end))

    def _is_computed(self, one: Element) -> bool:
        instruction = one.attributes.get("instr", "").split()
        return one.name == "fldSimple" and (not instruction or instruction[0].upper() not in _TEXT_FIELDS)

    def _container(self, one: Element, inside: Element | None, base: Look) -> None:
        if inside is None or inside.inner == inside.end:  # it is empty
            self._point(Item(one.start, one.end))
            return
        key = f"in{one.start}"
        look = self._base_of(inside, base)
        self._emit(Piece("open", "", [Item(one.start, behind_properties(inside))], key, look))
        self._level += 1
        self._contents(inside, look)
        self._level -= 1
        if (field := self._field) is not None and field.levels > self._level:
            self._flush()  # the field ends outside the container
        self._emit(Piece("close", "", [Item(inside.inner_end, one.end)], key))
        if (field := self._field) is not None and field.depth <= 0 and field.levels == self._level:
            self._flush()

    # ------------------------------------------------------------ within runs

    def _run(self, run: Element, base: Look) -> None:
        look = self._look_of(run)
        for child in run.children:
            item = Item(child.start, child.end, look, run.start)
            if child.space not in _SPACES:
                self._point(item)
            elif child.name == "t":
                text = without_cdata(self._content[child.inner : child.inner_end].decode())
                for n, part in enumerate(_TAB.split(text) if child.space in DRAWING else [text]):
                    if n % 2:
                        self._emit(Piece("wall", part if part.startswith("_") else "\t"))
                    else:
                        self._text(part, item, base)
            elif child.name == "noBreakHyphen":
                self._text("\u2011", item, base)
            elif child.name in _WALLS:
                self._emit(Piece("wall", "", [Item(child.start, child.end, look)]))
            elif child.name == "fldChar":
                self._field_character(child, item)
            elif child.name not in (*_PROPERTIES, *_STALE):
                if child.name == "instrText" and (field := self._field) is not None and field.depth == 1:
                    raw = self._content[child.inner : min(child.inner_end, child.inner + 40)]
                    field.instruction = (field.instruction + raw.decode(errors="ignore"))[:40]
                self._point(item)

    def _field_character(self, one: Element, item: Item) -> None:
        kind = one.attributes.get("fldCharType")
        field = self._field
        if field is None and kind == "begin":
            self._end_look()
            self._fields.append(_Field(Piece("alone", "", [item]), self._level))
        elif field is None and kind == "end" and self._fields:
            self._emit(Piece("close", "", [item], str(self._fields.pop())))
        elif field is None:
            self._point(item)
        else:
            field.piece.items.append(item)
            field.depth += (kind == "begin") - (kind == "end")
            instruction = field.instruction.split()
            if self._level != field.levels:
                return  # it belongs to an element together with its end
            if field.depth <= 0:
                self._flush()
            elif kind == "separate" and field.depth == 1 and instruction and instruction[0].upper() in _TEXT_FIELDS:
                field.piece.kind, field.piece.key = "open", f"field{item.start}"
                self._flush()
                self._fields.append(field.piece.key)

    def _flush(self) -> None:
        """Emit what has been read of the top field."""
        field = self._fields.pop()
        if isinstance(field, _Field):
            self._emit(field.piece)

    # ------------------------------------------------------------ pieces

    def _text(self, text: str, item: Item, base: Look) -> None:
        if not text:
            return
        if (field := self._field) is not None:
            field.piece.items.append(item)
            return
        look = item.look or base
        key = f"look{self._level} {look.form!r}" if look.form != base.form else ""
        if text.strip() and key != self._look:
            self._end_look()
            if key:
                bare = text.lstrip()
                if bare != text:
                    self.pieces.append(Piece("text", text[: len(text) - len(bare)]))
                self.pieces.append(Piece("open", "", [], key, look))
                text = bare
            self._look = key
        self.pieces.append(Piece("text", text))
        if text.strip():
            self._last_text = len(self.pieces)

    def _end_look(self) -> None:
        """Close the open look after its last text, excluding trailing white space."""
        if self._look:
            last = self.pieces[self._last_text - 1]
            bare = last.text.rstrip()
            rest = [Piece("text", last.text[len(bare) :])] if bare != last.text else []
            last.text = bare
            self.pieces[self._last_text : self._last_text] = [Piece("close", "", [], self._look), *rest]
        self._look = ""

    def _point(self, item: Item) -> None:
        """Add a mark; adjacent marks are merged."""
        if (field := self._field) is not None:
            field.piece.items.append(item)
        elif self.pieces and self.pieces[-1].kind == "alone":
            self.pieces[-1].items.append(item)
        else:
            self.pieces.append(Piece("alone", "", [item]))

    def _emit(self, piece: Piece) -> None:
        """Add a piece, which ends the open look; within a field, add it to the field."""
        if (field := self._field) is not None:
            field.piece.items += piece.items
            return
        self._end_look()
        self.pieces.append(piece)


def pair(pieces: list[Piece]) -> None:
    """Turn opening and closing pieces that have no partner, or that cross others, into single marks."""
    opened: list[int] = []
    for n, piece in enumerate(pieces):
        if piece.kind == "open":
            opened.append(n)
        elif piece.kind == "close":
            is_range = piece.key.startswith("range")
            while opened and pieces[opened[-1]].key != piece.key and _is_loose(pieces[opened[-1]], is_range):
                pieces[opened.pop()].kind = "alone"
            if opened and pieces[opened[-1]].key == piece.key:
                opened.pop()
            else:
                piece.kind = "alone"
    for n in opened:
        pieces[n].kind = "alone"


def _is_loose(piece: Piece, for_range: bool) -> bool:
    """Return whether an open range or field may be broken up so that a container that ends stays whole."""
    return not for_range and piece.key.startswith(("range", "field"))
