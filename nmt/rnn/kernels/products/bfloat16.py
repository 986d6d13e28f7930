"""Pairs of bfloat16 numbers for products: rounding from float32, and products of pairs.

A bfloat16 is the upper half of a float32. A pair is one uint32 with the earlier number in its lower half; products
multiply pairs with pairs and add both results to a float32, the later number's first. Rounding is to the nearest, ties
to even; numbers too small for a normal float32 become zero, as in the processor's own instructions (Intel, Instruction
Set Reference, VCVTNE2PS2BF16 and VDPBF16PS). On processors without them, integer and float32 vectors compute the same;
Arm's BFDOT adds both products before it rounds.

Intel's Advanced Matrix Extensions multiply them on a matrix unit, which has eight tiles of 16 rows of 64 bytes. Here
four of them accumulate a block of 32 rows and 32 columns of C, two contain 32 rows of A with 16 pairs each, and two
contain 16 rows of a panel. One instruction multiplies 16 rows of 16 pairs with 16 columns, where a vector instruction
handles one row (Intel, Instruction Set Reference, TDPBF16PS). Operands have the same layout as for vectors (see
packing.py), except for their length: rows of A and panels are padded with zeros to a multiple of 16 pairs
(`bfloat16.pair_words`).

Over 16 pairs the unit sums the products of the earlier numbers of the pairs, and separately those of the later numbers,
and adds both sums to C. So the last digits of its results differ from those of vectors, but they do not depend on how
rows are grouped.
"""

from typing import Any

import numpy as np
from llvmlite import ir

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import cgutils, external, holds, inlined, inner_kernel, instruction
from nmt.rnn.kernels.memory.arrays import array_at
from nmt.rnn.kernels.memory.moves import advance, constant_of, prefetch, transposed, vector_of

PAIR_LANES = TARGET.lanes
# The instruction of Arm that rounds to bfloat16 does not flush tiny numbers.
_CONVERTS = TARGET.has_bf16 and TARGET.lanes == 16
_AT_A_TIME = TARGET.pairs_at_a_time
_INT64, _INT32, _INT16 = (ir.IntType(n) for n in (64, 32, 16))
_POINTER, _SIZE = "voidptr", "int64"


