"""Functions that generated kernels call: activations, and sums over a block of threads in a fixed order.

Threads of a block are numbered along x; a warp is 32 adjacent threads.
"""

import math
from typing import Any

from numba import cuda

from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import device_function

WARP = 32


def activations(number: Any) -> tuple[Any, ...]:
    """Return sigmoid, tanh, exp, relu, sqrt, softplus and maximum for a type of number.

    NaN stays NaN, infinities give the limits.
    """
    zero, one = number(0), number(1)

    @device_function
    def sigmoid(x):  # type: ignore[no-untyped-def]
        return one / (one + math.exp(-x))

    @device_function
    def tanh(x):  # type: ignore[no-untyped-def]
        return math.tanh(x)

    @device_function
    def exp(x):  # type: ignore[no-untyped-def]
        return math.exp(x)

    @device_function
    def relu(x):  # type: ignore[no-untyped-def]
        return zero if x < zero else x

    @device_function
    def sqrt(x):  # type: ignore[no-untyped-def]
        return math.sqrt(x)

    @device_function
    def softplus(x):  # type: ignore[no-untyped-def]
        rest = math.log1p(math.exp(x if x < zero else -x))
        return rest if x < zero else x + rest

    @device_function
    def maximum(x, y):  # type: ignore[no-untyped-def]
        return x if x > y or x != x else y

    return sigmoid, tanh, exp, relu, sqrt, softplus, maximum


@device_function
def warp_sum(value):  # type: ignore[no-untyped-def]
    """Return the sum of all lanes' values, in all lanes."""
    for distance in (16, 8, 4, 2, 1):
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, distance)
    return value


@device_function
def block_sum(value, parts):  # type: ignore[no-untyped-def]
    """Return the sum of all threads' values, in all threads. parts: shared, one number per warp, free before and
    after."""
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    value = warp_sum(value)
    if thread % WARP == 0:
        parts[thread // WARP] = value
    cuda.syncthreads()
    total = parts[0]
    for warp in range(1, threads // WARP):
        total += parts[warp]
    cuda.syncthreads()
    return total


@device_function
def block_max(value, parts):  # type: ignore[no-untyped-def]
    """Return the largest of all threads' values, in all threads; parts as in `block_sum`."""
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    for distance in (16, 8, 4, 2, 1):
        value = max(value, cuda.shfl_xor_sync(0xFFFFFFFF, value, distance))
    if thread % WARP == 0:
        parts[thread // WARP] = value
    cuda.syncthreads()
    largest = parts[0]
    for warp in range(1, threads // WARP):
        largest = max(largest, parts[warp])
    cuda.syncthreads()
    return largest
