"""Read the object files of WebAssembly that LLVM writes: modules (webassembly.github.io/spec/core/binary) with symbols
and relocations in custom sections (github.com/WebAssembly/tool-conventions, Linking.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nmt.data.tokens.extension import read_varint

HEADER = b"\0asm\1\0\0\0"
FUNCTION, DATA, SECTION, TABLE = 0, 1, 3, 5
"""Kinds of symbols; FUNCTION is also the kind of an imported function."""
_UNDEFINED, _EXPLICIT_NAME = 0x10, 0x40
_WITH_ADDEND = (3, 4, 5, 8, 9)
_CUSTOM, _TYPES, _IMPORTS, _FUNCTIONS, _CODE, _DATA = 0, 1, 2, 3, 10, 11
_SYMBOL_TABLE, _SEGMENT_INFO = 8, 5


@dataclass(frozen=True)
class Symbol:
    """A symbol; index: of its function in the object or, of data, its segment, in which it is at the offset."""

    kind: int
    name: str
    is_defined: bool
    index: int
    offset: int = 0


@dataclass(frozen=True)
class Relocation:
    """A number to replace: its type and place; index: of its symbol or type; addend: what is added to an address."""

    type: int
    at: int
    index: int
    addend: int = 0


@dataclass
class Segment:
    """Bytes of memory, from `start` on in the data section, and the alignment of their address."""

    start: int
    size: int
    alignment: int = 1


@dataclass
class WasmObject:
    """An object. `imported` has the name and the type of each imported function, `functions` the type of each defined
    one, whose indices follow; `code` and `data` are the contents of their sections, with relocations."""

    types: list[bytes] = field(default_factory=list)
    imported: list[tuple[str, int]] = field(default_factory=list)
    functions: list[int] = field(default_factory=list)
    code: bytearray = field(default_factory=bytearray)
    data: bytearray = field(default_factory=bytearray)
    segments: list[Segment] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    of_code: list[Relocation] = field(default_factory=list)
    of_data: list[Relocation] = field(default_factory=list)

    def bodies(self) -> Iterator[bytes]:
        """Yield the body of each defined function, with its size before it."""
        section = Cursor(bytes(self.code))
        for _ in range(section.number()):
            start, size = section.at, section.number()
            section.take(size)
            yield section.content[start : section.at]


class Cursor:
    """A position in bytes, which every reading moves forward."""

    def __init__(self, content: bytes, at: int = 0) -> None:
        self.content, self.at = content, at

    def byte(self) -> int:
        """Read a byte."""
        self.at += 1
        return self.content[self.at - 1]

    def number(self) -> int:
        """Read an unsigned number."""
        found, self.at = read_varint(self.content, self.at)
        return found

    def signed(self) -> int:
        """Read a signed number."""
        start = self.at
        found = self.number()
        width = 7 * (self.at - start)
        return found - (1 << width) if found >> (width - 1) else found

    def take(self, size: int) -> bytes:
        """Read and return the next `size` bytes."""
        self.at += size
        return bytes(self.content[self.at - size : self.at])

    def text(self) -> str:
        """Read a name."""
        return self.take(self.number()).decode()


def read_object(content: bytes) -> WasmObject:
    """Return the parts of an object. Raises ValueError: it is none, or has a part that our code never has."""
    if not content.startswith(HEADER):
        raise ValueError("an object of WebAssembly must begin with its header")
    found, cursor, order = WasmObject(), Cursor(content, len(HEADER)), list[int]()
    while cursor.at < len(content):
        kind, size = cursor.byte(), cursor.number()
        section = Cursor(cursor.take(size))
        order.append(kind)
        if kind == _TYPES:
            found.types = [_function_type(section) for _ in range(section.number())]
        elif kind == _IMPORTS:
            _read_imports(found, section)
        elif kind == _FUNCTIONS:
            found.functions = [section.number() for _ in range(section.number())]
        elif kind == _CODE:
            found.code = bytearray(section.content)
        elif kind == _DATA:
            found.data, found.segments = bytearray(section.content), list(_segments(section))
        elif kind == _CUSTOM:
            _read_custom(found, section, order)
    return found


def _function_type(section: Cursor) -> bytes:
    start = section.at
    section.byte()
    for _ in range(2):
        section.take(section.number())
    return bytes(section.content[start : section.at])


def _read_imports(found: WasmObject, section: Cursor) -> None:
    """Read the imported functions; memory, table and stack pointer are the same for all objects."""
    for _ in range(section.number()):
        _, name, kind = section.text(), section.text(), section.byte()
        if kind == FUNCTION:
            found.imported.append((name, section.number()))
            continue
        if kind in (1, 3):  # a table's element type, or a global's type
            section.byte()
        if kind == 3:
            section.byte()
        else:
            has_most = section.number()
            section.number()
            if has_most:
                section.number()


def _segments(section: Cursor) -> Iterator[Segment]:
    for _ in range(section.number()):
        if section.number() or section.byte() != 0x41:
            raise ValueError("a data segment must have a constant address in the first memory")
        section.signed()
        section.byte()
        size = section.number()
        yield Segment(section.at, size)
        section.at += size


def _read_custom(found: WasmObject, section: Cursor, order: list[int]) -> None:
    name = section.text()
    if name == "linking":
        section.number()
        while section.at < len(section.content):
            kind, size = section.byte(), section.number()
            end = section.at + size
            if kind == _SYMBOL_TABLE:
                found.symbols = [_symbol(found, section) for _ in range(section.number())]
            elif kind == _SEGMENT_INFO:
                for segment in found.segments[: section.number()]:
                    section.text()
                    segment.alignment = 1 << section.number()
                    section.number()
            section.at = end
    elif name.startswith("reloc."):
        target = order[section.number()]
        read = [_relocation(section) for _ in range(section.number())]
        if target == _CODE:
            found.of_code = read
        elif target == _DATA:
            found.of_data = read


def _symbol(found: WasmObject, section: Cursor) -> Symbol:
    kind, flags = section.byte(), section.number()
    is_defined = not flags & _UNDEFINED
    if kind == DATA:
        name = section.text()
        index, offset, _ = (section.number() for _ in range(3)) if is_defined else (0, 0, 0)
        return Symbol(kind, name, is_defined, index, offset)
    index, name = section.number(), ""
    if kind != SECTION and (is_defined or flags & _EXPLICIT_NAME):
        name = section.text()
    elif kind == FUNCTION:
        name = found.imported[index][0]
    return Symbol(kind, name, is_defined, index)


def _relocation(section: Cursor) -> Relocation:
    kind, at, index = section.byte(), section.number(), section.number()
    return Relocation(kind, at, index, section.signed() if kind in _WITH_ADDEND else 0)
