"""Byte positions of elements in an XML file, so that everything else is kept byte for byte when parts are rewritten."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from xml.parsers import expat

from nmt.documents.forms import Limits
from nmt.errors import DataError

_CHUNK = 2**14
_TAG = re.compile(rb"""<[^>"']*+(?:"[^"]*"[^>"']*+|'[^']*'[^>"']*+)*+>""")
_ATTRIBUTE = re.compile(rb"""\s([^\s=/>]+)\s*=\s*("[^"]*"|'[^']*')""")
_PREFIX = re.compile(rb"[^\s:>/]+:")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)", re.DOTALL)


@dataclass(slots=True, eq=False)
class Element:
    """An element's namespace, name and attributes without prefixes, and the bytes of it and of its content."""

    space: str
    name: str
    attributes: dict[str, str]
    start: int
    parent: Element | None
    inner: int = 0
    inner_end: int = 0
    end: int = 0
    children: list[Element] = field(default_factory=list)


def trees(content: bytes, name: str, wanted: Callable[[Element], bool], limits: Limits) -> Iterator[Element]:
    """Yield the outermost wanted elements with their descendants, each when it has ended; nothing else is kept.
    `content`: in UTF-8 whatever it declares; `wanted`: called at each element that is not inside a wanted one. Raises
    DataError if it is no XML, exceeds the limits, or declares entities, which may grow without bound."""
    limits.check_elements(count_elements(content), name)
    parser = expat.ParserCreate("utf-8", " ")
    opened: list[Element] = []
    done: list[Element] = []
    count = within = 0  # the number of elements in the wanted one so far, and of open ones

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count, within
        space, _, local = tag.rpartition(" ")
        plain = {key.rpartition(" ")[2]: value for key, value in attributes.items()}
        parent = opened[-1] if opened else None
        one = Element(space, local, plain, parser.CurrentByteIndex, parent)
        opened.append(one)
        if within and parent is not None:
            parent.children.append(one)
        within += bool(within or wanted(one))
        count = count + 1 if within else 0
        if len(opened) > limits.depth:
            raise DataError(f"{name}: elements must be at most {limits.depth} deep, got deeper ones; simplify it")
        if count > (most := limits.paragraph_elements):
            raise DataError(f"{name}: a paragraph must have at most {most:,} elements, got more; split it")

    def end(tag: str) -> None:
        nonlocal count, within
        one = opened.pop()
        if not within:
            return
        within -= 1
        at = parser.CurrentByteIndex
        one.inner = tag_end(content, one.start)
        if content[one.inner - 2 : one.inner] == b"/>":
            one.inner_end = one.end = one.inner
        else:
            one.inner_end, one.end = at, content.index(b">", at) + 1
        if not within:
            count = 0
            done.append(one)

    def entity(*declared: object) -> None:
        raise DataError(f"{name}: must declare no entities, got one; leave its document type out")

    parser.StartElementHandler, parser.EndElementHandler, parser.EntityDeclHandler = start, end, entity
    try:
        for at in range(0, len(content) + 1, _CHUNK):
            parser.Parse(content[at : at + _CHUNK], at + _CHUNK > len(content))
            yield from done
            done.clear()
    except expat.ExpatError as error:
        raise DataError(f"{name}: must be XML, got something else ({error}); correct it") from None


def in_order(elements: Sequence[Element]) -> Iterator[Element]:
    """Yield elements and all elements within them, in the order of the file."""
    rest = [*reversed(elements)]
    while rest:
        yield (one := rest.pop())
        rest += reversed(one.children)


def count_elements(content: bytes) -> int:
    """Return an upper bound of the number of elements of a file; comments are counted, too."""
    return content.count(b"<") - content.count(b"</")


def tag_end(content: bytes, start: int) -> int:
    """Return where the tag that begins here ends; its attributes may contain >."""
    found = _TAG.match(content, start)
    return found.end() if found else len(content)


def prefix_of(content: bytes, one: Element) -> bytes:
    """Return the prefix of an element's name as written, with its colon; b"" if it has none."""
    found = _PREFIX.match(content, one.start + 1)
    return found[0] if found else b""


def with_attribute(tag: bytes, name: str, value: str) -> bytes:
    """Return the tag with this attribute replaced or added."""
    new = f'{name}="{escape(value)}"'.encode()
    for found in _ATTRIBUTE.finditer(tag):
        if found[1] == name.encode():
            return tag[: found.start(1)] + new + tag[found.end() :]
    end = len(tag) - (2 if tag.endswith(b"/>") else 1)
    return tag[:end].rstrip() + b" " + new + tag[end:]


def attribute_place(content: bytes, one: Element, name: str) -> tuple[int, int] | None:
    """Return the bytes of an attribute's value without quotes; None if the element has no such attribute."""
    if name not in one.attributes:
        return None
    for found in _ATTRIBUTE.finditer(content, one.start, tag_end(content, one.start)):
        if found[1] == name.encode():
            return found.start(2) + 1, found.end(2) - 1
    return None


def without_cdata(raw: str) -> str:
    """Return an element's content with CDATA sections as escaped text, and without comments."""
    return _CDATA.sub(lambda m: escape(m[1] or "", quote=False), raw) if "<!" in raw else raw


def replaced(content: bytes, changes: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Return the file with the bytes [start, end) of each change replaced; changes must not overlap."""
    parts, at = [], 0
    for start, end, new in sorted(changes, key=lambda change: change[:2]):
        parts += [content[at:start], new]
        at = end
    return b"".join([*parts, content[at:]])
