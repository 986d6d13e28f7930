"""Tables that compiled code reads by the names of their fields, each declared once.

A table is 8-byte words: the cache line of its task's meetings (see barrier.py), then one for each field, a number or
the address of an array. Python fills a `NamedTable`; compiled code reads and writes it as `search.working += 1` or
`search.rows.token[r]` after `search = search_at(table)`, where `search_at` is what `TableLayout.reader` gives. Places,
kinds and shapes come from the `TableLayout` on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any, Literal

import numpy as np
from llvmlite import ir
from numpy.typing import DTypeLike

from nmt.rnn.kernels.machine_code.jit import intrinsic
from nmt.rnn.kernels.machine_code.kernel import LINE_BYTES, address_of

COUNTER_WORDS = LINE_BYTES // 8
"""Words of the cache line with a task's barrier counters, the first of a table."""

Kind = Literal["number", "constant", "real", "array"]
Extent = str | int | None


@dataclass(frozen=True)
class Field:
    """A word of a table. A number, int64; a constant, int64, or a real one, float64, that nobody changes while code
    runs that reads it; or the address of an array of `element`s, which stays as long.

    element: the name of a dtype, or a letter for one that `TableLayout.reader` is given. shape: each extent a number,
    the name of a constant in the table, or, the first alone, None where code need not know it; code sees the array in
    this shape, whatever Python's is.
    """

    name: str
    kind: Kind
    element: str = ""
    shape: tuple[Extent, ...] = ()


Fields = tuple[Field, ...]


def numbers(*names: str) -> Fields:
    """Fields that compiled code changes."""
    return tuple(Field(name, "number") for name in names)


def constants(*names: str) -> Fields:
    """Fields that stay while code runs that reads them."""
    return tuple(Field(name, "constant") for name in names)


def reals(*names: str) -> Fields:
    """Constants of float64."""
    return tuple(Field(name, "real") for name in names)


def arrays(element: DTypeLike | str, shape: tuple[Extent, ...], *names: str) -> Fields:
    """Fields of C-contiguous arrays of one dtype, or of one letter for a dtype, and shape."""
    kind = str(element) if is_letter(element) else np.dtype(element).name
    return tuple(Field(name, "array", kind, shape) for name in names)


def is_letter(element: DTypeLike | str) -> bool:
    """Return whether it stands for a dtype that a table's layout leaves open."""
    return isinstance(element, str) and len(element) == 1


def group(name: str, *fields: Fields) -> Fields:
    """Fields under a common name: `rows.token`."""
    return tuple(replace(field, name=f"{name}.{field.name}") for field in chain(*fields))


class TableLayout:
    """What a table holds: its fields in the order of their words. `name` labels it."""

    def __init__(self, name: str, *fields: Fields) -> None:
        self.name, self.fields = name, tuple(chain(*fields))
        self.places = {field.name: COUNTER_WORDS + n for n, field in enumerate(self.fields)}
        self.by_name = {field.name: field for field in self.fields}
        self.words = {field.name: (self.places[field.name], field.kind) for field in self.fields}
        if len(self.by_name) < len(self.fields):
            raise ValueError(f"{name}: two fields have one name")
        self.content = repr((name, self.fields))  # see code_names.py

    def extended(self, name: str, *fields: Fields) -> TableLayout:
        """Return the same fields in the same places, and others behind them."""
        return TableLayout(name, self.fields, *fields)

    def places_of(self, names: Iterable[str]) -> np.ndarray:
        """Return the words of some fields, int64."""
        return np.array([self.places[name] for name in names], np.int64)

    def reader(self, **elements: DTypeLike) -> Any:
        """`at(table)`, inside compiled code: a table given by its address, with attributes for its fields.
        `elements`: the dtypes that letters stand for; of an array of another letter only the address can be told.

        The address of an array `x` is a number of its own, `x_address`, for code that prepares another's table.
        """
        return _reader(self, tuple(sorted((letter, np.dtype(kind).name) for letter, kind in elements.items())))


@cache
def _reader(layout: TableLayout, elements: tuple[tuple[str, str], ...]) -> Any:
    """`TableLayout.reader`: one object for all functions, so that Numba finds out once what it is."""

    def at(typing_context: Any, table: Any) -> Any:
        kind = import_module(f"{__package__}.table_types").TableType(layout, elements)

        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            place = ir.IntType(8).as_pointer()
            return builder.inttoptr(args[0], place) if isinstance(args[0].type, ir.IntType) else args[0]

        return kind(table), codegen

    return intrinsic(at)


@cache
def _dtypes(layout: TableLayout, elements: tuple[tuple[str, DTypeLike], ...]) -> dict[str, np.dtype]:
    """By the name of each array what it is of, where that is known."""
    known = dict(elements)
    of = {field.name: known.get(field.element, field.element) for field in layout.fields if field.kind == "array"}
    return {name: np.dtype(element) for name, element in of.items() if not is_letter(element)}


class NamedTable:
    """A table in memory: `table["working"]` is a number, `table["rows.token"]` the array whose address is there, which
    lives as long as the table. Its numbers begin on a cache line."""

    def __init__(self, layout: TableLayout, values: Mapping[str, Any] | None = None, **elements: DTypeLike) -> None:
        self.layout = layout
        size, line = COUNTER_WORDS + len(layout.fields), COUNTER_WORDS
        memory = np.zeros(size + line, np.int64)
        start = -address_of(memory) % LINE_BYTES // memory.itemsize
        self.words = memory[start : start + size]
        self.address = address_of(self.words)
        self._numbers, self._reals = self.words.data, self.words.view(np.float64).data
        self._arrays: dict[str, np.ndarray] = {}
        self._dtypes = _dtypes(layout, tuple(elements.items()))
        if values:
            self.update(values)

    def __getitem__(self, name: str) -> Any:
        place, kind = self.layout.words[name]
        if kind == "array":
            return self._arrays[name]
        return self._reals[place] if kind == "real" else self._numbers[place]

    def __setitem__(self, name: str, value: Any) -> None:
        place, kind = self.layout.words[name]
        if kind == "real":
            self._reals[place] = value
        elif kind == "array":
            if value.dtype != self._dtypes[name]:
                raise TypeError(f"{self.layout.name}: {name} must be of {self._dtypes[name]}, got {value.dtype}")
            self._arrays[name] = value
            self._numbers[place] = address_of(value)
        else:
            self._numbers[place] = value

    def update(self, values: Mapping[str, Any]) -> None:
        """Set many."""
        for name, value in values.items():
            self[name] = value

    def clear(self, places: np.ndarray) -> None:
        """Zero numbers, by their `TableLayout.places_of`."""
        self.words[places] = 0

    def allocate(self, *names: str, zeros: bool = False) -> None:
        """Memory for these arrays, whose extents are constants that are there."""
        for name in names:
            shape = [self[n] if isinstance(n, str) else n for n in self.layout.by_name[name].shape]
            self[name] = (np.zeros if zeros else np.empty)(shape, self._dtypes[name])
