"""Functions of kernels: activations of generated ones; sums and maxima over a block of threads by trees of a fixed
shape, so that results are reproducible.

Threads of a block are numbered along x; a warp is 32 adjacent threads.
"""

from __future__ import annotations

import math
from typing import Any

from numba import cuda

from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import device_function

THREADS = 256
"""The maximum threads of a block that works on one row, and the threads of one that works on single numbers."""

WARPS = THREADS // 32

_REGISTERS = 65536
"""Registers of a multiprocessor."""

_SHORT_ROW = 1024

_ALL_LANES = 0xFFFFFFFF


def row_threads(size: int) -> int:
    """Return the threads of a block for `size` numbers; for a short row one warp, which needs no barrier."""
    return 32 if size <= _SHORT_ROW else THREADS


def registers_for(blocks: int) -> int:
    """Return the registers a thread may use for `blocks` blocks of THREADS to fit on a multiprocessor at once.

    Eight fill it (2,048 threads). Loops over numbers wait for memory, and bytes in flight hide that wait: six blocks
    suffice where a thread loads two or three float32 numbers at a time, and are the maximum for GPUs of 8.6 and 8.9;
    five where it loads four, and four where exponentials keep it busy as well. float64 numbers are twice as long and
    take two registers each, so fewer blocks have as many bytes in flight. Two are enough where a block is a row of a
    search: there are only a few hundred.
    """
    return _REGISTERS // (THREADS * blocks) // 8 * 8


@device_function
def block_first_max(value, index, shared, places):  # type: ignore[no-untyped-def]
    """Return the largest value over the threads of a block and the lowest index that has it, in every thread. A thread
    without a value passes minus infinity. `shared` and `places` have WARPS numbers."""
    for offset in (16, 8, 4, 2, 1):
        other = cuda.shfl_xor_sync(_ALL_LANES, value, offset)
        place = cuda.shfl_xor_sync(_ALL_LANES, index, offset)
        if other > value or (other == value and place < index):
            value, index = other, place
    if cuda.threadIdx.x & 31 == 0:
        shared[cuda.threadIdx.x >> 5] = value
        places[cuda.threadIdx.x >> 5] = index
    cuda.syncthreads()
    value, index = shared[0], places[0]
    for warp in range(1, cuda.blockDim.x >> 5):
        if shared[warp] > value or (shared[warp] == value and places[warp] < index):
            value, index = shared[warp], places[warp]
    cuda.syncthreads()
    return value, index


def activations(number: Any) -> tuple[Any, ...]:
    """Return sigmoid, tanh, exp, relu, sqrt, softplus and maximum for a type of number. NaN stays NaN, infinities give
    the limits."""
    zero, one = number(0), number(1)

    @device_function
    def sigmoid(x):  # type: ignore[no-untyped-def]
        return one / (one + math.exp(-x))

    @device_function
    def relu(x):  # type: ignore[no-untyped-def]
        return zero if x < zero else x

    @device_function
    def softplus(x):  # type: ignore[no-untyped-def]
        rest = math.log1p(math.exp(x if x < zero else -x))
        return rest if x < zero else x + rest

    @device_function
    def maximum(x, y):  # type: ignore[no-untyped-def]
        return x if x > y or x != x else y

    return sigmoid, math.tanh, math.exp, relu, math.sqrt, softplus, maximum


@device_function
def warp_sum(value):  # type: ignore[no-untyped-def]
    """Return the sum of all lanes' values, in all lanes."""
    for distance in (16, 8, 4, 2, 1):
        value += cuda.shfl_xor_sync(_ALL_LANES, value, distance)
    return value


@device_function
def block_sum(value, parts):  # type: ignore[no-untyped-def]
    """Return the sum over the threads of a block (whole warps), in every thread; `parts` has WARPS numbers."""
    value = warp_sum(value)
    if cuda.threadIdx.x & 31 == 0:
        parts[cuda.threadIdx.x >> 5] = value
    cuda.syncthreads()
    total = parts[0]
    for warp in range(1, cuda.blockDim.x >> 5):
        total += parts[warp]
    cuda.syncthreads()  # `parts` may be overwritten now
    return total


@device_function
def block_max(value, parts):  # type: ignore[no-untyped-def]
    """Return the largest of all threads' values, in all threads; parts as in `block_sum`."""
    for distance in (16, 8, 4, 2, 1):
        value = max(value, cuda.shfl_xor_sync(_ALL_LANES, value, distance))
    if cuda.threadIdx.x & 31 == 0:
        parts[cuda.threadIdx.x >> 5] = value
    cuda.syncthreads()
    largest = parts[0]
    for warp in range(1, cuda.blockDim.x >> 5):
        largest = max(largest, parts[warp])
    cuda.syncthreads()
    return largest
