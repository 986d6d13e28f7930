"""XLIFF 1.2 and 2: the target of each unit is written, and nothing else changes."""

from __future__ import annotations

from collections.abc import Sequence

from nmt.documents.document import Document, text_of
from nmt.documents.sentences import Splitter
from nmt.documents.tagged_text import xml_passage
from nmt.documents.xml_places import Element, elements_of, replaced
from nmt.errors import DataError

_OPAQUE = frozenset({"ph", "bpt", "ept", "it", "x", "bx", "ex", "cp", "pc-start", "sc", "ec"})
"""Inline elements whose content is code of the original format (XLIFF 1.2, 2.3; 2.0, 4.3)."""


def read(content: bytes, name: str, splitter: Splitter | None) -> Document:
    """An XLIFF file. Units with a translation, or marked translate="no", stay. Raises DataError."""
    text_of(content, name)  # in UTF-8, or refused
    elements = elements_of(content, name)
    if not elements or elements[0].name != "xliff":
        raise DataError(f"{name}: must be XLIFF, got another kind of XML; name the right format")
    units = [one for one in elements if one.name == "source" and _is_open(one, content)]
    passages = [xml_passage(content[u.inner : u.inner_end].decode(), splitter, _OPAQUE) for u in units]

    def write(found: Sequence[str]) -> bytes:
        changes = []
        for unit, new in zip(units, found, strict=True):
            target = unit.parent.child("target") if unit.parent is not None else None
            if target is not None and target.inner < target.end and target.inner_end < target.end:
                changes.append((target.inner, target.inner_end, new.encode()))
                continue
            tag = content[unit.start + 1 : unit.start + 80].split(b">")[0].split()[0].rpartition(b"source")[0]
            whole = b"<%starget>%s</%starget>" % (tag, new.encode(), tag)
            if target is not None:  # <target/>
                changes.append((target.start, target.end, whole))
            else:
                changes.append((unit.end, unit.end, _indent(content, unit.start) + whole))
        return replaced(content, changes)

    return Document(passages, write)


def _indent(content: bytes, start: int) -> bytes:
    """The line break and white space before an element, so that the next one stands like it."""
    line = content.rfind(b"\n", 0, start)
    blank = content[line:start] if line >= 0 else b""
    return blank if not blank.strip() else b""


def _is_open(source: Element, content: bytes) -> bool:
    """Whether a unit is to be translated."""
    unit = source.parent
    if unit is None or unit.name not in ("trans-unit", "segment"):
        return False
    above: Element | None = unit
    while above is not None:
        if above.attributes.get("translate") == "no":
            return False
        above = above.parent
    target = unit.child("target")
    return target is None or not content[target.inner : target.inner_end].strip()
