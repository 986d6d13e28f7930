"""Averages of several models' predictions on a GPU; and the coverage term of a hypothesis's score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numba import cuda, float64, int64

from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel, Runtime
from nmt.rnn.kernels.cuda.rows.blocks import THREADS, WARPS, block_sum, row_threads
from nmt.rnn.kernels.cuda.rows.row_operations import NUMBERS, blocks_for

_LEAST = 1e-10  # as in decode.rules.penalty: the minimum coverage of a word that receives no attention


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


@lru_cache
def coverage_kernel(dtype: np.dtype, threads: int = 32) -> GPUKernel:
    """Return a kernel with a block per row: out[r] = factor * the sum of log(min(coverage, 1)) over its n source words.

    A negative coverage marks padding (see decode.rules.penalty.final_scores).
    """
    number = NUMBERS[dtype]

    def coverage(seen, out, n, factor):  # type: ignore[no-untyped-def]
        shared = cuda.shared.array(WARPS, float64)
        base = int64(cuda.blockIdx.x) * n
        total = float64(0)
        for j in range(int64(cuda.threadIdx.x), n, cuda.blockDim.x):
            x = seen[base + j]
            if x >= number(0):
                total += math.log(float64(min(max(x, number(_LEAST)), number(1))))
        total = block_sum(total, shared)
        if cuda.threadIdx.x == 0:
            out[cuda.blockIdx.x] = factor * total

    return GPUKernel(coverage, (number[::1], float64[::1], int64, float64), threads, registers=64)


def average(runtime: Runtime, arrays: Sequence[Any], kind: Literal["log_prob", "prob"]) -> Any:
    """Return the mean of arrays of one shape, in the first of them; see `decode.ensemble.averaged`."""
    total, *others = arrays
    kernel = join_kernel(total.dtype, kind == "prob", row_threads(total.size))
    for n, other in enumerate(others, start=2):
        count = n if n == len(arrays) else 0
        runtime.launch(kernel, blocks_for(kernel, total.size), total, other, total.size, count)
    return total


def coverage_bonus(runtime: Runtime, coverage: Any, factor: float, out: Any) -> None:
    """Compute the coverage term of scores; see `Device.coverage_bonus`."""
    R, n = coverage.shape
    runtime.launch(coverage_kernel(coverage.dtype, row_threads(n)), R, coverage, out, n, factor)


def example_kernels() -> dict[str, GPUKernel]:
    """Return all kernels of this module, for the tests that compile them."""
    found = {f"coverage {kind}": coverage_kernel(kind) for kind in NUMBERS}
    return found | {f"join {kind} {p}": join_kernel(kind, p) for kind in NUMBERS for p in (False, True)}
