"""Products of bfloat16 on the processor's matrix unit: Intel's Advanced Matrix Extensions.

The unit has eight tiles of 16 rows of 64 bytes. Here four of them accumulate a block of 32 rows and 32 columns of C,
two contain 32 rows of A with 16 pairs each, and two contain 16 rows of a panel. One instruction multiplies 16 rows of
16 pairs with 16 columns, where a vector instruction handles one row (Intel, Instruction Set Reference, TDPBF16PS).
Operands have the same layout as for vectors (see packing.py), except for their length: rows of A and panels are padded
with zeros to a multiple of 16 pairs (`bfloat16.pair_words`).

Over 16 pairs the unit sums the products of the earlier numbers of the pairs, and separately those of the later numbers,
and adds both sums to C. So the last digits of its results differ from those of vectors, but they do not depend on how
rows are grouped.
"""

from typing import Any

import numpy as np
from llvmlite import ir

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import cgutils, external, inner_kernel, instruction
from nmt.rnn.kernels.memory.arrays import array_at
from nmt.rnn.kernels.memory.moves import advance, prefetch

TILE_ROWS = 32
"""Rows of C that fit the tiles."""

_SIDE, _ROW_BYTES = 16, 64
_WIDTH = 2 * _SIDE
_SUMS, _LEFT, _RIGHT = ((0, 1), (2, 3)), (4, 5), (6, 7)
_INT64, _INT16, _INT8 = ir.IntType(64), ir.IntType(16), ir.IntType(8)
_BYTES = _INT8.as_pointer()
ROW_ARGUMENTS = ("voidptr", "int64", "voidptr", "voidptr", *("int64",) * 5)
"""The types of the arguments of a product of rows; see row_products.py."""

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
    """Configure the tiles: those for the first 16 rows of C and A have `upper` rows, the others `lower`; if `lower` is
    0 they are not used."""
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
    """Compute C[M, N] (+)= A[M, K] @ B as in row_products.py; lda and K count pairs, K is a multiple of 16."""
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
