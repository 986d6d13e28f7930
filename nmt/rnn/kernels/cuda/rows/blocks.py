"""Operations of all threads of a block: sums and maxima by trees of a fixed shape, so that results are reproducible."""

from __future__ import annotations

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
def block_sum(value, shared):  # type: ignore[no-untyped-def]
    """Return the sum over the threads of a block (whole warps), in every thread; `shared` has WARPS numbers."""
    for offset in (16, 8, 4, 2, 1):
        value += cuda.shfl_xor_sync(_ALL_LANES, value, offset)
    if cuda.threadIdx.x & 31 == 0:
        shared[cuda.threadIdx.x >> 5] = value
    cuda.syncthreads()
    total = shared[0]
    for warp in range(1, cuda.blockDim.x >> 5):
        total += shared[warp]
    cuda.syncthreads()  # `shared` may be overwritten now
    return total


@device_function
def block_first_max(value, index, shared, places):  # type: ignore[no-untyped-def]
    """Return the largest value over the threads of a block and the lowest index that has it, in every thread.

    A thread without a value passes minus infinity. `shared` and `places` have WARPS numbers.
    """
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
