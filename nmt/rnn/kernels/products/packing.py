"""Pack weights for the register tiles: [panels, K, P], the columns in panels of P = TARGET.panel_width(dtype).

The last panel is padded with zeros, so that the tiles can always read whole vectors. Parts divide the panels. In
bfloat16 an element is a pair along K, a uint32 (see bfloat16.py); an odd last row is paired with zeros, and rows of
zeros follow up to a multiple of the pairs that products take at a time. In int8 an element is a quad, an int32, and a
panel ends with the start values and the scales of its columns (see int8.py).

`packed_weight` packs a parameter when it is first used, and again after a change.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from nmt.rnn.arrays.device_operations import OutputLayer
from nmt.rnn.arrays.weights import QUADS, Again, Packed, Weights, quantise
from nmt.rnn.arrays.workspace import aligned
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import inner_kernel, kernel
from nmt.rnn.kernels.machine_code.native import Kernel, KernelCall
from nmt.rnn.kernels.memory.arrays import array_at, clear, release, scratch
from nmt.rnn.kernels.memory.moves import address, copy_panel_row, transpose_f4, transpose_f8
from nmt.rnn.kernels.products import four_bits
from nmt.rnn.kernels.products.bfloat16 import PAIR_LANES, pair_block, pair_columns, pair_rows, pair_words
from nmt.rnn.kernels.products.int8 import OFFSET, TAIL, quad_words
from nmt.rnn.kernels.threads.pool import host, run_calls, run_parallel

PANEL_BYTES = TARGET.panel_width(np.float32) * 4
_VECTORS = TARGET.vectors
_PANELS_AT_A_TIME = 8


def words_of(K: int, dtype: DTypeLike) -> int:
    """Return the number of elements of a row of K numbers in a product, which is also the number of rows of a panel.
    `dtype` is that of packed weights: uint32 for pairs of bfloat16, int32 for quads of int8."""
    dtype = np.dtype(dtype)
    return int(pair_words(K)) if dtype == np.uint32 else quad_words(K) if dtype == np.int32 else K


def packed_size(K: int, N: int, dtype: DTypeLike) -> int:
    """Return the number of elements of a packed K x N matrix; `dtype` as in `words_of`."""
    width = TARGET.panel_width(dtype)
    return -(-N // width) * width * words_of(K, dtype)


@kernel
def pack(part, parts, weights, row0, row1, out):  # type: ignore[no-untyped-def]
    """Pack weights[row0:row1, :] of shape [K, N] into the flat `out` of packed_size(K, N)."""
    N = weights.shape[1]
    K = row1 - row0
    width = PANEL_BYTES // out.itemsize
    full, panels = N // width, (N + width - 1) // width
    first, last = panels * part // parts, panels * (part + 1) // parts
    # Several panels at a time, so that each read covers a longer part of a row.
    for p0 in range(first, min(last, full), _PANELS_AT_A_TIME):
        p1 = min(p0 + _PANELS_AT_A_TIME, last, full)
        for k in range(K):
            for p in range(p0, p1):
                copy_panel_row(address(out, (p * K + k) * width), address(weights, (row0 + k) * N + p * width))
    if last > full:
        columns = N - full * width
        for k in range(K):
            target = out[(full * K + k) * width : (full * K + k + 1) * width]
            row = weights[row0 + k, full * width :]
            # A loop: for an assignment between arrays Numba would also compile an error message about their shapes.
            for j in range(columns):
                target[j] = row[j]
            target[columns:] = 0


@inner_kernel
def _transpose_block(out, at, stride, weights, source):  # type: ignore[no-untyped-def]
    if out.itemsize == 4:
        transpose_f4(address(out, at), stride, address(weights, source), weights.shape[1])
    else:
        transpose_f8(address(out, at), stride, address(weights, source), weights.shape[1])


@kernel
def pack_transposed(part, parts, weights, row0, row1, out):  # type: ignore[no-untyped-def]
    """Pack the transpose of weights[row0:row1, :]: K = weights.shape[1], N = row1 - row0."""
    K = weights.shape[1]
    N = row1 - row0
    width = PANEL_BYTES // out.itemsize
    lanes = width // _VECTORS
    panels = (N + width - 1) // width
    for p in range(panels * part // parts, panels * (part + 1) // parts):
        columns, start = min(width, N - p * width), row0 + p * width
        in_blocks = K // lanes * lanes if columns == width else 0
        for k in range(0, in_blocks, lanes):
            for j in range(0, width, lanes):
                _transpose_block(out, (p * K + k) * width + j, width, weights, (start + j) * K + k)
        for k in range(in_blocks, K):
            target = out[(p * K + k) * width : (p * K + k + 1) * width]
            for j in range(columns):
                target[j] = weights[start + j, k]
            target[columns:] = 0


@kernel
def pack_bf16(part, parts, weights, row0, row1, out):  # type: ignore[no-untyped-def]
    """Pack float32 weights like `pack`, in pairs of bfloat16."""
    K, N = row1 - row0, weights.shape[1]
    width, half, words = PANEL_BYTES // 4, (K + 1) // 2, pair_words(K)
    panels = (N + width - 1) // width
    first, last = panels * part // parts, panels * (part + 1) // parts
    nothing = scratch(width, weights.dtype)
    clear(nothing)
    for p0 in range(first, last, _PANELS_AT_A_TIME):
        p1 = min(p0 + _PANELS_AT_A_TIME, last)
        for k in range(half):
            row = row0 + 2 * k
            for p in range(p0, p1):
                columns, at = min(width, N - p * width), (p * words + k) * width
                later = address(weights, (row + 1) * N + p * width) if row + 1 < row1 else address(nothing, 0)
                pair_rows(address(out, at), address(weights, row * N + p * width), later, columns)
                out[at + columns : at + width] = 0
        for p in range(p0, p1):
            out[(p * words + half) * width : (p + 1) * words * width] = 0
    release(nothing)


@kernel
def pack_transposed_bf16(part, parts, weights, row0, row1, out):  # type: ignore[no-untyped-def]
    """Pack float32 weights like `pack_transposed`, in pairs of bfloat16."""
    K, N = weights.shape[1], row1 - row0
    width, half, words = PANEL_BYTES // 4, (K + 1) // 2, pair_words(K)
    panels = (N + width - 1) // width
    row = scratch(half, np.uint32)
    for p in range(panels * part // parts, panels * (part + 1) // parts):
        columns, start, at = min(width, N - p * width), row0 + p * width, p * words * width
        in_blocks = K // (2 * PAIR_LANES) * PAIR_LANES if columns == width else 0
        for k in range(0, in_blocks, PAIR_LANES):
            for j in range(0, width, PAIR_LANES):
                source = address(weights, (start + j) * K + 2 * k)
                pair_block(address(out, at + k * width + j), width, source, K)
        for j in range(columns):
            pair_columns(address(row, 0), address(weights, (start + j) * K + 2 * in_blocks), K - 2 * in_blocks)
            for k in range(in_blocks, half):
                out[at + k * width + j] = row[k - in_blocks]
        for k in range(in_blocks, half):
            out[at + k * width + columns : at + (k + 1) * width] = 0
        out[at + half * width : at + words * width] = 0
    release(row)


@inner_kernel
def _finish_panel(out, at, scales, sums, columns):  # type: ignore[no-untyped-def]
    """Write the tail of a panel: the start values and scales of its columns."""
    width = PANEL_BYTES // 4
    floats = array_at(address(out, 0), out.shape[0], np.float32)
    out[at : at + TAIL * width] = 0
    for j in range(columns):
        out[at + j] = -OFFSET * sums[j]
        floats[at + width + j] = scales[j]


@kernel
def pack_int8(part, parts, numbers, scales, row0, row1, out):  # type: ignore[no-untyped-def]
    """Pack numbers int8 [K, N] like `pack`, with the scales [N] of their columns."""
    K, N = row1 - row0, numbers.shape[1]
    width, quads = PANEL_BYTES // 4, (K + 3) // 4
    panels = (N + width - 1) // width
    sums = scratch(width, np.int32)
    for p in range(panels * part // parts, panels * (part + 1) // parts):
        columns, at = min(width, N - p * width), p * (quads + TAIL) * width
        panel = array_at(address(out, at), (quads, width), np.int32)
        panel[:] = 0
        sums[:] = 0
        for k in range(K):
            row, words = numbers[row0 + k, p * width : p * width + columns], panel[k // 4]
            shift = k % 4 * 8
            for j in range(columns):
                words[j] |= (row[j] & 0xFF) << shift
                sums[j] += row[j]
        _finish_panel(out, at + quads * width, scales[p * width :], sums, columns)
    release(sums)


@kernel
def pack_transposed_int8(part, parts, numbers, scales, row0, row1, out):  # type: ignore[no-untyped-def]
    """Pack numbers int8 like `pack_transposed`, with the scales of their rows."""
    K, N = numbers.shape[1], row1 - row0
    width, quads = PANEL_BYTES // 4, (K + 3) // 4
    panels = (N + width - 1) // width
    sums = scratch(width, np.int32)
    for p in range(panels * part // parts, panels * (part + 1) // parts):
        columns, start, at = min(width, N - p * width), row0 + p * width, p * (quads + TAIL) * width
        out[at : at + quads * width] = 0
        for j in range(columns):
            row, total = numbers[start + j], 0
            for k in range(K):
                out[at + k // 4 * width + j] |= (row[k] & 0xFF) << k % 4 * 8
                total += row[k]
            sums[j] = total
        _finish_panel(out, at + quads * width, scales[start:], sums, columns)
    release(sums)


PACKING: dict[tuple[np.dtype, bool], Kernel] = {
    (np.dtype(kind), transposed): kernel
    for kind, plain, turned in (
        ("float32", pack, pack_transposed),
        ("float64", pack, pack_transposed),
        ("uint32", pack_bf16, pack_transposed_bf16),
        ("int32", pack_int8, pack_transposed_int8),
    )
    for transposed, kernel in ((False, plain), (True, turned))
}
"""By the dtype of packed weights, and whether the transpose is packed."""


def packed_weight(
    weights: Weights, name: str, start: int, rows: int, transposed: bool, *, dtype: np.dtype, threads: int = 1
) -> Packed:
    """Return rows [start, start + rows) of a matrix, or their transpose, packed for the products. dtype: of the
    elements, see `weights.packed_dtype`. The result is cached with the weights."""
    form = start, rows, transposed, dtype
    ready = weights.ready(name, form)
    if ready is not None:
        return ready

    def make(out: Packed | None) -> Packed:
        columns = weights.shape(name)[1]
        K, N = (columns, rows) if transposed else (rows, columns)
        source: tuple[np.ndarray, ...]
        if dtype == QUADS:
            held = weights.quantised(name)
            if held is None or held.by_rows != transposed:
                held = quantise(weights[name], by_rows=transposed)
            source = held.numbers, held.scales
        else:
            source = (weights[name],)
        size = packed_size(K, N, dtype)
        in_4_bits = dtype == QUADS and four_bits.fits(source[0], start, start + rows, transposed)
        if in_4_bits:
            size += four_bits.size_of_4_bits(K, N)
        out = aligned((size,), dtype) if out is None or out.size != size else out
        run_parallel(packing, threads, *source, start, start + rows, out)
        if in_4_bits:
            more = source[0], start, start + rows, transposed, out
            run_parallel(four_bits.pack_4_bits, threads, *more)
        return host(out)  # before another thread may read it

    def job(out: Packed) -> KernelCall:
        return packing.with_arguments((weights[name], start, start + rows, out))

    def run(calls: list[KernelCall]) -> None:
        run_calls(threads, calls)
        host(calls)

    packing = PACKING[dtype, transposed]
    again = Again(job, run) if dtype != QUADS and weights.quantised(name) is None else None
    return weights.derived(name, form, make, again)


def packed_output(layer: OutputLayer, threads: int, *, transposed: bool = False) -> Packed:
    """Return the matrix [H, V] of an output layer, or its transpose, packed for the products."""
    rows = layer.weights.shape(layer.matrix)[0]
    as_transposed = layer.tied != transposed
    return packed_weight(layer.weights, layer.matrix, 0, rows, as_transposed, threads=threads, dtype=layer.packed)
