"""Arrays inside compiled code: views of memory at an address, and temporary memory.

There is no reference counting: the function that allocates an array with `scratch` frees it once with `release`.
"""

from functools import reduce
from importlib import import_module
from typing import Any

from llvmlite import ir

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import inner_kernel, intrinsic, numba_types
from nmt.rnn.kernels.machine_code.native import LINE_BYTES
from nmt.rnn.kernels.machine_code.operating_system import ON_WINDOWS, call_system

_INT64, _BYTES = ir.IntType(64), ir.IntType(8).as_pointer()


def allocate(builder: ir.IRBuilder, count: ir.Value, size: int) -> ir.Value:
    """Return a pointer to `count` uninitialized elements of `size` bytes; they share no cache line with other
    memory."""
    line = ir.Constant(_INT64, LINE_BYTES)
    lines = builder.udiv(builder.mul(count, ir.Constant(_INT64, size)), line)
    total = builder.mul(builder.add(lines, ir.Constant(_INT64, 1)), line)  # whole lines, and at least one
    wanted = (total, line) if ON_WINDOWS else (line, total)
    found = call_system(builder, "nmt_allocate", *wanted)
    if TARGET.is_linked or TARGET.is_small:
        return found  # of memory that a program has planned
    before, nothing = builder.block, ir.Constant(_BYTES, None)
    with builder.if_then(builder.icmp_unsigned("==", found, nothing), likely=False):
        spare, after = call_system(builder, "nmt_spare", *wanted), builder.block
    result = builder.phi(_BYTES)
    result.add_incoming(found, before)
    result.add_incoming(spare, after)
    return result


def free(builder: ir.IRBuilder, pointer: ir.Value) -> None:
    """Free memory from `allocate`."""
    call_system(builder, "nmt_free", builder.bitcast(pointer, _BYTES))


def _array_type(shape: Any, dtype: Any) -> tuple[Any, Any]:
    """Return Numba's type of the shape, and its type of an array of this shape with elements of `dtype`."""
    axes = len(shape) if isinstance(shape, numba_types.BaseTuple) else 0
    shape_type = numba_types.UniTuple(numba_types.int64, axes) if axes else numba_types.int64
    return shape_type, numba_types.Array(dtype.dtype, axes or 1, "C")


def _extents(builder: Any, shape: Any) -> list[Any]:
    if isinstance(shape.type, ir.IntType):
        return [shape]
    return [builder.extract_value(shape, n) for n in range(shape.type.count)]


def array_value(context: Any, builder: ir.IRBuilder, kind: Any, start: ir.Value, shape: list[ir.Value]) -> ir.Value:
    """Return a C-contiguous array of type `kind` at an address, given as a number or a pointer; it is not
    reference-counted."""
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
    """Return the C-contiguous array of a shape, a number or a tuple, at a pointer or an address."""
    shape_type, kind = _array_type(shape, dtype)
    place = numba_types.int64 if isinstance(pointer, numba_types.Integer) else numba_types.voidptr

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return array_value(context, builder, kind, args[0], _extents(builder, args[1]))

    return kind(place, shape_type, dtype), codegen


@intrinsic
def scratch(typing_context: Any, shape: Any, dtype: Any) -> Any:
    """Return a C-contiguous, uninitialized array of a shape; it shares no cache line with other memory."""
    shape_type, kind = _array_type(shape, dtype)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        extents = _extents(builder, args[0])
        size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        return array_value(context, builder, kind, allocate(builder, reduce(builder.mul, extents), size), extents)

    return kind(shape_type, dtype), codegen


@intrinsic
def release(typing_context: Any, array: Any) -> Any:
    """Free the memory of an array from `scratch`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        free(builder, context.make_array(signature.args[0])(context, builder, args[0]).data)
        return context.get_dummy_value()

    return numba_types.void(array), codegen


@inner_kernel
def clear(array):  # type: ignore[no-untyped-def]
    """Zero an array [n]."""
    for i in range(array.shape[0]):
        array[i] = 0
