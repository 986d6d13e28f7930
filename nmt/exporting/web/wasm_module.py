"""Link objects of WebAssembly to one module. It exports its memory, `heap`, the first free byte of it, and the table of
functions, where a function's place is its address. It imports what the objects call and none of them defines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.data.tokens.extension import varint
from nmt.exporting.web.wasm_object import DATA, FUNCTION, HEADER, Relocation, Symbol, WasmObject, read_object

# Types of relocations. An index or an address is written as a number of five bytes (LEB, or SLEB with a sign), or as
# four plain bytes (I32).
_FUNCTION_LEB, _TABLE_SLEB, _TABLE_I32, _MEMORY_LEB, _MEMORY_SLEB, _MEMORY_I32, _TYPE_LEB, _GLOBAL_LEB = range(8)
_TABLE_NUMBER_LEB = 20

_STACK_START, _STACK_BYTES = 1024, 1 << 18
_PAGE = 1 << 16
_I32, _CONST_I32, _END = 0x7F, 0x41, 0x0B


@dataclass(frozen=True)
class ModulePart:
    """An object to link: its bytes, the name of its function, and the name by which other objects call it, if any."""

    code: bytes
    entry: str
    symbol: str | None = None


@dataclass(frozen=True)
class Module:
    """A module, and the address of the function of each part by the name of its entry."""

    code: bytes
    addresses: dict[str, int]


def link(parts: Sequence[ModulePart], imports: Sequence[str]) -> Module:
    """Return one module of all parts; `imports`: what the host may be asked for. Raises ValueError for other calls."""
    return _Linker(parts, imports).module()


class _Linker:
    """Numbers all functions, types and segments, then replaces the numbers in code and data."""

    def __init__(self, parts: Sequence[ModulePart], imports: Sequence[str]) -> None:
        self.parts, self.objects = parts, [read_object(part.code) for part in parts]
        self.types: dict[bytes, int] = {}
        self.defined: dict[str, int] = {}  # the index of each function that others may call
        self.imported = self._imports(imports)
        self.first: list[int] = []  # the index of the first function of each object
        count = len(self.imported)
        for part, one in zip(parts, self.objects, strict=True):
            self.first.append(count - len(one.imported))
            count += len(one.functions)
            for symbol in one.symbols:
                if symbol.kind == FUNCTION and symbol.is_defined and symbol.name == part.entry:
                    self.defined[part.entry] = self.defined[part.symbol or part.entry] = self.first[-1] + symbol.index
        self.places = [self._place(one) for one in self.objects]
        self.table: dict[int, int] = {}  # places in the table of functions, from 1 on: 0 is no function

    def _imports(self, allowed: Sequence[str]) -> dict[str, int]:
        """Return the types of the functions that no object defines, by name; their indices follow this order."""
        known = {part.symbol for part in self.parts}
        found: dict[str, int] = {}
        for part, one in zip(self.parts, self.objects, strict=True):
            for name, kind in one.imported:
                if name in known or name in found:
                    continue
                if name not in allowed:
                    raise ValueError(f"{part.entry}: must call only {', '.join(allowed)}, got a call of {name}")
                found[name] = self.type_index(one.types[kind])
        return found

    def type_index(self, kind: bytes) -> int:
        """Return the index of a function's type."""
        return self.types.setdefault(kind, len(self.types))

    heap = _STACK_START + _STACK_BYTES

    def _place(self, one: WasmObject) -> list[int]:
        """Return the address of each segment of an object."""
        found = []
        for segment in one.segments:
            self.heap = -(-self.heap // segment.alignment) * segment.alignment
            found.append(self.heap)
            self.heap += segment.size
        return found

    def in_table(self, function: int) -> int:
        """Return the index of a function in the table of indirect calls, to which it is added the first time."""
        return self.table.setdefault(function, len(self.table) + 1)

    def module(self) -> Module:
        """Relocate everything and write the module."""
        bodies, segments, kinds = list[bytes](), list[bytes](), list[int]()
        for number, one in enumerate(self.objects):
            for relocation in one.of_code:
                self._replace(number, one.code, relocation)
            for relocation in one.of_data:
                self._replace(number, one.data, relocation)
            bodies += one.bodies()
            kinds += [self.type_index(one.types[kind]) for kind in one.functions]
            for segment, place in zip(one.segments, self.places[number], strict=True):
                content = bytes(one.data[segment.start : segment.start + segment.size])
                segments.append(b"\0" + _constant(place) + varint(len(content)) + content)
        addresses = {part.entry: self.in_table(self.defined[part.entry]) for part in self.parts}
        size, heap = len(self.table) + 1, -(-self.heap // 64) * 64
        imports = [_name("env") + _name(name) + b"\0" + varint(kind) for name, kind in self.imported.items()]
        exports = [_name("memory") + b"\2\0", _name("table") + b"\1\0", _name("heap") + b"\3\1"]
        elements = b"\0" + _constant(1) + _vector([varint(function) for function in self.table])
        sections = {
            1: _vector(list(self.types)),
            2: _vector(imports),
            3: _vector([varint(kind) for kind in kinds]),
            4: _vector([b"\x70\1" + varint(size) + varint(size)]),
            5: _vector([b"\0" + varint(-(-heap // _PAGE))]),
            6: _vector([bytes([_I32, 1]) + _constant(_STACK_START + _STACK_BYTES), bytes([_I32, 0]) + _constant(heap)]),
            7: _vector(exports),
            9: _vector([elements]),
            10: _vector(bodies),
            11: _vector(segments),
        }
        code = b"".join(bytes([kind]) + varint(len(body)) + body for kind, body in sections.items())
        return Module(HEADER + code, addresses)

    def _replace(self, number: int, section: bytearray, relocation: Relocation) -> None:
        """Replace one number in a section of an object."""
        kind, at, one = relocation.type, relocation.at, self.objects[number]
        if kind == _TYPE_LEB:
            value = self.type_index(one.types[relocation.index])
        else:
            value = self._value(number, kind, one.symbols[relocation.index]) + relocation.addend
        if kind in (_TABLE_I32, _MEMORY_I32):
            section[at : at + 4] = value.to_bytes(4, "little")
        else:  # addresses are below 2 ** 31, so that the fifth byte has no sign to extend
            groups = [value >> 7 * n & 0x7F for n in range(5)]
            section[at : at + 5] = bytes([*(group | 0x80 for group in groups[:4]), groups[4]])

    def _value(self, number: int, kind: int, symbol: Symbol) -> int:
        """Return the number that a relocation of this type writes for a symbol."""
        if kind in (_GLOBAL_LEB, _TABLE_NUMBER_LEB):
            return 0  # the stack pointer, or the only table
        if symbol.kind == DATA and symbol.is_defined and kind in (_MEMORY_LEB, _MEMORY_SLEB, _MEMORY_I32):
            return self.places[number][symbol.index] + symbol.offset
        if symbol.kind != FUNCTION or kind not in (_FUNCTION_LEB, _TABLE_SLEB, _TABLE_I32):
            raise ValueError(f"{self.parts[number].entry}: no relocation of type {kind} for {symbol}")
        if symbol.is_defined:
            function = self.first[number] + symbol.index
        elif symbol.name in self.imported:
            function = list(self.imported).index(symbol.name)
        else:
            function = self.defined[symbol.name]
        return function if kind == _FUNCTION_LEB else self.in_table(function)


def _constant(value: int) -> bytes:
    """Return an expression for a constant int32, as a signed number."""
    out = bytearray([_CONST_I32])
    while value > 0x3F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value, _END])


def _name(text: str) -> bytes:
    return varint(len(text.encode())) + text.encode()


def _vector(items: Sequence[bytes]) -> bytes:
    return varint(len(items)) + b"".join(items)
