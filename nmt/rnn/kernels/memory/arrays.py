"""Arrays inside compiled code: views of memory at an address, temporary memory, and the rows that are active at a step.

There is no reference counting: the function that allocates an array with `scratch` frees it once with `release`."""

from functools import lru_cache, reduce
from importlib import import_module
from typing import Any

import numpy as np
from llvmlite import ir

from nmt.rnn.arrays.workspace import LINE_BYTES
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import inner_kernel, instruction, intrinsic, kernel, numba_types
from nmt.rnn.kernels.machine_code.objects import ON_WINDOWS, call_system

_INT64, _BYTES = ir.IntType(64), ir.IntType(8).as_pointer()


def allocate(builder: ir.IRBuilder, count: ir.Value, size: int) -> ir.Value:
    """Return a pointer to `count` uninitialized elements of `size` bytes, in cache lines of their own."""
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
    """Return a C-contiguous array of type `kind` at an address (number or pointer), without reference counting."""
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


FEW = 6
"""The number of rows that take a product as long as a single one, because loading the weights dominates. So few rows
gain nothing from sharing equal inputs."""


def run_bounds(numbers: np.ndarray) -> np.ndarray:
    """Return the positions at which runs of equal numbers [R] start, followed by R: int64 [runs + 1]."""
    is_bound = np.ones(len(numbers) + 1, bool)
    np.not_equal(numbers[1:], numbers[:-1], out=is_bound[1:-1])
    return np.flatnonzero(is_bound)


@lru_cache(maxsize=64)
def identity(size: int) -> np.ndarray:
    """Return 0, 1, ... size - 1 as int64. The array is cached and must not be modified."""
    return np.arange(size, dtype=np.int64)


def distinct(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct numbers among these [R], and the index of each among them, int64 [R]. If there are at most
    FEW numbers, they are returned unchanged, as nothing would be gained."""
    if len(numbers) <= FEW:
        return numbers, identity(len(numbers))
    different, place = np.unique(numbers, return_inverse=True)
    return different, place


@inner_kernel
def share(segments, low, high, size):  # type: ignore[no-untyped-def]
    """Return rows number low to high - 1 of those in `segments`, with adjacent rows joined, in pieces of at most `size`
    rows: an array [pieces, 2] from `scratch`, and the number of its rows in use."""
    pieces = scratch((segments.shape[0] + (high - low) // size + 1, 2), np.int64)
    n, seen = 0, 0
    for s in range(segments.shape[0]):
        first, last = max(low - seen, 0), min(high - seen, segments[s, 1])
        seen += segments[s, 1]
        start = segments[s, 0] + first
        while first < last:
            if n > 0 and pieces[n - 1, 1] < size and pieces[n - 1, 0] + pieces[n - 1, 1] == start:
                count = min(last - first, size - pieces[n - 1, 1])
                pieces[n - 1, 1] += count
            else:
                count = min(last - first, size)
                pieces[n, 0], pieces[n, 1] = start, count
                n += 1
            first += count
            start += count
    return pieces, n


@inner_kernel
def rows_in(segments):  # type: ignore[no-untyped-def]
    """Return the number of rows in the segments."""
    total = 0
    for s in range(segments.shape[0]):
        total += segments[s, 1]
    return total


@inner_kernel
def by_panels(panels, parts):  # type: ignore[no-untyped-def]
    """Return whether dividing the panels gives every part about the same amount of work."""
    return parts == 1 or panels % parts == 0 or panels >= 12 * parts


@instruction("voidptr", "int64", result="int64")
def number_in(builder: ir.IRBuilder, table: ir.Value, index: ir.Value) -> ir.Value:
    """Return the int64 at an index of a table (see `jit.task`)."""
    numbers = builder.bitcast(table, ir.IntType(64).as_pointer())
    return builder.load(builder.gep(numbers, [index]))


@kernel
def zero_inactive(part, parts, array, lengths):  # type: ignore[no-untyped-def]
    """Zero the rows of [T, B, n] beyond each length."""
    T, B, _ = array.shape
    for b in range(B * part // parts, B * (part + 1) // parts):
        for t in range(lengths[b], T):
            array[t, b, :] = 0


@kernel
def _prefix_rows(lengths, bounds, T, runs, found):  # type: ignore[no-untyped-def]
    count = 0
    for t in range(T):
        for part in range(bounds.shape[0] - 1):
            start = t * lengths.shape[0] + bounds[part]
            rows = bounds[part + 1] - bounds[part]
            while rows > 0 and lengths[bounds[part] + rows - 1] <= t:
                rows -= 1
            if rows > 0:
                if count > 0 and runs[count - 1, 0] + runs[count - 1, 1] == start:
                    runs[count - 1, 1] += rows
                else:
                    runs[count, 0], runs[count, 1] = start, rows
                    count += 1
    found[0] = count


def prefix_rows(lengths: np.ndarray, bounds: np.ndarray, T: int) -> np.ndarray:
    """Return the runs of rows [n, 2] of a [T * B] array that form, for every step and part, the shortest prefix with
    all its active rows. lengths [B] and bounds [parts + 1] are int64."""
    runs, found = np.empty((T * (len(bounds) - 1), 2), np.int64), np.zeros(1, np.int64)
    _prefix_rows(lengths, bounds, T, runs, found)
    return runs[: found[0]]
