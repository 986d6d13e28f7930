"""Addresses, and moves of whole vectors between them, from which packing is built."""

from importlib import import_module
from typing import Any

from llvmlite import ir

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import cgutils, intrinsic, numba_types

_INT64, _INT32 = ir.IntType(64), ir.IntType(32)
_BYTES = ir.IntType(8).as_pointer()
_POINTER, _SIZE = "voidptr", "int64"


@intrinsic
def address(typing_context: Any, array: Any, offset: Any) -> Any:
    """Return the address of element `offset`, counted in C order, of a contiguous array of any number of axes."""
    if not isinstance(array, numba_types.Array) or array.layout != "C":
        raise import_module("numba.core.errors").TypingError(
            f"address: the array must be C-contiguous, got {array}; copy it first"
        )
    signature = numba_types.voidptr(array, numba_types.int64)

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.bitcast(builder.gep(data, [args[1]]), _BYTES)

    return signature, codegen


@intrinsic
def advance(typing_context: Any, pointer: Any, num_bytes: Any) -> Any:
    """Return a pointer advanced by `num_bytes`."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.gep(args[0], [args[1]])

    return numba_types.voidptr(numba_types.voidptr, numba_types.int64), codegen


@intrinsic
def copy_bytes(typing_context: Any, target: Any, source: Any, num_bytes: Any) -> Any:
    """Copy `num_bytes` bytes between two addresses, which are integers."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        pointers = [builder.inttoptr(place, _BYTES) for place in args[:2]]
        cgutils.raw_memcpy(builder, *pointers, args[2], 1)
        return context.get_dummy_value()

    size = numba_types.int64
    return numba_types.void(size, size, size), codegen


def _make_copy(num_bytes: int) -> Any:
    """Return copy(target, source), which copies a fixed number of bytes with a few vector moves; a loop would cost more
    than the copy itself."""

    def copy(typing_context: Any, target: Any, source: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            cgutils.raw_memcpy(builder, args[0], args[1], ir.Constant(_INT64, num_bytes), 1)
            return context.get_dummy_value()

        return numba_types.void(numba_types.voidptr, numba_types.voidptr), codegen

    return intrinsic(copy)


copy_panel_row = _make_copy(TARGET.lanes * TARGET.vectors * 4)
copy_tile_row_f4, copy_tile_row_f8 = (
    _make_copy(TARGET.max_rows * 4),
    _make_copy(TARGET.max_rows * 8),
)


def prefetch(b: ir.IRBuilder, at: ir.Value) -> None:
    """Prefetch the cache line at an address for writing."""
    kind = ir.FunctionType(ir.VoidType(), [_BYTES, _INT32, _INT32, _INT32])
    function = cgutils.get_or_insert_function(b.module, kind, "llvm.prefetch.p0")
    write, keep, data = 1, 3, 1
    b.call(function, [at, *(ir.Constant(_INT32, flag) for flag in (write, keep, data))])


def swap_lanes(b: ir.IRBuilder, vectors: list[ir.Value], distance: int) -> list[ir.Value]:
    """Return one stage of a transposition: swap the off-diagonal squares of side `distance`."""
    lanes, result = len(vectors), list(vectors)
    for i in range(lanes):
        if i & distance:
            continue
        upper, lower = vectors[i], vectors[i + distance]
        first = [j if not j & distance else lanes + j - distance for j in range(lanes)]
        second = [j + distance if not j & distance else lanes + j for j in range(lanes)]
        for at, lane in ((i, first), (i + distance, second)):
            result[at] = b.shuffle_vector(upper, lower, ir.Constant(ir.VectorType(_INT32, lanes), lane))
    return result


def _make_transpose(double: bool) -> Any:
    """Return transpose(target, target_stride, source, source_stride) for a square block whose side is the length of a
    vector; strides are in elements."""
    lanes = TARGET.lanes // 2 if double else TARGET.lanes
    element: ir.Type = ir.DoubleType() if double else ir.FloatType()
    pointer = ir.VectorType(element, lanes).as_pointer()
    size = 8 if double else 4

    def at(b: ir.IRBuilder, start: ir.Value, stride: ir.Value, row: int) -> ir.Value:
        offset = b.mul(stride, ir.Constant(_INT64, row * size))
        return b.bitcast(b.gep(start, [offset]), pointer)

    def transpose(typing_context: Any, target: Any, target_stride: Any, source: Any, source_stride: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            vectors = []
            for row in range(lanes):
                vectors.append(builder.load(at(builder, args[2], args[3], row)))
                vectors[-1].align = size
            distance = lanes // 2
            while distance:
                vectors = swap_lanes(builder, vectors, distance)
                distance //= 2
            for row, vector in enumerate(vectors):
                builder.store(vector, at(builder, args[0], args[1], row)).align = size
            return context.get_dummy_value()

        return numba_types.void(numba_types.voidptr, numba_types.int64, numba_types.voidptr, numba_types.int64), codegen

    return intrinsic(transpose)


transpose_f4, transpose_f8 = _make_transpose(double=False), _make_transpose(double=True)
