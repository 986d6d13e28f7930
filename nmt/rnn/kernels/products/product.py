"""Matrix products with packed weights, and weight gradients.

Arrays are C-contiguous, and float32 or float64, the same in one call. A weight packed in pairs of bfloat16 (uint32, see
bfloat16.py) or in quads of int8 (int32, see int8.py) multiplies float32 rows, which are rounded first; results are
float32. `segments` is int64 [n, 2]: the start row and the number of rows of each run of rows that takes part. Functions
with (part, parts, ...) do one thread's share: see pool.run_parallel. Results, including weight gradients, have the same
bits for any number of parts and any division into segments.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import external_by_elements, kernel, task
from nmt.rnn.kernels.machine_code.recipes import family
from nmt.rnn.kernels.memory.arrays import array_at, by_panels, release, rows_in, scratch, share
from nmt.rnn.kernels.memory.moves import address
from nmt.rnn.kernels.products.bfloat16 import holds_pairs, pair_words, to_pairs
from nmt.rnn.kernels.products.int8 import TAIL, holds_quads, to_quads
from nmt.rnn.kernels.products.microkernel import PAIR_BLOCK, PRODUCT_ROWS, ROW_BLOCK
from nmt.rnn.kernels.products.packing import PANEL_BYTES
from nmt.rnn.kernels.threads.pool import Words, given_array, numbers_of, run_team, start_of

_MAX_ROWS = TARGET.max_rows

# rows_product(packed, a, lda, b, c, ldc, M, N, K, accumulate): the product_rows for the element type of `packed`; b is
# an address in it.
rows_product = external_by_elements("rows_product", PRODUCT_ROWS)
# round_rows(packed, a, lda, M, K, out): round M rows of K float32 at address `a` to pairs or quads, whichever `packed`
# has; for other element types do nothing.
_ROUNDED = {"uint32": to_pairs, "int32": to_quads}
round_rows = external_by_elements("round_rows", _ROUNDED, optional=True)


@kernel
def product(part, parts, A, a_col, B, C, c_col, K, N, segments, accumulate):  # type: ignore[no-untyped-def]
    """Compute C[r, c_col:c_col+N] (+)= A[r, a_col:a_col+K] @ B, B packed, for the rows r in `segments` alone."""
    width = PANEL_BYTES // A.itemsize
    panels = (N + width - 1) // width
    total = rows_in(segments)
    low, high, first_panel, last_panel = 0, total, 0, panels
    if by_panels(panels, parts) or total < 8 * _MAX_ROWS * parts:
        first_panel, last_panel = panels * part // parts, panels * (part + 1) // parts
    else:
        low, high = total * part // parts, total * (part + 1) // parts
    pieces, count = share(segments, low, high, ROW_BLOCK)
    lda, ldc = A.shape[1], C.shape[1]
    rounding = holds_pairs(B) or holds_quads(B)
    steps = pair_words(K) if holds_pairs(B) else (K + 3) // 4 + TAIL if holds_quads(B) else K
    block = max(1, min(steps, PAIR_BLOCK) if holds_pairs(B) else steps)
    rounded = scratch(ROW_BLOCK * block if rounding else 0, np.uint32)
    begin = 0
    while begin < count:
        end, rows = begin, 0
        while end < count and (end == begin or rows + pieces[end, 1] <= ROW_BLOCK):
            rows += pieces[end, 1]
            end += 1
        for k0 in range(0, max(1, steps), block):
            words = min(block, steps - k0)
            if rounding:
                at, numbers = 0, min(K - 2 * k0, 2 * words) if holds_pairs(B) else K
                for i in range(begin, end):
                    source = address(A, pieces[i, 0] * lda + a_col + 2 * k0)
                    round_rows(B, source, lda, pieces[i, 1], numbers, address(rounded, at * words))
                    at += pieces[i, 1]
            # One panel for all pieces while it is in the cache; for one piece all panels, if they are adjacent.
            together = max(1, last_panel - first_panel) if end == begin + 1 and words == steps else 1
            for p in range(first_panel, last_panel, together):
                panel, columns = address(B, (p * steps + k0) * width), min(together * width, N - p * width)
                at = 0
                for i in range(begin, end):
                    a, stride = address(A, pieces[i, 0] * lda + a_col), lda
                    if rounding:
                        a, stride = address(rounded, at * words), words
                        at += pieces[i, 1]
                    c = address(C, pieces[i, 0] * ldc + c_col + p * width)
                    rows_product(B, a, stride, panel, c, ldc, pieces[i, 1], columns, words, 1 if k0 else accumulate)
        begin = end
    release(rounded)
    release(pieces)


@family
def product_task(number: np.dtype, packed: np.dtype) -> Any:
    """Return the task of `product` for arrays of `number` and a weight packed as `packed`. Its table: first column and
    number of columns of A, then of C; K, N, number of segments, accumulate; A, B, C, segments."""
    X, W = number.type, packed.type

    def product_of_table(part, parts, table):  # type: ignore[no-untyped-def]
        given = array_at(numbers_of(table), 8, np.int64)
        a_col, lda, c_col, ldc = given[0], given[1], given[2], given[3]
        K, N, count, accumulate = given[4], given[5], given[6], given[7]
        A, B = array_at(given_array(table, 8), (1, lda), X), array_at(given_array(table, 9), 1, W)
        C = array_at(given_array(table, 10), (1, ldc), X)
        segments = array_at(given_array(table, 11), (count, 2), np.int64)
        product(part, parts, A, a_col, B, C, c_col, K, N, segments, accumulate)

    return task(product_of_table)


def run_product(parts: int, table: Words[int], operands: tuple[np.ndarray, ...]) -> None:
    """Run all parts of a product of the operands A, B, C and segments on a team, which starts sooner than threads that
    have to be woken."""
    A, B, *_ = operands
    run_team(product_task(A.dtype, B.dtype).address, parts, start_of(table), (table, operands))


@kernel
def sum_rows(part, parts, G, g_col, N, segments, out, accumulate):  # type: ignore[no-untyped-def]
    """Compute out[N] (+)= the sum of G[r, g_col:g_col+N] over the rows r in `segments`."""
    low, high = N * part // parts, N * (part + 1) // parts
    target = out[low:high]
    if not accumulate:
        target[:] = 0
    pieces, count = share(segments, 0, rows_in(segments), 64)
    block = scratch(high - low, out.dtype)
    # Sum blocks of rows first: the rounding error then grows with the number of blocks, not of
    # rows.
    for p in range(count):
        block[:] = 0
        for r in range(pieces[p, 0], pieces[p, 0] + pieces[p, 1]):
            row = G[r, g_col + low : g_col + high]
            for j in range(high - low):
                block[j] += row[j]
        for j in range(high - low):
            target[j] += block[j]
    release(block)
    release(pieces)
