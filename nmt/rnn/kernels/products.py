"""Matrix products on packed weights, and the weight gradients they need.

Arrays are C-contiguous; float32 or float64, one kind in a call. `segments` is int64 [n, 2]: start
row and number of rows of each run of rows that takes part. Functions with (part, parts, ...) do one
thread's share: see threads.run_parallel. Results are the same bits for any number of parts and any
division into segments, weight gradients included.
"""

from typing import Any

import numpy as np

from nmt.rnn.kernels.features import TARGET
from nmt.rnn.kernels.gradients import weight_gradient
from nmt.rnn.kernels.jit import external, kernel, numba_types
from nmt.rnn.kernels.microkernel import tile_f4, tile_f8
from nmt.rnn.kernels.moves import address, advance
from nmt.rnn.kernels.packing import PANEL_BYTES, pack, pack_transposed, packed_size
from nmt.rnn.kernels.segments import by_panels, share

__all__ = [
    "PRODUCT_ROWS",
    "address",
    "advance",
    "columns_of",
    "pack",
    "pack_transposed",
    "packed_size",
    "product",
    "product_rows_f4",
    "product_rows_f8",
    "sum_rows",
    "weight_gradient",
]


_MAX_ROWS = TARGET.max_rows
_PANEL_F4, _PANEL_F8 = TARGET.panel_width(np.float32), TARGET.panel_width(np.float64)
# Rows of A that go through all panels before the next rows: they stay in the second cache
# meanwhile.
_ROW_BLOCK = 24 * _MAX_ROWS
_POINTER, _SIZE = numba_types.voidptr, numba_types.int64


def _product_rows_f4(a, lda, b, c, ldc, M, N, K, accumulate):  # type: ignore[no-untyped-def]
    for m0 in range(0, M, _ROW_BLOCK):
        block = min(_ROW_BLOCK, M - m0)
        # Tiles of nearly equal height: a lone last row would cost as much time as five.
        tiles = (block + _MAX_ROWS - 1) // _MAX_ROWS
        height, taller = block // tiles, block % tiles
        for n0 in range(0, N, _PANEL_F4):
            columns, panel, m = min(_PANEL_F4, N - n0), advance(b, n0 * K * 4), m0
            for tile in range(tiles):
                rows = height + (1 if tile < taller else 0)
                target = advance(c, (m * ldc + n0) * 4)
                tile_f4(
                    target,
                    ldc,
                    advance(a, m * lda * 4),
                    lda,
                    1,
                    panel,
                    K,
                    columns,
                    accumulate,
                    rows,
                )
                m += rows


def _product_rows_f8(a, lda, b, c, ldc, M, N, K, accumulate):  # type: ignore[no-untyped-def]
    for m0 in range(0, M, _ROW_BLOCK):
        block = min(_ROW_BLOCK, M - m0)
        tiles = (block + _MAX_ROWS - 1) // _MAX_ROWS
        height, taller = block // tiles, block % tiles
        for n0 in range(0, N, _PANEL_F8):
            columns, panel, m = min(_PANEL_F8, N - n0), advance(b, n0 * K * 8), m0
            for tile in range(tiles):
                rows = height + (1 if tile < taller else 0)
                target = advance(c, (m * ldc + n0) * 8)
                tile_f8(
                    target,
                    ldc,
                    advance(a, m * lda * 8),
                    lda,
                    1,
                    panel,
                    K,
                    columns,
                    accumulate,
                    rows,
                )
                m += rows


_ROWS_ARGUMENTS = (_POINTER, _SIZE, _POINTER, _POINTER, _SIZE, _SIZE, _SIZE, _SIZE, _SIZE)
# product_rows(a, lda, b, c, ldc, M, N, K, accumulate), inside compiled code: C[M, N] (+)= A[M, K] @
# B on one thread; a and c are addresses with row strides in elements, b the packed matrix,
# accumulate 0 or 1.
product_rows_f4 = external(_product_rows_f4, _ROWS_ARGUMENTS)
product_rows_f8 = external(_product_rows_f8, _ROWS_ARGUMENTS)
PRODUCT_ROWS: dict[np.dtype[Any], Any] = {
    np.dtype("f4"): product_rows_f4,
    np.dtype("f8"): product_rows_f8,
}


@kernel
def _rows(array, a, lda, b, c, ldc, M, N, K, accumulate):  # type: ignore[no-untyped-def]
    if array.itemsize == 4:
        product_rows_f4(a, lda, b, c, ldc, M, N, K, accumulate)
    else:
        product_rows_f8(a, lda, b, c, ldc, M, N, K, accumulate)


@kernel
def columns_of(N, part, parts):  # type: ignore[no-untyped-def]
    """First and last + 1 of the columns, whole panels, that are one thread's of N float32 columns."""
    panels = (N + _PANEL_F4 - 1) // _PANEL_F4
    return min(N, panels * part // parts * _PANEL_F4), min(N, panels * (part + 1) // parts * _PANEL_F4)


@kernel
def product(part, parts, A, a_col, B, C, c_col, K, N, segments, accumulate):  # type: ignore[no-untyped-def]
    """C[r, c_col:c_col+N] (+)= A[r, a_col:a_col+K] @ B for the rows r in `segments`; B packed,
    other rows untouched."""
    width = PANEL_BYTES // A.itemsize
    panels = (N + width - 1) // width
    total = segments[:, 1].sum()
    low, high, first_panel, last_panel = 0, total, 0, panels
    if by_panels(panels, parts) or total < 8 * _MAX_ROWS * parts:
        first_panel, last_panel = panels * part // parts, panels * (part + 1) // parts
    else:
        low, high = total * part // parts, total * (part + 1) // parts
    pieces = share(segments, low, high, _ROW_BLOCK)
    lda, ldc = A.shape[1], C.shape[1]
    begin = 0
    while begin < len(pieces):
        end, rows = begin, 0
        while end < len(pieces) and (end == begin or rows + pieces[end, 1] <= _ROW_BLOCK):
            rows += pieces[end, 1]
            end += 1
        for p in range(first_panel, last_panel):
            panel, columns = address(B, p * K * width), min(width, N - p * width)
            for i in range(begin, end):
                a = address(A, pieces[i, 0] * lda + a_col)
                c = address(C, pieces[i, 0] * ldc + c_col + p * width)
                _rows(A, a, lda, panel, c, ldc, pieces[i, 1], columns, K, accumulate)
        begin = end


@kernel
def sum_rows(part, parts, G, g_col, N, segments, out, accumulate):  # type: ignore[no-untyped-def]
    """out[N] (+)= the sum of G[r, g_col:g_col+N] over the rows r in `segments`."""
    low, high = N * part // parts, N * (part + 1) // parts
    target = out[low:high]
    if not accumulate:
        target[:] = 0
    pieces = share(segments, 0, segments[:, 1].sum(), 64)
    block = np.empty(high - low, out.dtype)
    # Blocks of rows first: the rounding error of the sum then grows with the blocks, not with the
    # rows.
    for p in range(len(pieces)):
        block[:] = 0
        for r in range(pieces[p, 0], pieces[p, 0] + pieces[p, 1]):
            row = G[r, g_col + low : g_col + high]
            for j in range(high - low):
                block[j] += row[j]
        for j in range(high - low):
            target[j] += block[j]
