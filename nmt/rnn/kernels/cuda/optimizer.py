"""The gradient's norm, and the rules by which parameters change (nmt/rnn/arrays/device_operations.py), on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda, float64, int64

from nmt.rnn.arrays.device_operations import ElementRule
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel, device_function
from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime
from nmt.rnn.kernels.cuda.rows.row_functions import THREADS, WARPS, block_sum, registers_for, row_threads
from nmt.rnn.kernels.cuda.rows.row_operations import NUMBERS, blocks_for

_PARTS = 256
"""The number of blocks, and partial sums, for one array's norm."""


@lru_cache
def square_norm_kernel(dtype: np.dtype, threads: int = THREADS) -> GPUKernel:
    """Return a kernel: parts[first + block] = this block's part of the sum of squares of g, in float64."""
    number = NUMBERS[dtype]

    def square_norm(g, parts, size, first):  # type: ignore[no-untyped-def]
        shared = cuda.shared.array(WARPS, float64)
        total = float64(0)
        for i in range(int64(cuda.grid(1)), size, int64(cuda.gridsize(1))):
            wide = float64(g[i])
            total += wide * wide
        total = block_sum(total, shared)
        if cuda.threadIdx.x == 0:
            parts[first + cuda.blockIdx.x] = total

    return GPUKernel(square_norm, (number[::1], float64[::1], int64, int64), threads, registers=registers_for(6))


_LOOP = """
def {name}({arrays}, size, {factors}):
    for i in range(int64(cuda.grid(1)), size, int64(cuda.gridsize(1))):
        {element}
"""


@lru_cache
def rule_kernel(dtype: np.dtype, rule: ElementRule, threads: int = THREADS) -> GPUKernel:
    """Return the kernel of a rule, over flat arrays."""
    number, many = NUMBERS[dtype], rule.arrays > 3
    scope = {"__name__": __name__, "cuda": cuda, "int64": int64, "rule": device_function(rule.function)}
    signature = (*[number[::1]] * rule.arrays, int64, *[number] * rule.factors)
    blocks = (5 if dtype == np.float32 else 4) if many else 6
    return GPUKernel(rule.loop(_LOOP, scope), signature, threads, registers=registers_for(blocks))


def square_norm(runtime: CupyRuntime, arrays: Sequence[Any]) -> float:
    """Return the sum of squares over all arrays, in float64, with a single copy to the host."""
    arrays = [array for array in arrays if array.size]
    kernels = [square_norm_kernel(array.dtype, row_threads(array.size)) for array in arrays]
    counts = [blocks_for(kernel, array.size, _PARTS) for kernel, array in zip(kernels, arrays, strict=True)]
    parts = runtime.xp.empty(sum(counts), np.float64)
    firsts = (np.cumsum(counts) - counts).tolist()
    for first, count, kernel, array in zip(firsts, counts, kernels, arrays, strict=True):
        runtime.launch(kernel, count, array, parts, array.size, first)
    return float(runtime.download(parts).sum())


def change(runtime: CupyRuntime, rule: ElementRule, arrays: Sequence[Any], factors: Sequence[float]) -> None:
    """Apply a rule to flat arrays."""
    size = arrays[0].size
    if size:
        kernel = rule_kernel(arrays[0].dtype, rule, row_threads(size))
        runtime.launch(kernel, blocks_for(kernel, size), *arrays, size, *factors)