class _BFloat(ir.Type):  # type: ignore[misc]
    """The element type of the processor's own instructions, which llvmlite does not have."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


def _shuffle(b: ir.IRBuilder, x: ir.Value, y: ir.Value, lanes: list[int]) -> ir.Value:
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(_INT32, len(lanes)), lanes))


def _upper_half(b: ir.IRBuilder, x: ir.Value, lanes: int) -> ir.Value:
    """Round float32 to bfloat16 with integer arithmetic; return the bits in the lower half of an integer."""
    kind = vector_of(_INT32, lanes)
    bits = b.bitcast(x, kind)
    half = b.lshr(bits, constant_of(kind, 16))
    odd = b.and_(half, constant_of(kind, 1))
    rounded = b.lshr(b.add(bits, b.add(odd, constant_of(kind, 0x7FFF))), constant_of(kind, 16))
    magnitude = b.and_(bits, constant_of(kind, 0x7FFFFFFF))
    is_nan = b.icmp_unsigned(">", magnitude, constant_of(kind, 0x7F800000))
    is_tiny = b.icmp_unsigned("<", magnitude, constant_of(kind, 0x00800000))
    rounded = b.select(is_nan, b.or_(half, constant_of(kind, 0x40)), rounded)
    return b.select(is_tiny, b.and_(half, constant_of(kind, 0x8000)), rounded)


def _convert(b: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    """Round two vectors of float32 to bfloat16; return all numbers of the first, then those of the second, as int16."""
    floats = ir.VectorType(ir.FloatType(), 16)
    kind = ir.FunctionType(ir.VectorType(_BFloat(), 32), [floats, floats])
    function = cgutils.get_or_insert_function(b.module, kind, "llvm.x86.avx512bf16.cvtne2ps2bf16.512")
    return b.bitcast(b.call(function, [second, first]), ir.VectorType(_INT16, 32))


def _zip(b: ir.IRBuilder, earlier: ir.Value, later: ir.Value, lanes: int) -> ir.Value:
    """Return the pairs of numbers in the same lane of two vectors."""
    if _CONVERTS and lanes == TARGET.lanes:
        halves = _convert(b, earlier, later)
        mixed = _shuffle(b, halves, halves, [n // 2 + lanes * (n % 2) for n in range(2 * lanes)])
        return b.bitcast(mixed, ir.VectorType(_INT32, lanes))
    low, high = _upper_half(b, earlier, lanes), _upper_half(b, later, lanes)
    return b.or_(low, b.shl(high, constant_of(low.type, 16)))


def _neighbours(b: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    """Return the pairs of adjacent lanes of the first vector, then those of the second."""
    lanes = TARGET.lanes
    if _CONVERTS:
        return b.bitcast(_convert(b, first, second), ir.VectorType(_INT32, lanes))
    even, odd = (_shuffle(b, first, second, list(range(start, 2 * lanes, 2))) for start in (0, 1))
    return _zip(b, even, odd, lanes)


def _load(b: ir.IRBuilder, at: ir.Value, kind: ir.Type, offset: int = 0) -> ir.Value:
    value = b.load(b.bitcast(b.gep(at, [ir.Constant(_INT64, offset)]), kind.as_pointer()))
    value.align = 4
    return value


def _store(b: ir.IRBuilder, value: ir.Value, at: ir.Value) -> None:
    b.store(value, b.bitcast(at, value.type.as_pointer())).align = 4


holds_pairs = holds("uint32")


def _make_zip(lanes: int) -> Any:
    @instruction("voidptr", "voidptr", "voidptr")
    def zip_lanes(builder: ir.IRBuilder, target: ir.Value, *rows: ir.Value) -> None:
        x, y = (_load(builder, at, vector_of(ir.FloatType(), lanes)) for at in rows)
        _store(builder, _zip(builder, x, y, lanes), target)

    return zip_lanes


# zip(target, earlier, later): pair the numbers of two rows column by column, a vector of pairs or one pair at a time.
_zip_vector, _zip_one = _make_zip(TARGET.lanes), _make_zip(1)


@instruction("voidptr", "voidptr")
def _pair_vector(builder: ir.IRBuilder, target: ir.Value, source: ir.Value) -> None:
    """Write one vector of pairs of adjacent numbers in a row."""
    kind = vector_of(ir.FloatType(), TARGET.lanes)
    x, y = (_load(builder, source, kind, 4 * TARGET.lanes * n) for n in (0, 1))
    _store(builder, _neighbours(builder, x, y), target)


@instruction("voidptr", "voidptr")
def _pair_last(builder: ir.IRBuilder, target: ir.Value, source: ir.Value) -> None:
    """Write the pair of the last number of an odd row and zero."""
    number = _load(builder, source, ir.FloatType())
    _store(builder, _upper_half(builder, number, 1), target)


@instruction("voidptr", "int64", "voidptr", "int64")
def pair_block(
    builder: ir.IRBuilder, target: ir.Value, target_stride: ir.Value, source: ir.Value, source_stride: ir.Value
) -> None:
    """Pair adjacent numbers in the rows of a block of PAIR_LANES rows and twice as many columns, and transpose the
    pairs. Strides are in elements: pairs for the target, numbers for the source."""
    lanes = TARGET.lanes
    kind, vectors = vector_of(ir.FloatType(), lanes), []
    for row in range(lanes):
        at = builder.gep(source, [builder.mul(source_stride, ir.Constant(_INT64, 4 * row))])
        vectors.append(_neighbours(builder, _load(builder, at, kind), _load(builder, at, kind, 4 * lanes)))
    for row, vector in enumerate(transposed(builder, vectors)):
        _store(builder, vector, builder.gep(target, [builder.mul(target_stride, ir.Constant(_INT64, 4 * row))]))


@inner_kernel
def pair_rows(target, earlier, later, count):  # type: ignore[no-untyped-def]
    """Set target[j] to the pair of earlier[j] and later[j] for `count` numbers; all three are addresses."""
    whole = count // PAIR_LANES * PAIR_LANES
    for j in range(0, whole, PAIR_LANES):
        _zip_vector(advance(target, j * 4), advance(earlier, j * 4), advance(later, j * 4))
    for j in range(whole, count):
        _zip_one(advance(target, j * 4), advance(earlier, j * 4), advance(later, j * 4))


@inner_kernel
def pair_columns(target, source, count):  # type: ignore[no-untyped-def]
    """Write the pairs of adjacent numbers among `count`; an odd last number is paired with zero."""
    pairs = count // 2
    whole = pairs // PAIR_LANES * PAIR_LANES
    for j in range(0, whole, PAIR_LANES):
        _pair_vector(advance(target, j * 4), advance(source, j * 8))
    for j in range(whole, pairs):
        _zip_one(advance(target, j * 4), advance(source, j * 8), advance(source, j * 8 + 4))
    if 2 * pairs < count:
        _pair_last(advance(target, pairs * 4), advance(source, pairs * 8))


@inlined
def pair_words(K):  # type: ignore[no-untyped-def]
    """Return the pairs in a row of K numbers for products, padded to a multiple of those they take at a time."""
    return (K + 2 * _AT_A_TIME - 1) // (2 * _AT_A_TIME) * _AT_A_TIME


def _to_pairs(a, lda, M, K, out):  # type: ignore[no-untyped-def]
    half, words = (K + 1) // 2, pair_words(K)
    for m in range(M):
        row = advance(out, m * words * 4)
        pair_columns(row, advance(a, m * lda * 4), K)
        if half < words:
            rest = array_at(advance(row, half * 4), words - half, np.uint32)
            for j in range(words - half):
                rest[j] = 0


# to_pairs(a, lda, M, K, out), in compiled code: round M rows of K float32 at address `a` to contiguous rows of
# pair_words(K) pairs at `out`.
to_pairs = external(_to_pairs, (_POINTER, _SIZE, _SIZE, _SIZE, _POINTER))


def add_products(b: ir.IRBuilder, sums: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return sums + the products of the later, then the earlier numbers of vectors of pairs, by one instruction."""
    operand = ir.VectorType(_BFloat(), 2 * TARGET.lanes)
    kind = ir.FunctionType(sums.type, [sums.type, operand, operand])
    name = "x86.avx512bf16.dpbf16ps.512" if _CONVERTS else "aarch64.neon.bfdot.v4f32.v8bf16"
    function = cgutils.get_or_insert_function(b.module, kind, f"llvm.{name}")
    return b.call(function, [sums, b.bitcast(x, operand), b.bitcast(y, operand)])


