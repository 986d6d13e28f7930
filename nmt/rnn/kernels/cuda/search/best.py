"""The best tokens of rows on a GPU, and the log-probabilities of all tokens; averages of several models' scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numba import cuda, float32, float64, int32, int64

from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel, device_function
from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime
from nmt.rnn.kernels.cuda.rows.row_functions import THREADS, WARPS, block_first_max, registers_for, row_threads
from nmt.rnn.kernels.cuda.rows.row_operations import NUMBERS, blocks_for

ALL_LANES = 0xFFFFFFFF
LOWEST = float32(-3.0e38)  # finite, so that the difference of two is not NaN
NO_TOKEN = int64(1 << 62)  # after every token


@lru_cache
def add_power_of(dtype: np.dtype) -> Any:
    """Return a function that adds one number to (top, total), the maximum so far and the sum of exp(number - top)."""
    number = NUMBERS[dtype]

    @device_function
    def add_power(x, top, total):  # type: ignore[no-untyped-def]
        if x > top:
            return x, total * math.exp(top - x) + number(1)
        return top, total + math.exp(x - top)

    return add_power


@device_function
def block_log_sum(top, total, shared, sums):  # type: ignore[no-untyped-def]
    """Return the logarithm of the sum of exponentials of all threads' numbers, in every thread. `shared` and `sums`
    have WARPS numbers."""
    for offset in (16, 8, 4, 2, 1):
        other = cuda.shfl_xor_sync(ALL_LANES, top, offset)
        its = cuda.shfl_xor_sync(ALL_LANES, total, offset)
        larger_top = max(top, other)
        # The same operands in the same order in both lanes of a pair, so that all lanes hold the same bits.
        one, two = total * math.exp(top - larger_top), its * math.exp(other - larger_top)
        total, top = one + two, larger_top
    if cuda.threadIdx.x & 31 == 0:
        shared[cuda.threadIdx.x >> 5] = top
        sums[cuda.threadIdx.x >> 5] = total
    cuda.syncthreads()
    top = shared[0]
    for warp in range(1, cuda.blockDim.x >> 5):
        top = max(top, shared[warp])
    total = sums[0] * math.exp(shared[0] - top)
    for warp in range(1, cuda.blockDim.x >> 5):
        total += sums[warp] * math.exp(shared[warp] - top)
    cuda.syncthreads()  # both may be overwritten now
    return top + math.log(total)


@lru_cache
def best_tokens_kernel(dtype: np.dtype, places: int, threads: int = THREADS, *, normalise: bool = True) -> GPUKernel:
    """Return a kernel with a block per row and one pass over its logits [V].

    It finds the `places` best tokens from `first` on and their log-probabilities; without `normalise` their scores
    unchanged, and no bias is added. Every thread keeps the sum of exponentials relative to its largest logit, and its
    best tokens in registers; then the block selects the best of all, one place at a time.
    """
    number, add_power = NUMBERS[dtype], add_power_of(dtype)

    def best_tokens(logits, bias, V, first, tokens, scores):  # type: ignore[no-untyped-def]
        shared = cuda.shared.array(WARPS, number)
        sums = cuda.shared.array(WARPS, number)
        at = cuda.shared.array(WARPS, int64)
        best = cuda.local.array(places, number)
        ids = cuda.local.array(places, int64)
        row = int64(cuda.blockIdx.x)
        for k in range(places):
            best[k], ids[k] = number(LOWEST), NO_TOKEN
        top, total = number(LOWEST), number(0)
        for j in range(int64(cuda.threadIdx.x), V, cuda.blockDim.x):
            x = logits[row * V + j]
            if normalise:
                x += bias[j]
                top, total = add_power(x, top, total)
            if j >= first:
                token = j
                for k in range(places):  # without branches: values move between registers
                    larger = x > best[k]
                    value, index = best[k], ids[k]
                    best[k], ids[k] = (x, token) if larger else (value, index)
                    x, token = (value, index) if larger else (x, token)
        norm = number(0)
        if normalise:
            norm = block_log_sum(top, total, shared, sums)
        for place in range(places):
            value, token = block_first_max(best[0], ids[0], shared, at)
            if cuda.threadIdx.x == 0:
                there = token != NO_TOKEN
                tokens[row * places + place] = int32(token) if there else int32(-1)
                scores[row * places + place] = value - norm
            if ids[0] == token:
                for k in range(places - 1):
                    best[k], ids[k] = best[k + 1], ids[k + 1]
                best[places - 1], ids[places - 1] = number(LOWEST), NO_TOKEN

    signature = (number[::1], number[::1], int64, int64, int32[::1], number[::1])
    return GPUKernel(best_tokens, signature, threads, registers=registers_for(2))


@lru_cache
def log_probs_kernel(dtype: np.dtype, threads: int = THREADS) -> GPUKernel:
    """Return a kernel with a block per row: logits [V] to log-probabilities, with the bits of `best_tokens`."""
    number, add_power = NUMBERS[dtype], add_power_of(dtype)

    def log_probs(logits, bias, V):  # type: ignore[no-untyped-def]
        shared = cuda.shared.array(WARPS, number)
        sums = cuda.shared.array(WARPS, number)
        base = int64(cuda.blockIdx.x) * V
        top, total = number(LOWEST), number(0)
        for j in range(int64(cuda.threadIdx.x), V, cuda.blockDim.x):
            top, total = add_power(logits[base + j] + bias[j], top, total)
        norm = block_log_sum(top, total, shared, sums)
        for j in range(int64(cuda.threadIdx.x), V, cuda.blockDim.x):
            logits[base + j] = (logits[base + j] + bias[j]) - norm

    return GPUKernel(log_probs, (number[::1], number[::1], int64), threads, registers=registers_for(2))


def best_tokens(
    runtime: CupyRuntime, logits: Any, bias: Any, first: int, tokens: Any, scores: Any, *, normalise: bool = True
) -> None:
    """Find the K best tokens of each row and their log-probabilities, best first; of equal ones the lower token.

    logits [R, V] (without bias), bias [V]; tokens int32 [R, K], scores [R, K]. Tokens below `first` count for the
    normalisation but are never chosen; unused places have token -1. Without `normalise` the logits are scores as they
    are, of which -inf is never chosen; see `kernels.search.choose.top_tokens`.
    """
    R, V = logits.shape
    if R:
        kernel = best_tokens_kernel(logits.dtype, tokens.shape[1], row_threads(V), normalise=normalise)
        runtime.launch(kernel, R, logits, bias, V, first, tokens, scores)


def log_probs(runtime: CupyRuntime, logits: Any, bias: Any) -> None:
    """Convert logits [R, V] (without bias) to log-probabilities, in place."""
    R, V = logits.shape
    if R:
        runtime.launch(log_probs_kernel(logits.dtype, row_threads(V)), R, logits, bias, V)


@lru_cache
def join_kernel(dtype: np.dtype, probabilities: bool, threads: int = THREADS) -> GPUKernel:
    """Return a kernel: total += x, of log-probabilities or of probabilities; then, unless `count` is 0, their mean."""
    number = NUMBERS[dtype]

    def join(total, x, size, count):  # type: ignore[no-untyped-def]
        for i in range(int64(cuda.grid(1)), size, int64(cuda.gridsize(1))):
            one, other = total[i], x[i]
            if probabilities:
                top = max(one, other)
                value = top
                if top > number(-math.inf):
                    value = top + math.log(math.exp(one - top) + math.exp(other - top))
                if count != 0:
                    value -= number(math.log(float64(count)))
            else:
                value = one + other
                if count != 0:
                    value /= number(count)
            total[i] = value

    return GPUKernel(join, (number[::1], number[::1], int64, int64), threads, registers=48)


def average(runtime: CupyRuntime, arrays: Sequence[Any], kind: Literal["log_prob", "prob"]) -> Any:
    """Return the mean of arrays of one shape, in the first of them; see `decode.ensemble.averaged`."""
    total, *others = arrays
    kernel = join_kernel(total.dtype, kind == "prob", row_threads(total.size))
    for n, other in enumerate(others, start=2):
        count = n if n == len(arrays) else 0
        runtime.launch(kernel, blocks_for(kernel, total.size), total, other, total.size, count)
    return total
