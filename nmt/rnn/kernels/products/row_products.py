"""Products of rows with a packed matrix on one thread, in compiled code: with register tiles, or with the tiles of AMX.

    product_rows(a, lda, b, c, ldc, M, N, K, accumulate)

computes C[M, N] (+)= A[M, K] @ B; a and c are addresses with row strides in elements, b is the address of the packed
matrix (see packing.py), accumulate is 0 or 1.
"""

import numpy as np

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import external, inner_kernel
from nmt.rnn.kernels.memory.moves import advance
from nmt.rnn.kernels.products import amx
from nmt.rnn.kernels.products.microkernel import (
    MOST_PANELS,
    tile_bf16,
    tile_f4,
    tile_f8,
    tile_int8,
    tile_row_f4,
    tile_row_f8,
)

_MAX_ROWS = TARGET.max_rows
_PANEL_F4, _PANEL_F8 = TARGET.panel_width(np.float32), TARGET.panel_width(np.float64)
ROW_BLOCK = amx.ROW_BLOCK if TARGET.has_amx else 24 * _MAX_ROWS
"""Rows of A that are multiplied with all panels before the next rows; they stay in the L2 cache."""

PAIR_BLOCK = amx.PAIR_BLOCK if TARGET.has_amx else 1 << 40
"""Pairs of a row of A that are multiplied before the next pairs: all, except with AMX, where the bits are the same."""


def _product_rows(tile, width, size):  # type: ignore[no-untyped-def]
    """Return a product of rows by tiles; panels have `width` columns of elements of `size` bytes."""

    def product_rows(a, lda, b, c, ldc, M, N, K, accumulate):  # type: ignore[no-untyped-def]
        for m0 in range(0, M, ROW_BLOCK):
            block = min(ROW_BLOCK, M - m0)
            # Tiles of nearly equal height: a lone last row would cost as much time as five.
            tiles = (block + _MAX_ROWS - 1) // _MAX_ROWS
            height, taller = block // tiles, block % tiles
            for n0 in range(0, N, width):
                columns, panel, m = min(width, N - n0), advance(b, n0 * K * size), m0
                for n in range(tiles):
                    rows = height + (1 if n < taller else 0)
                    target = advance(c, (m * ldc + n0) * size)
                    tile(target, ldc, advance(a, m * lda * size), lda, 1, panel, K, columns, accumulate, rows)
                    m += rows

    return product_rows


def _with_row_tiles(rows_product, row_tile, width, size):  # type: ignore[no-untyped-def]
    """Return a product of rows which computes a single row by tiles of several panels."""

    def product_rows(a, lda, b, c, ldc, M, N, K, accumulate):  # type: ignore[no-untyped-def]
        n0, left = 0, N // width if M == 1 else 0
        while left > 1:
            groups = (left + MOST_PANELS - 1) // MOST_PANELS
            panels = (left + groups - 1) // groups
            target, panel = advance(c, n0 * size), advance(b, n0 * K * size)
            row_tile(target, width, a, lda, 1, panel, K, width, accumulate, panels)
            n0 += panels * width
            left -= panels
        rows_product(a, lda, advance(b, n0 * K * size), advance(c, n0 * size), ldc, M, N - n0, K, accumulate)

    return product_rows


def _external(tile, row_tile, width, size, name):  # type: ignore[no-untyped-def]
    rows_product = inner_kernel(_product_rows(tile, width, size))
    return external(_with_row_tiles(rows_product, row_tile, width, size), amx.ROW_ARGUMENTS, name=name)


product_rows_f4 = _external(tile_f4, tile_row_f4, _PANEL_F4, 4, "product_rows_f4")
product_rows_f8 = _external(tile_f8, tile_row_f8, _PANEL_F8, 8, "product_rows_f8")
# For pairs: lda and K count pairs.
product_rows_bf16 = (
    amx.product_rows_bf16
    if TARGET.has_amx
    else external(_product_rows(tile_bf16, _PANEL_F4, 4), amx.ROW_ARGUMENTS, name="product_rows_bf16")
)
# For quads: lda and K count words, tails included.
product_rows_int8 = external(_product_rows(tile_int8, _PANEL_F4, 4), amx.ROW_ARGUMENTS, name="product_rows_int8")