TILE_ROWS = 32
"""Rows of C that fit the tiles."""

_SIDE, _ROW_BYTES = 16, 64
_WIDTH = 2 * _SIDE
_SUMS, _LEFT, _RIGHT = ((0, 1), (2, 3)), (4, 5), (6, 7)
_INT8 = ir.IntType(8)
_BYTES = _INT8.as_pointer()
ROW_ARGUMENTS = ("voidptr", "int64", "voidptr", "voidptr", *("int64",) * 5)
"""The types of the arguments of a product of rows; see microkernel.py."""

ROW_BLOCK = 8 * TILE_ROWS
"""Rows of A that are multiplied with all panels before the next rows; they stay in the L2 cache."""

PAIR_BLOCK = 512
"""Pairs of a row of A that are multiplied with all panels before the next pairs: with ROW_BLOCK rows half a megabyte.
C is loaded and stored for each block; as a tile adds to C itself, the bits are those of one block."""


def _call(b: ir.IRBuilder, name: str, *arguments: ir.Value | int) -> None:
    """Write one instruction of the unit; a tile is given by its number."""
    values = [ir.Constant(_INT8, one) if isinstance(one, int) else one for one in arguments]
    kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
    b.call(cgutils.get_or_insert_function(b.module, kind, f"llvm.x86.{name}"), values)


