"""Where elements stand in a file of XML, byte by byte: what is written anew keeps every byte that it does not mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.parsers import expat

from nmt.errors import DataError


@dataclass
class Element:
    """An element's name without its prefix, attributes, and bytes: of all of it, and of its content."""

    name: str
    attributes: dict[str, str]
    start: int
    inner: int = 0
    inner_end: int = 0
    end: int = 0
    parent: Element | None = None
    children: list[Element] = field(default_factory=list)

    def child(self, name: str) -> Element | None:
        """Its first child of this name."""
        return next((one for one in self.children if one.name == name), None)


def elements_of(content: bytes, name: str) -> list[Element]:
    """All elements of a file in UTF-8, in the order in which they begin. Raises DataError: It is no XML, or declares
    entities, which may grow without end."""
    parser = expat.ParserCreate(None, None)
    found: list[Element] = []
    opened: list[Element] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        parent = opened[-1] if opened else None
        one = Element(tag.rpartition(":")[2], attributes, parser.CurrentByteIndex, parent=parent)
        if parent is not None:
            parent.children.append(one)
        found.append(one)
        opened.append(one)

    def end(tag: str) -> None:
        one = opened.pop()
        at = parser.CurrentByteIndex
        one.inner = _tag_end(content, one.start)
        if content[one.inner - 2 : one.inner] == b"/>":
            one.inner_end = one.end = one.inner
        else:
            one.inner_end, one.end = at, content.index(b">", at) + 1

    def entity(*declared: object) -> None:
        raise DataError(f"{name}: must declare no entities, got one; leave its document type out")

    parser.StartElementHandler, parser.EndElementHandler, parser.EntityDeclHandler = start, end, entity
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise DataError(f"{name}: must be XML, got something else ({error}); mend it") from None
    return found


def _tag_end(content: bytes, start: int) -> int:
    """Behind the tag that begins here; its attributes may hold >."""
    at, quote = start, b""
    while True:
        one = content[at : at + 1]
        at += 1
        if quote:
            quote = b"" if one == quote else quote
        elif one in (b'"', b"'"):
            quote = one
        elif one == b">":
            return at


def replaced(content: bytes, changes: Sequence[tuple[int, int, bytes]]) -> bytes:
    """The file with other bytes at [start, end) of each change, none of which overlap."""
    parts, at = [], 0
    for start, end, new in sorted(changes, key=lambda change: change[:2]):
        parts += [content[at:start], new]
        at = end
    return b"".join([*parts, content[at:]])
