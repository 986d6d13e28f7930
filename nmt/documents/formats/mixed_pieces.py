"""The pieces of a paragraph whose text is between its elements, as in OpenDocument."""

from __future__ import annotations

import re

from nmt.documents.formats.run_pieces import Item, Piece
from nmt.documents.formats.xml_places import Element, without_cdata

_INLINE = ("span", "a", "meta", "ruby", "ruby-base")
_WALLS = ("tab", "line-break")
_START, _END = "-start", "-end"
"""Endings of the names of elements around a range, such as bookmarks and tracked insertions."""
_INSTRUCTION = re.compile(r"<\?.*?(?:\?>|\Z)", re.DOTALL)


class MixedReader:
    """A reader of the pieces of a paragraph, in order. Elements that are neither inline nor white space, such as notes,
    pictures and computed fields, are marks at their places."""

    base: None = None

    def __init__(self, whole: Element, content: bytes) -> None:
        self._content = content
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
            key = f"in{one.start}"
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