def _on_stack(builder: ir.IRBuilder, size: int) -> ir.Value:
    """Return a pointer to uninitialized bytes that last until the function returns, from a cache line on."""
    slot = cgutils.alloca_once(builder, ir.ArrayType(_INT8, size))
    slot.align = _ROW_BYTES
    return builder.bitcast(slot, _BYTES)


@instruction(result="voidptr")
def _block_on_stack(builder: ir.IRBuilder) -> ir.Value:
    """Return the address of memory for a block of C."""
    return _on_stack(builder, 4 * TILE_ROWS * _WIDTH)


@instruction("int64", "int64")
def _set_tiles(builder: ir.IRBuilder, upper: ir.Value, lower: ir.Value) -> None:
    """Configure the tiles: `upper` rows for the first 16 of C and A, `lower` for the others, which may be none."""
    memory, zeros = _on_stack(builder, 64), ir.ArrayType(_INT8, 64)
    builder.store(ir.Constant(zeros, None), builder.bitcast(memory, zeros.as_pointer()))
    used = [ir.Constant(ir.IntType(1), 1), builder.icmp_signed(">", lower, ir.Constant(_INT64, 0))]

    def put(offset: int, value: ir.Value) -> None:
        place = builder.gep(memory, [ir.Constant(_INT64, offset)])
        builder.store(value, builder.bitcast(place, value.type.as_pointer())).align = 1

    def put_tile(tile: int, height: ir.Value, in_use: ir.Value) -> None:
        nothing, whole = ir.Constant(_INT16, 0), ir.Constant(_INT16, _ROW_BYTES)
        put(16 + 2 * tile, builder.select(in_use, whole, nothing))
        put(48 + tile, builder.trunc(height, _INT8))

    put(0, ir.Constant(_INT8, 1))  # palette 1: eight tiles
    for half, height in enumerate((upper, lower)):
        for tile in (*_SUMS[half], _LEFT[half]):
            put_tile(tile, height, used[half])
    for tile in _RIGHT:
        put_tile(tile, ir.Constant(_INT64, _SIDE), used[0])
    _call(builder, "ldtilecfg", memory)


@instruction()
def _free_tiles(builder: ir.IRBuilder) -> None:
    """Release the tiles, so that the system need not save them when it switches threads."""
    _call(builder, "tilerelease")


