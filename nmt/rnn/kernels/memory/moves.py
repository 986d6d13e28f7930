"""Addresses, moves of whole vectors between them, from which packing is built, and copies of rows and columns.

Every copy does one thread's share of contiguous arrays (see pool.run_parallel); NumPy would use only one thread."""

from importlib import import_module
from typing import Any

from llvmlite import ir

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import cgutils, instruction, intrinsic, kernel, numba_types

_INT64, _INT32 = ir.IntType(64), ir.IntType(32)
_BYTES = ir.IntType(8).as_pointer()


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


@instruction("voidptr", "int64", result="voidptr")
def advance(builder: ir.IRBuilder, pointer: ir.Value, num_bytes: ir.Value) -> ir.Value:
    """Return a pointer advanced by `num_bytes`."""
    return builder.gep(pointer, [num_bytes])


@instruction("int64", "int64", "int64")
def copy_bytes(builder: ir.IRBuilder, target: ir.Value, source: ir.Value, num_bytes: ir.Value) -> None:
    """Copy `num_bytes` bytes between two addresses, which are integers."""
    pointers = [builder.inttoptr(place, _BYTES) for place in (target, source)]
    cgutils.raw_memcpy(builder, *pointers, num_bytes, 1)


def _make_copy(num_bytes: int) -> Any:
    """Return copy(target, source), which copies a fixed number of bytes with a few vector moves; a loop would cost more
    than the copy itself."""

    @instruction("voidptr", "voidptr")
    def copy(builder: ir.IRBuilder, target: ir.Value, source: ir.Value) -> None:
        cgutils.raw_memcpy(builder, target, source, ir.Constant(_INT64, num_bytes), 1)

    return copy


copy_panel_row = _make_copy(TARGET.lanes * TARGET.vectors * 4)
copy_tile_row_f4, copy_tile_row_f8 = (_make_copy(TARGET.max_rows * 4), _make_copy(TARGET.max_rows * 8))


def vector_of(element: ir.Type, lanes: int) -> ir.Type:
    """Return the type of a vector; of a single number with one lane."""
    return ir.VectorType(element, lanes) if lanes > 1 else element


def constant_of(kind: ir.Type, value: float) -> ir.Constant:
    """Return a constant; of a type of vectors, with the same number in every lane."""
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def splat(b: ir.IRBuilder, number: ir.Value, lanes: int) -> ir.Value:
    """Return a vector with the same number in every lane."""
    if lanes == 1:
        return number
    undefined = ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined)
    first = b.insert_element(undefined, number, ir.Constant(_INT32, 0))
    return b.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INT32, lanes), None))


def prefetch(b: ir.IRBuilder, at: ir.Value) -> None:
    """Prefetch the cache line at an address for writing."""
    kind = ir.FunctionType(ir.VoidType(), [_BYTES, _INT32, _INT32, _INT32])
    function = cgutils.get_or_insert_function(b.module, kind, "llvm.prefetch.p0")
    write, keep, data = 1, 3, 1
    b.call(function, [at, *(ir.Constant(_INT32, flag) for flag in (write, keep, data))])


def transposed(b: ir.IRBuilder, vectors: list[ir.Value]) -> list[ir.Value]:
    """Return the columns of a square block of rows: each stage swaps its off-diagonal squares of side `distance`."""
    lanes, result = len(vectors), list(vectors)
    distance = lanes // 2
    while distance:
        for i in (row for row in range(lanes) if not row & distance):
            upper, lower = result[i], result[i + distance]
            first = [j if not j & distance else lanes + j - distance for j in range(lanes)]
            second = [j + distance if not j & distance else lanes + j for j in range(lanes)]
            for at, lane in ((i, first), (i + distance, second)):
                result[at] = b.shuffle_vector(upper, lower, ir.Constant(ir.VectorType(_INT32, lanes), lane))
        distance //= 2
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

    @instruction("voidptr", "int64", "voidptr", "int64")
    def transpose(builder: ir.IRBuilder, *places: ir.Value) -> None:
        target, target_stride, source, source_stride = places
        vectors = [builder.load(at(builder, source, source_stride, row)) for row in range(lanes)]
        for vector in vectors:
            vector.align = size
        for row, vector in enumerate(transposed(builder, vectors)):
            builder.store(vector, at(builder, target, target_stride, row)).align = size

    return transpose


transpose_f4, transpose_f8 = _make_transpose(double=False), _make_transpose(double=True)


@kernel
def take_rows(part, parts, array, index, out):  # type: ignore[no-untyped-def]
    """Set out[o, r] = array[o, index[r]], or zero if the index is negative; array [outer, before, n], index int64
    [rows], out [outer, rows, n]."""
    outer, rows, _ = out.shape
    for i in range(outer * rows * part // parts, outer * rows * (part + 1) // parts):
        o = i // rows
        r = i - o * rows
        target = out[o, r]
        if index[r] < 0:
            target[:] = 0
        else:
            source = array[o, index[r]]
            for j in range(target.size):
                target[j] = source[j]


@kernel
def copy_columns(part, parts, array, first, out, into, width):  # type: ignore[no-untyped-def]
    """Set out[r, into : into + width] = array[r, first : first + width]; array [rows, n], out [rows, m]."""
    rows = out.shape[0]
    for r in range(rows * part // parts, rows * (part + 1) // parts):
        source, target = array[r, first : first + width], out[r, into : into + width]
        for j in range(width):
            target[j] = source[j]


@kernel
def add(part, parts, total, other):  # type: ignore[no-untyped-def]
    """Add `other` to `total`; both are flat."""
    size = total.size
    for i in range(size * part // parts, size * (part + 1) // parts):
        total[i] += other[i]


@kernel
def begin_stack(part, parts, stack, first, ends, start, is_given):  # type: ignore[no-untyped-def]
    """Zero slots ends[b] and later of each row of stack [slots, B, n], then set slot first[b] to start[b], or zero."""
    slots, B, n = stack.shape
    for b in range(B * part // parts, B * (part + 1) // parts):
        for t in range(ends[b], slots):
            stack[t, b, :] = 0
        target, source = stack[first[b], b], start[b]
        for j in range(n):
            target[j] = source[j] if is_given else 0


@kernel
def fill_slots(part, parts, slots, start, is_given):  # type: ignore[no-untyped-def]
    """Set every slot of [slots, B, n] to start [B, n], or zero."""
    count, B, n = slots.shape
    for b in range(B * part // parts, B * (part + 1) // parts):
        for t in range(count):
            target, source = slots[t, b], start[b]
            for j in range(n):
                target[j] = source[j] if is_given else 0


@kernel
def clear_all(part, parts, array):  # type: ignore[no-untyped-def]
    """Zero an array [n]."""
    array[array.size * part // parts : array.size * (part + 1) // parts] = 0
