"""Gathering rows: embedding lookup and its gradient, rows selected by an index."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numba import cuda, float32, float64, int32, int64

from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel
from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime
from nmt.rnn.kernels.cuda.rows.row_functions import THREADS, row_threads

NUMBERS: dict[np.dtype, Any] = {np.dtype(np.float32): float32, np.dtype(np.float64): float64}
"""Numba's type of the numbers in an array."""

_GRID = 2048
"""Blocks of a loop over all numbers: enough for any GPU, and few enough that each has something to do."""

_COLUMNS, _LANES, _FEW_LANES = 32, 16, 2
"""Shape of a block that sums over rows: adjacent columns, and rows at a time where there are many, or few."""


def blocks_for(kernel: GPUKernel, size: int, most: int = _GRID) -> int:
    """Return how many blocks of threads share `size` numbers."""
    return max(1, min(most, -(-size // kernel.block_threads)))


@lru_cache
def embedding_rows_kernel(dtype: np.dtype, threads: int = THREADS) -> GPUKernel:
    """Return a kernel: out[i] = table[ids[i]] * scale; ids [N], table [V, E], out [N, E]."""
    number = NUMBERS[dtype]

    def embedding_rows(ids, table, out, scale, size, E):  # type: ignore[no-untyped-def]
        for i in range(int64(cuda.grid(1)), size, int64(cuda.gridsize(1))):
            row = i // E
            out[i] = table[int64(ids[row]) * E + i - row * E] * scale

    return GPUKernel(
        embedding_rows, (int32[::1], number[::1], number[::1], number, int64, int64), threads, registers=40
    )


@lru_cache
def embedding_gradient_kernel(dtype: np.dtype, lanes: int = _LANES) -> GPUKernel:
    """Return a kernel: table[ids[u]] += scale * (sum of d[order[i]] for i from starts[u] to starts[u + 1]). A block
    computes one word and _COLUMNS columns."""
    number, tile = NUMBERS[dtype], _COLUMNS * lanes

    def embedding_gradient(ids, starts, order, d, table, scale, E):  # type: ignore[no-untyped-def]
        partial = cuda.shared.array(tile, number)
        lane = cuda.threadIdx.y
        column = int64(cuda.blockIdx.y) * _COLUMNS + cuda.threadIdx.x
        word = cuda.blockIdx.x
        total = number(0)
        low, high = int64(starts[word]), int64(starts[word + 1])
        if column < E:
            for i in range(low + lane, high, lanes):
                total += d[int64(order[i]) * E + column]
        partial[lane * _COLUMNS + cuda.threadIdx.x] = total
        cuda.syncthreads()
        if lane == 0 and column < E and low < high:  # there may be fewer words than blocks
            for other in range(1, lanes):
                total += partial[other * _COLUMNS + cuda.threadIdx.x]
            table[int64(ids[word]) * E + column] += total * scale

    signature = (int32[::1], int32[::1], int32[::1], number[::1], number[::1], number, int64)
    return GPUKernel(embedding_gradient, signature, (_COLUMNS, lanes), registers=48)


@lru_cache
def take_rows_kernel(dtype: np.dtype, threads: int = THREADS) -> GPUKernel:
    """Return a kernel: out[o, r] = x[o, index[r]], zero where index[r] is negative. x [outer, before, width], out
    [outer, rows, width]."""
    number = NUMBERS[dtype]

    def take_rows(x, index, out, outer, before, rows, width):  # type: ignore[no-untyped-def]
        for i in range(int64(cuda.grid(1)), outer * rows * width, int64(cuda.gridsize(1))):
            flat = i // width
            o = flat // rows
            source = int64(index[flat - o * rows])
            if source < 0:
                out[i] = number(0)
            else:
                out[i] = x[(o * before + source) * width + i - flat * width]

    signature = (number[::1], int64[::1], number[::1], int64, int64, int64, int64)
    return GPUKernel(take_rows, signature, threads, registers=48)


def embedding_rows(runtime: CupyRuntime, ids: Any, table: Any, out: Any, scale: float) -> None:
    """Compute out[i] = table[ids[i]] * scale; ids int32 [N], table [V, E], out [N, E]."""
    size, E = out.size, table.shape[1]
    if size:
        kernel = embedding_rows_kernel(table.dtype, row_threads(size))
        runtime.launch(kernel, blocks_for(kernel, size), ids, table, out, scale, size, E)


def sorted_words(ids: np.ndarray, rows: int) -> np.ndarray:
    """Return for the sum over equal ids, int32 [N], of a table with so many rows: the distinct ids, the first place of
    each and the end [N + 1], and the order of the ids; int32 [3 N + 1]. Words that do not exist begin at the end."""
    N = len(ids)
    # NumPy sorts numbers of 16 bits in a time that grows only with their count.
    order = np.argsort(ids.astype(np.uint16) if rows <= 1 << 16 else ids, kind="stable")
    in_order = ids[order]
    first = np.ones(N, bool)
    np.not_equal(in_order[1:], in_order[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    words = len(starts)
    found = np.zeros(3 * N + 1, np.int32)
    found[:words] = in_order[starts]
    found[N : N + words], found[N + words : 2 * N + 1] = starts, N
    found[2 * N + 1 :] = order
    return found


def embedding_gradient(runtime: CupyRuntime, words: Any, count: int, d: Any, table: Any, scale: float) -> None:
    """Add d[i] * scale to table[ids[i]]; words of these ids [N] by `sorted_words` on the GPU, `count` of them at most,
    d [N, E] and table [V, E]. Each row of the table has one writer, and the order of its sum is fixed."""
    N, E = len(d), table.shape[1]
    if N:
        kernel = embedding_gradient_kernel(table.dtype, _LANES if N > 2 * _COLUMNS else _FEW_LANES)
        parts = words[:N], words[N : 2 * N + 1], words[2 * N + 1 :]
        runtime.launch(kernel, (min(count, N), -(-E // _COLUMNS)), *parts, d, table, scale, E)


def take_rows(runtime: CupyRuntime, x: Any, index: Any, out: Any) -> None:
    """Set out[..., r, :] to x[..., index[r], :], or zero if the index is negative; index int64 [rows] on the device."""
    *outer, rows, width = out.shape
    size = out.size
    if size:
        kernel = take_rows_kernel(x.dtype, row_threads(size))
        runtime.launch(kernel, blocks_for(kernel, size), x, index, out, prod(outer), x.shape[-2], rows, width)
