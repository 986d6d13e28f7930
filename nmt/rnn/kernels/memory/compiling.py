"""Compile machine code with Numba. This module, and with it Numba, is imported only when there is something to compile.

An object file has one symbol, its entry point; all other names are private. It contains none of the counters that Numba
uses while compiling, so two processes produce the same bytes.

A table with named fields (see table_layout.py) has a type of its own here: a pointer with attributes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import count
from typing import Any

from nmt.errors import DeviceError
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.native import Compilable, Jitted
from nmt.rnn.kernels.machine_code.objects import object_of
from nmt.rnn.kernels.machine_code.store import Record
from nmt.rnn.kernels.memory.arrays import array_value
from nmt.rnn.kernels.memory.table_layout import COUNTER_WORDS, Field, TableLayout, is_letter
from nmt.system.interruption import forkable, uninterrupted

with uninterrupted():  # an interrupted import of compiled modules cannot be repeated
    import numba
    from llvmlite import ir
    from numba import types
    from numba.core import errors
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Flags, compile_extra
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target
    from numba.core.types import unliteral
    from numba.core.typing.templates import AttributeTemplate, infer_getattr
    from numba.extending import lower_getattr_generic, lower_setattr_generic, models, register_model, typeof_impl


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    raise DeviceError("NUMBA_DISABLE_JIT: must be 0 or unset, got 1, with which nothing is compiled; unset it")
if hasattr(global_compiler_lock, "_lock"):
    forkable(global_compiler_lock._lock)

# `_nrt`: no reference counting; compiled code allocates and frees memory itself (see arrays.py).
_OPTIONS: Any = {"nogil": True, "error_model": "numpy", "_nrt": False}
_NO_ENTRANCES: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_INT64, _POINTER = ir.IntType(64), ir.IntType(8).as_pointer()


@typeof_impl.register(Compilable)
def _type_of(value: Compilable, context: Any) -> Any:
    """Return Numba's type for one of our functions that compiled code uses."""
    is_new = "numba" not in vars(value)
    known = value.numba
    if is_new:
        for contexts in (cpu_target.typing_context, cpu_target.target_context):
            contexts.refresh()  # so that they know what has been registered since
    return cpu_target.typing_context.resolve_value_type(known)


def dispatcher(function: Any, fastmath: frozenset[str]) -> Any:
    """Return Numba's object for a function whose machine code becomes part of its callers. It is compiled for the types
    of its arguments, and not again for every literal argument: constants are propagated after it has been inlined."""
    compiled: Any = numba.njit(**_OPTIONS, **_NO_ENTRANCES, fastmath=set(fastmath))(function)
    choose_it = compiled.get_call_template

    @wraps(choose_it)
    def get_call_template(args: Any, named: Any) -> Any:
        return choose_it(tuple(map(unliteral, args)), {name: unliteral(kind) for name, kind in named.items()})

    compiled.get_call_template = get_call_template
    return compiled


def compile_native(native: Jitted) -> Record:
    """Compile a function; return its machine code and the process symbols that it calls."""
    with global_compiler_lock, _as_parts():
        flags = Flags()
        cpu_target.options.parse_as_flags(
            flags, _OPTIONS | _NO_ENTRANCES | {"nopython": True, "fastmath": set(native.fastmath)}
        )
        setattr(flags, "no_compile", True)  # noqa: B010 - Numba makes its options while it is imported
        shares = (types.int64,) * (2 * native.has_parts)
        argument_types = (*shares, *map(_type_named, native.argument_types))
        contexts = cpu_target.typing_context, cpu_target.target_context
        made = compile_extra(*contexts, native.function, argument_types, _type_named(native.result), flags, {})
        library = made.library
        library.add_ir_module(_entry_point(made.fndesc, native))
        library._link_all()
        return object_of(library._final_module, native.entry)


class _LinkedLibrary(JITCodeLibrary):
    """A code library that will be linked into one of our functions. Nothing calls it by its address, so it is neither
    optimised nor compiled to machine code separately, which would take as long as everything else."""

    def finalize(self) -> None:
        """Link the libraries that it calls, and do nothing else."""
        self._raise_if_finalized()
        self._link_all()
        self._finalize_dynamic_globals()
        self._finalized = True

    def _link_all(self) -> None:
        for other in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(other._get_module_for_linking(), preserve=True)

    def _optimize_functions(self, ll_module: Any) -> None:
        """Prepare functions for this machine, as its data layout is known; nothing can be done yet for another one."""
        if not TARGET.triple:
            super()._optimize_functions(ll_module)

    def get_pointer_to_function(self, name: str) -> int:
        """Return a unique number in place of an address; Numba only uses it as an identifier, nothing calls it."""
        self._ensure_finalized()
        return next(_numbers)


_numbers = count(1)


@contextmanager
def _as_parts() -> Iterator[None]:
    """Make Numba create `_LinkedLibrary` libraries inside the `with` block."""
    codegen = cpu_target.target_context.codegen()
    former = codegen._library_class, codegen.set_env  # not always the default: this may run inside another compilation
    codegen._library_class, codegen.set_env = _LinkedLibrary, lambda name, environment: None
    try:
        yield
    finally:
        codegen._library_class, codegen.set_env = former


def _type_named(name: str) -> Any:
    elements, _, axes = name.partition(" ")
    kind = getattr(types, elements)
    return types.Array(kind, int(axes), "C") if axes else kind


def _entry_point(description: Any, native: Jitted) -> ir.Module:
    """Return a module with a C function that calls the compiled one. Numba's own wrapper would pull in the Python API
    to report exceptions, which are never raised."""
    context = cpu_target.target_context
    module = context.create_module(native.entry)
    kind = context.call_conv.get_function_type(description.restype, description.argtypes)
    inner = ir.Function(module, kind, description.llvm_func_name)
    if native.by_table:
        given = [_INT64, _INT64, _POINTER]
    else:
        given = [context.get_value_type(argument) for argument in description.argtypes]
    has_result = description.restype != types.void
    result = context.get_value_type(description.restype) if has_result else ir.VoidType()
    outer = ir.Function(module, ir.FunctionType(result, given), native.entry)
    builder = ir.IRBuilder(outer.append_basic_block("entry"))
    values = _from_table(builder, description.argtypes, outer.args, native) if native.by_table else outer.args
    _, value = context.call_conv.call_function(
        builder, inner, description.restype, description.argtypes, values, attrs=("noinline",)
    )
    if has_result:
        builder.ret(value)
    else:
        builder.ret_void()
    return module


def _from_table(builder: ir.IRBuilder, kinds: Any, given: Any, native: Jitted) -> list[ir.Value]:
    """Return a kernel's arguments: (part, parts) if it has them, then what `Kernel` has written into its table."""
    context = cpu_target.target_context
    part, parts, table = given
    words = builder.bitcast(table, _INT64.as_pointer())
    values = [part, parts] if native.has_parts else []
    at = COUNTER_WORDS

    def word(n: int) -> ir.Value:
        return builder.gep(words, [ir.Constant(_INT64, n)])

    for kind in kinds[len(values) :]:
        if isinstance(kind, types.Array):
            shape = [builder.load(word(at + 1 + n)) for n in range(kind.ndim)]
            values.append(array_value(context, builder, kind, builder.load(word(at)), shape))
            at += 1 + kind.ndim
            continue
        if kind == types.boolean:
            values.append(builder.icmp_signed("!=", builder.load(word(at)), ir.Constant(_INT64, 0)))
        else:
            values.append(builder.load(builder.bitcast(word(at), context.get_value_type(kind).as_pointer())))
        at += 1
    return values


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
