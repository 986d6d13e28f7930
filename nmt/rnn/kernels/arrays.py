"""Arrays inside compiled code: by the address of their numbers, and memory for the time of a call.

Nobody counts references: an array from `scratch` is given back with `release`, once, by the function that took it.
"""

import ctypes
import os
from importlib import import_module
from typing import Any

from llvmlite import ir

from nmt.rnn.kernels.jit import inner_kernel, intrinsic, numba_types
from nmt.rnn.kernels.machine_code import add_symbol

_ALIGNMENT = 64
_WINDOWS = os.name == "nt"
# Untested on Windows.
_SYSTEM = (
    {"nmt_allocate": "_aligned_malloc", "nmt_free": "_aligned_free"}
    if _WINDOWS
    else {"nmt_allocate": "aligned_alloc", "nmt_free": "free"}
)
_library = ctypes.CDLL("msvcrt" if _WINDOWS else None)
for _name, _theirs in _SYSTEM.items():
    add_symbol(_name, ctypes.cast(getattr(_library, _theirs), ctypes.c_void_p).value or 0)


def _array_type(shape: Any, dtype: Any) -> tuple[Any, Any]:
    """Of an array with elements of `dtype`: Numba's type of its shape, and its own."""
    axes = len(shape) if isinstance(shape, numba_types.BaseTuple) else 0
    shape_type = numba_types.UniTuple(numba_types.int64, axes) if axes else numba_types.int64
    return shape_type, numba_types.Array(dtype.dtype, axes or 1, "C")


def _extents(builder: Any, shape: Any) -> list[Any]:
    if isinstance(shape.type, ir.IntType):
        return [shape]
    return [builder.extract_value(shape, n) for n in range(shape.type.count)]


def array_value(context: Any, builder: ir.IRBuilder, kind: Any, start: ir.Value, shape: list[ir.Value]) -> ir.Value:
    """A C-contiguous array of a type at an address, a number or a pointer; nobody counts references to it."""
    array = context.make_array(kind)(context, builder)
    element = array.data.type
    data = builder.inttoptr(start, element) if isinstance(start.type, ir.IntType) else builder.bitcast(start, element)
    size = context.get_constant(numba_types.intp, context.get_abi_sizeof(element.pointee))
    strides = [size]
    for extent in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], extent))
    populate_array = import_module("numba.np.arrayobj").populate_array
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
    return array._getvalue()


@intrinsic
def array_at(typing_context: Any, pointer: Any, shape: Any, dtype: Any) -> Any:
    """The C-contiguous array of a shape, a number or a tuple, that lies at a pointer or an address."""
    shape_type, kind = _array_type(shape, dtype)
    place = numba_types.int64 if isinstance(pointer, numba_types.Integer) else numba_types.voidptr

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return array_value(context, builder, kind, args[0], _extents(builder, args[1]))

    return kind(place, shape_type, dtype), codegen


@intrinsic
def scratch(typing_context: Any, shape: Any, dtype: Any) -> Any:
    """A C-contiguous array of a shape, on a cache line of its own; what is in it is not known."""
    shape_type, kind = _array_type(shape, dtype)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size_type = ir.IntType(64)
        extents = _extents(builder, args[0])
        size = ir.Constant(size_type, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
        for extent in extents:
            size = builder.mul(size, extent)
        line = ir.Constant(size_type, _ALIGNMENT)
        # Whole lines, and at least one.
        size = builder.mul(builder.add(builder.udiv(size, line), ir.Constant(size_type, 1)), line)
        pointer = _call(builder, "nmt_allocate", *((size, line) if _WINDOWS else (line, size)))
        return array_value(context, builder, kind, pointer, extents)

    return kind(shape_type, dtype), codegen


@intrinsic
def release(typing_context: Any, array: Any) -> Any:
    """Give back the memory of an array from `scratch`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        _call(builder, "nmt_free", builder.bitcast(data, ir.IntType(8).as_pointer()))
        return context.get_dummy_value()

    return numba_types.void(array), codegen


def _call(builder: Any, name: str, *arguments: Any) -> Any:
    pointer = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(pointer, [argument.type for argument in arguments])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)


@inner_kernel
def clear(array):  # type: ignore[no-untyped-def]
    """Zeros into an array [n]."""
    for i in range(array.shape[0]):
        array[i] = 0