def _make_tile(halves: int) -> Any:
    """Return tile(c, ldc, a, lda, panel, K, accumulate), which computes C (+)= A @ panel for all columns of a panel and
    up to 16 (`halves` 1) or 32 (`halves` 2) rows, as many as the tiles are configured for."""

    @instruction("voidptr", "int64", "voidptr", "int64", "voidptr", "int64", "int64")
    def tile(builder: ir.IRBuilder, *operands: ir.Value) -> None:
        c, ldc, a, lda, panel, K, accumulate = operands
        four = ir.Constant(_INT64, 4)
        c_stride, a_stride, panel_stride = builder.mul(ldc, four), builder.mul(lda, four), _number(4 * _WIDTH)

        # C is needed only after the sums: prefetched now, it will have arrived by then.
        for row in range(_SIDE * halves):
            at = builder.gep(c, [builder.mul(c_stride, _number(row))])
            prefetch(builder, at)
            prefetch(builder, builder.gep(at, [_number(_ROW_BYTES)]))

        def each_sum(action: Any) -> None:
            for half in range(halves):
                row = builder.gep(c, [builder.mul(c_stride, _number(_SIDE * half))])
                for column, number in enumerate(_SUMS[half]):
                    action(number, builder.gep(row, [_number(_ROW_BYTES * column)]))

        with builder.if_else(builder.icmp_signed("!=", accumulate, _number(0))) as (then, otherwise):
            with then:
                each_sum(lambda number, at: _call(builder, "tileloadd64", number, at, c_stride))
            with otherwise:
                each_sum(lambda number, at: _call(builder, "tilezero", number))
        with cgutils.for_range_slice(builder, _number(0), K, _number(_SIDE)) as (k, _):
            rows, lines = builder.gep(a, [builder.mul(k, four)]), builder.gep(panel, [builder.mul(k, panel_stride)])
            for column, number in enumerate(_RIGHT):
                at = builder.gep(lines, [_number(_ROW_BYTES * column)])
                _call(builder, "tileloadd64", number, at, panel_stride)
            for half in range(halves):
                at = builder.gep(rows, [builder.mul(a_stride, _number(_SIDE * half))])
                _call(builder, "tileloadd64", _LEFT[half], at, a_stride)
                for column, number in enumerate(_SUMS[half]):
                    _call(builder, "tdpbf16ps", number, _LEFT[half], _RIGHT[column])
        each_sum(lambda number, at: _call(builder, "tilestored64", number, at, c_stride))

    return tile


def _number(value: int) -> ir.Constant:
    return ir.Constant(_INT64, value)


_tile_16, _tile_32 = _make_tile(1), _make_tile(2)


@inner_kernel
def _tile(c, ldc, a, lda, panel, K, accumulate, rows):  # type: ignore[no-untyped-def]
    if rows > _SIDE:
        _tile_32(c, ldc, a, lda, panel, K, accumulate)
    else:
        _tile_16(c, ldc, a, lda, panel, K, accumulate)


@inner_kernel
def _copy_columns(target, target_stride, source, source_stride, rows, columns):  # type: ignore[no-untyped-def]
    """Copy float32 [rows, columns] from the address `source` to the address `target`; strides are in elements."""
    for m in range(rows):
        to = array_at(advance(target, m * target_stride * 4), columns, np.float32)
        row = array_at(advance(source, m * source_stride * 4), columns, np.float32)
        for j in range(columns):
            to[j] = row[j]


def product_rows(a, lda, b, c, ldc, M, N, K, accumulate):  # type: ignore[no-untyped-def]
    """Compute C[M, N] (+)= A[M, K] @ B as in microkernel.py; lda and K count pairs, K is a multiple of 16."""
    edge = _block_on_stack()
    m0 = 0
    while m0 < M:
        rows = min(TILE_ROWS, M - m0)
        block = min(ROW_BLOCK, (M - m0) // rows * rows)
        _set_tiles(min(rows, _SIDE), rows - min(rows, _SIDE))
        for n0 in range(0, N, _WIDTH):
            panel, columns = advance(b, n0 * K * 4), min(_WIDTH, N - n0)
            for m in range(m0, m0 + block, rows):
                left, target = advance(a, m * lda * 4), advance(c, (m * ldc + n0) * 4)
                if columns == _WIDTH:
                    _tile(target, ldc, left, lda, panel, K, accumulate, rows)
                else:
                    # Do not touch the columns of C next to these.
                    if accumulate:
                        _copy_columns(edge, _WIDTH, target, ldc, rows, columns)
                    _tile(edge, _WIDTH, left, lda, panel, K, accumulate, rows)
                    _copy_columns(target, ldc, edge, _WIDTH, rows, columns)
        m0 += block
    if M:
        _free_tiles()


if TARGET.has_amx:  # in the module of its function, by which other processes find it
    product_rows_bf16 = external(product_rows, ROW_ARGUMENTS, name="product_rows_bf16")
