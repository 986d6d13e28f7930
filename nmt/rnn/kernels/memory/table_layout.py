"""Tables that compiled code reads by the names of their fields; each table is declared once.

A table consists of 8-byte words: the cache line for its task's barrier (see atomics.py), then one word for each field,
a number or the address of an array. Python fills a `NamedTable`; compiled code reads and writes it as `search.working
+= 1` or `search.rows.token[r]` after `search = search_at(table)`, where `search_at` is the result of
`TableLayout.reader`. On both sides the `TableLayout` defines positions, kinds and shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from itertools import chain
from typing import Any, Literal

import numpy as np
from llvmlite import ir
from numpy.typing import DTypeLike

from nmt.rnn.arrays.workspace import LINE_BYTES, aligned
from nmt.rnn.kernels.machine_code.jit import intrinsic
from nmt.rnn.kernels.machine_code.native import address_of

COUNTER_WORDS = LINE_BYTES // 8
"""Words of the cache line with a task's barrier counters, with which a table starts."""

Kind = Literal["number", "constant", "real", "array"]
Extent = str | int | None


@dataclass(frozen=True)
class Field:
    """A word of a table, by kind. "number": an int64. "constant": an int64, and "real": a float64, neither of which
    changes while code runs that reads it. "array": the address of an array of `element`s, which does not change
    meanwhile either.

    element: the name of a dtype, or a letter for a dtype that is passed to `TableLayout.reader`. shape: each extent is
    a number or the name of a constant in the table; the first one may be None if code need not know it. Code sees the
    array in this shape, whatever its shape in Python.
    """

    name: str
    kind: Kind
    element: str = ""
    shape: tuple[Extent, ...] = ()


Fields = tuple[Field, ...]


def _fields(kind: Kind, *names: str) -> Fields:
    return tuple(Field(name, kind) for name in names)


numbers, constants, reals = partial(_fields, "number"), partial(_fields, "constant"), partial(_fields, "real")
"""Functions that return fields of these kinds with the given names."""


def arrays(element: DTypeLike | str, shape: tuple[Extent, ...], *names: str) -> Fields:
    """Return fields for C-contiguous arrays of a shape and a dtype, which may be given by a letter."""
    kind = str(element) if is_letter(element) else np.dtype(element).name
    return tuple(Field(name, "array", kind, shape) for name in names)


def is_letter(element: DTypeLike | str) -> bool:
    """Return whether an element type is a letter for a dtype that the layout leaves open."""
    return isinstance(element, str) and len(element) == 1


def group(name: str, *fields: Fields) -> Fields:
    """Return the fields with a common prefix, as in `rows.token`."""
    return tuple(replace(field, name=f"{name}.{field.name}") for field in chain(*fields))


class TableLayout:
    """The layout of a table: its fields in the order of their words. `name` labels it."""

    def __init__(self, name: str, *fields: Fields) -> None:
        self.name, self.fields = name, tuple(chain(*fields))
        self.places = {field.name: COUNTER_WORDS + n for n, field in enumerate(self.fields)}
        self.by_name = {field.name: field for field in self.fields}
        self.words = {field.name: (self.places[field.name], field.kind) for field in self.fields}
        if len(self.by_name) < len(self.fields):
            raise ValueError(f"{name}: two fields have one name")
        self.content = repr((name, self.fields))  # see store.py

    def extended(self, name: str, *fields: Fields) -> TableLayout:
        """Return a layout with the same fields in the same places, followed by others."""
        return TableLayout(name, self.fields, *fields)

    def places_of(self, names: Iterable[str]) -> np.ndarray:
        """Return the indices of the words of some fields, int64."""
        return np.array([self.places[name] for name in names], np.int64)

    def reader(self, **elements: DTypeLike) -> Any:
        """Return `at(table)` for compiled code: given the address of a table, it returns an object with attributes for
        the fields. `elements`: the dtypes for the letters; an array of any other letter can only be used by its
        address. `x_address` is the address of array `x`, as a number that code may set when it prepares another
        table."""
        return _reader(self, tuple(sorted((letter, np.dtype(kind).name) for letter, kind in elements.items())))


@cache
def _reader(layout: TableLayout, elements: tuple[tuple[str, str], ...]) -> Any:
    """Return the result of `TableLayout.reader`, one object for all functions: Numba infers its type only once."""

    def at(typing_context: Any, table: Any) -> Any:
        kind = import_module(f"{__package__}.compiling").TableType(layout, elements)

        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            place = ir.IntType(8).as_pointer()
            return builder.inttoptr(args[0], place) if isinstance(args[0].type, ir.IntType) else args[0]

        return kind(table), codegen

    return intrinsic(at)


@cache
def _dtypes(layout: TableLayout, elements: tuple[tuple[str, DTypeLike], ...]) -> dict[str, np.dtype]:
    """Return the dtype of each array, by name, where it is known."""
    known = dict(elements)
    of = {field.name: known.get(field.element, field.element) for field in layout.fields if field.kind == "array"}
    return {name: np.dtype(element) for name, element in of.items() if not is_letter(element)}


class NamedTable:
    """A table in memory: `table["working"]` is a number, `table["rows.token"]` the array at the address in the table.
    The table keeps its arrays alive. It starts on a cache line; `more` words lie behind its fields."""

    def __init__(
        self, layout: TableLayout, values: Mapping[str, Any] | None = None, *, more: int = 0, **elements: DTypeLike
    ) -> None:
        self.layout = layout
        self.words = aligned((COUNTER_WORDS + len(layout.fields) + more,), np.int64, zeros=True)
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
        """Set several fields."""
        for name, value in values.items():
            self[name] = value

    def clear(self, places: np.ndarray) -> None:
        """Zero the words at these places (see `TableLayout.places_of`)."""
        self.words[places] = 0

    def allocate(self, *names: str, zeros: bool = False) -> None:
        """Allocate these arrays; the constants that give their extents must be set."""
        for name in names:
            shape = [self[n] if isinstance(n, str) else n for n in self.layout.by_name[name].shape]
            self[name] = (np.zeros if zeros else np.empty)(shape, self._dtypes[name])
