"""Kernels over rows of arrays that are the same for every cell: rounding, gathering, sums, zeroing, dropout.

A matrix is given flat, with its first element, the row stride and the number of columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda, float32, float64, int64, uint16, uint32, uint64

from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel, device_function
from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime
from nmt.rnn.kernels.search import search_rules

Maker = Callable[[np.dtype, int], GPUKernel]
_I, _INDEX, _BITS, _HALVES = int64, int64[::1], uint32[::1], uint16[::1]
_THREADS, _FEW = 256, 32
_GRID = 4096
"""Maximum number of blocks; with more work each thread processes several numbers."""

SUM_ROWS = 64
"""Rows that one thread sums before the sums of all threads are added."""


def threads_for(count: int) -> int:
    """Return the block size for work on `count` numbers: small for few numbers, which tests without a GPU have."""
    return _FEW if count <= _FEW else _THREADS


def launch(runtime: CupyRuntime, make: Maker, dtype: np.dtype, count: int, *arguments: Any) -> None:
    """Launch a kernel with a thread for each of `count` numbers."""
    if count:
        kernel = make(dtype, threads_for(count))
        runtime.launch(kernel, min(_GRID, -(-count // kernel.block_threads)), *arguments)


_NUMBER, _NUMBERS = object(), object()
"""In a signature: a number of the dtype that a kernel is made for, and an array of them."""

_makers: list[Maker] = []


def _kernel(*signature: Any) -> Callable[[Callable[..., None]], Maker]:
    """Return a decorator that makes of a function what returns its kernel for a dtype and the threads of a block."""

    def decorate(function: Callable[..., None]) -> Maker:
        @lru_cache
        def make(dtype: np.dtype, threads: int) -> GPUKernel:
            number: Any = {4: float32, 8: float64, 2: uint16}[dtype.itemsize]
            kinds = {_NUMBER: number, _NUMBERS: number[::1]}
            return GPUKernel(function, tuple(kinds.get(kind, kind) for kind in signature), threads)

        _makers.append(make)
        return make

    return decorate


# ---------------------------------------------------------------- bfloat16


@device_function
def _upper_half(bits):  # type: ignore[no-untyped-def]
    """Convert the bits of a float32 to those of the nearest bfloat16, ties to even. Subnormal numbers become zero, NaN
    stays (kernels/products/bfloat16.py)."""
    half = bits >> uint32(16)
    magnitude = bits & uint32(0x7FFFFFFF)
    if magnitude > uint32(0x7F800000):
        return half | uint32(0x40)
    if magnitude < uint32(0x00800000):
        return half & uint32(0x8000)
    return (bits + uint32(0x7FFF) + (half & uint32(1))) >> uint32(16)


@_kernel(_BITS, _I, _I, _I, _I, _HALVES)
def round_rows(source, start, stride, columns, count, out):  # type: ignore[no-untyped-def]
    """Set out [count, columns] to a matrix of float32, given as bits, rounded to bfloat16."""
    for i in range(cuda.grid(1), count * columns, cuda.gridsize(1)):
        row = i // columns
        out[i] = _upper_half(source[start + row * stride + i - row * columns])


@_kernel(_BITS, _I, _I, _I, _I, _INDEX, _HALVES)
def round_gathered(source, start, stride, columns, count, index, out):  # type: ignore[no-untyped-def]
    """Do the same for the rows in `index`, zero where that is negative."""
    for i in range(cuda.grid(1), count * columns, cuda.gridsize(1)):
        row = i // columns
        if index[row] < 0:
            out[i] = 0
        else:
            out[i] = _upper_half(source[start + index[row] * stride + i - row * columns])


# ---------------------------------------------------------------- active rows


@_kernel(_NUMBERS, _I, _I, _I, _I, _INDEX, _NUMBERS)
def gather(source, start, stride, columns, count, index, out):  # type: ignore[no-untyped-def]
    """Set out [count, columns] to the rows in `index` of a matrix, zero where that is negative."""
    for i in range(cuda.grid(1), count * columns, cuda.gridsize(1)):
        row = i // columns
        if index[row] < 0:
            out[i] = 0
        else:
            out[i] = source[start + index[row] * stride + i - row * columns]


@_kernel(_NUMBERS, _I, _I, _I, _I, _INDEX, _NUMBERS)
def scatter(source, start, stride, columns, count, index, out):  # type: ignore[no-untyped-def]
    """Set the rows in `index` of a matrix to source [count, columns]; a negative one is none."""
    for i in range(cuda.grid(1), count * columns, cuda.gridsize(1)):
        row = i // columns
        if index[row] >= 0:
            out[start + index[row] * stride + i - row * columns] = source[i]


@_kernel(_NUMBERS, _I, _I, _I, _I, _INDEX, _I)
def keep_rows(array, old, B, width, t, lengths, count):  # type: ignore[no-untyped-def]
    """Copy in [2, B, width] those of the first `count` rows that do not run step t from slot `old` to the other."""
    for i in range(cuda.grid(1), count * width, cuda.gridsize(1)):
        if lengths[i // width] <= t:
            array[(1 - old) * B * width + i] = array[old * B * width + i]


@_kernel(_NUMBERS, _I, _I, _I, _INDEX, _I)
def clear_ended(array, steps, B, width, lengths, low):  # type: ignore[no-untyped-def]
    """Zero each row of [steps, B, width] from its length on; the first step is number `low`."""
    for i in range(cuda.grid(1), steps * B * width, cuda.gridsize(1)):
        row = i // width
        t = row // B
        if lengths[row - t * B] <= low + t:
            array[i] = 0


@_kernel(_INDEX, _I, _I, _INDEX, _I)
def active_rows(out, steps, B, lengths, low):  # type: ignore[no-untyped-def]
    """Set out [steps, B] to the number of each row among those of all steps, or -1 where it has ended."""
    for i in range(cuda.grid(1), steps * B, cuda.gridsize(1)):
        out[i] = i if low + i // B < lengths[i % B] else -1


@_kernel(_NUMBERS, _I, _I, _I, _INDEX, _I, _I, _I, _NUMBERS)
def take_slots(stack, slots, B, width, lengths, first, times, most, out):  # type: ignore[no-untyped-def]
    """Set out [B, width] to a slot of each row of a stack [slots, B, width], which `device.Slot` describes."""
    for i in range(cuda.grid(1), B * width, cuda.gridsize(1)):
        slot = first + times * min(lengths[i // width], most)
        if slots == 2:
            slot &= 1
        out[i] = stack[slot * B * width + i]


@_kernel(_NUMBERS, _I, _I, _INDEX, _I, _NUMBERS)
def put_slots(stack, B, width, lengths, at_end, given):  # type: ignore[no-untyped-def]
    """Set these slots to `given` [B, width]."""
    for i in range(cuda.grid(1), B * width, cuda.gridsize(1)):
        stack[lengths[i // width] * at_end * B * width + i] = given[i]


@_kernel(_NUMBERS, _I, _I, _I, _INDEX, _I, _NUMBERS, _I, _NUMBER)
def begin_stack(array, slots, B, width, lengths, reverse, start, given, zero):  # type: ignore[no-untyped-def]
    """Write to each row of [slots, B, width] its initial state, `start` [B, width] or zero, at slot 0, and zeros to the
    slots after its length; with `reverse` at the slot of its length, and to those from there on."""
    for i in range(cuda.grid(1), slots * B * width, cuda.gridsize(1)):
        row = i // width
        slot = row // B
        row -= slot * B
        if slot == lengths[row] * reverse:
            array[i] = start[i - slot * B * width] if given != 0 else zero
        elif slot > lengths[row]:
            array[i] = zero


# ---------------------------------------------------------------- sums over rows


@_kernel(_NUMBERS, _I, _I, _I, _I, _I, _NUMBER, _NUMBERS)
def sum_columns(source, start, stride, columns, count, chunk, zero, out):  # type: ignore[no-untyped-def]
    """Set out [chunks, columns] to the sums of `chunk` rows each; the grid is (columns, chunks)."""
    j = cuda.grid(1)
    if j < columns:
        first = cuda.blockIdx.y * chunk
        total = zero
        for row in range(first, min(first + chunk, count)):
            total += source[start + row * stride + j]
        out[cuda.blockIdx.y * columns + j] = total


@_kernel(_NUMBERS, _I, _I, _I, _I, _I, _NUMBER, _INDEX, _NUMBERS)
def sum_gathered(source, start, stride, columns, count, chunk, zero, index, out):  # type: ignore[no-untyped-def]
    """Do the same for the rows in `index`, without negative ones."""
    j = cuda.grid(1)
    if j < columns:
        first = cuda.blockIdx.y * chunk
        total = zero
        for row in range(first, min(first + chunk, count)):
            if index[row] >= 0:
                total += source[start + index[row] * stride + j]
        out[cuda.blockIdx.y * columns + j] = total


@_kernel(_NUMBERS, _I, _I, _NUMBERS)
def add_columns(parts, columns, count, out):  # type: ignore[no-untyped-def]
    """Add to out [columns] the sum of the rows of parts [count, columns], the first row first."""
    j = cuda.grid(1)
    if j < columns:
        total = parts[j]
        for row in range(1, count):
            total += parts[row * columns + j]
        out[j] += total


# ---------------------------------------------------------------- element by element


@_kernel(_NUMBERS, _I, _NUMBERS, _I)
def repeat(out, count, given, size):  # type: ignore[no-untyped-def]
    """Set `out` to the `size` numbers given, as often as it holds them."""
    for i in range(cuda.grid(1), count, cuda.gridsize(1)):
        out[i] = given[i % size]


@_kernel(_NUMBERS, _I, _NUMBERS, _I)
def add_repeated(out, count, given, size):  # type: ignore[no-untyped-def]
    """Add them to `out`."""
    for i in range(cuda.grid(1), count, cuda.gridsize(1)):
        out[i] += given[i % size]


@_kernel(_NUMBERS, _I, _NUMBERS, _I, _NUMBERS)
def times_repeated(out, count, given, size, x):  # type: ignore[no-untyped-def]
    """Set `out` to x times them."""
    for i in range(cuda.grid(1), count, cuda.gridsize(1)):
        out[i] = x[i] * given[i % size]


@_kernel(_BITS, _I)
def clear_words(words, count):  # type: ignore[no-untyped-def]
    """Zero words of 32 bits."""
    for i in range(cuda.grid(1), count, cuda.gridsize(1)):
        words[i] = 0


# ---------------------------------------------------------------- dropout

_GAMMA, _S32 = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
_mix = device_function(search_rules.mix)


@_kernel(_NUMBERS, _I, _NUMBER, _NUMBER, uint64, uint64[::1], uint64, uint64, uint64)
def dropout_mask(out, count, kept, dropped, threshold, seeds, factor, more, offset):  # type: ignore[no-untyped-def]
    """Do what `update.dropout_mask` does, with prepared numbers: kept, dropped, and the threshold of 32 bits; the seed
    is `factor` times the one given plus `more`."""
    start = _mix(seeds[0] * factor + more) + offset * _GAMMA - _GAMMA
    for i in range(cuda.grid(1), count, cuda.gridsize(1)):
        bits = _mix(start + uint64(i) * _GAMMA) >> _S32
        out[i] = kept if bits < threshold else dropped
