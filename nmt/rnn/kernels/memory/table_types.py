"""Numba's type of a table with named fields (see table_layout.py): a pointer with attributes. Imported only to compile
something."""

from __future__ import annotations

import hashlib
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import errors
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import lower_getattr_generic, lower_setattr_generic, models, register_model

from nmt.rnn.kernels.memory.arrays import array_value
from nmt.rnn.kernels.memory.table_layout import Field, TableLayout, is_letter

_INT64 = ir.IntType(64)
_ADDRESS = "_address"


class TableType(types.Type):
    """A table, or a group of its fields: the same pointer, with the fields that have a certain prefix as attributes."""

    def __init__(self, layout: TableLayout, elements: tuple[tuple[str, str], ...], prefix: str = "") -> None:
        self.layout, self.elements, self.prefix = layout, elements, prefix
        digest = hashlib.sha256(repr((layout.content, elements)).encode()).hexdigest()[:12]
        super().__init__(f"{layout.name}_{digest}.{prefix}")

    def field(self, name: str) -> Field | None:
        """Return the field of an attribute; None for a group, or if there is none."""
        found = self.layout.by_name.get(self.prefix + name)
        if found is None and name.endswith(_ADDRESS):
            array = self.layout.by_name.get(self.prefix + name.removesuffix(_ADDRESS))
            return None if array is None else Field(array.name, "number")
        return found

    def type_of(self, name: str) -> Any:
        """Return the type of an attribute; None if there is none of that name."""
        field = self.field(name)
        if field is None:
            inside = f"{self.prefix}{name}."
            is_group = any(other.startswith(inside) for other in self.layout.by_name)
            return TableType(self.layout, self.elements, inside) if is_group else None
        if field.kind == "array":
            element = dict(self.elements).get(field.element, field.element)
            if is_letter(element):
                raise errors.TypingError(f"{self.layout.name}: the reader must be given the dtype {element} of {name}")
            return types.Array(getattr(types, element), len(field.shape), "C")
        return types.float64 if field.kind == "real" else types.int64


register_model(TableType)(models.OpaqueModel)


@infer_getattr
class _Attributes(AttributeTemplate):
    key = TableType

    def generic_resolve(self, table: TableType, name: str) -> Any:  # type: ignore[override]
        return table.type_of(name)


def _word(builder: ir.IRBuilder, table: TableType, pointer: ir.Value, field: Field) -> ir.Value:
    """Return a pointer to the word of a field."""
    words = builder.bitcast(pointer, _INT64.as_pointer())
    return builder.gep(words, [ir.Constant(_INT64, table.layout.places[field.name])], inbounds=True)


def _constant(builder: ir.IRBuilder, place: ir.Value) -> ir.Value:
    """Load a word that does not change: LLVM need not reload it after stores elsewhere."""
    load = builder.load(place)
    load.set_metadata("invariant.load", builder.module.add_metadata([]))
    return load


@lower_getattr_generic(TableType)
def _get(context: Any, builder: ir.IRBuilder, table: TableType, pointer: ir.Value, name: str) -> ir.Value:
    field = table.field(name)
    if field is None:
        return pointer
    place = _word(builder, table, pointer, field)
    if field.kind == "number":
        return builder.load(place)
    if field.kind == "real":
        return _constant(builder, builder.bitcast(place, ir.DoubleType().as_pointer()))
    found = _constant(builder, place)
    if field.kind == "constant":
        return found
    shape = []
    for extent in field.shape:
        if isinstance(extent, str):
            shape.append(_constant(builder, _word(builder, table, pointer, table.layout.by_name[extent])))
        else:
            shape.append(ir.Constant(_INT64, 1 if extent is None else extent))
    return array_value(context, builder, table.type_of(name), found, shape)


@lower_setattr_generic(TableType)
def _set(context: Any, builder: ir.IRBuilder, signature: Any, args: Any, name: str) -> None:
    table: TableType = signature.args[0]
    field = table.field(name)
    if field is None or field.kind not in ("number", "constant"):
        raise errors.TypingError(f"{table.layout.name}: {name} must be an integer number to be set")
    builder.store(args[1], _word(builder, table, args[0], field))
