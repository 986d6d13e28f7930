"""Elementwise updates of parameters from gradients: the norm, Adam, gradient descent, weight decay.

The formulas and their order are those of `kernels.update`, where the papers are cited.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda, float64, int64

from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel, Runtime
from nmt.rnn.kernels.cuda.rows.blocks import THREADS, WARPS, block_sum, registers_for, row_threads
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


@lru_cache
def adam_kernel(dtype: np.dtype, threads: int = THREADS) -> GPUKernel:
    """Return a kernel for one step of Adam, as `kernels.update.adam_step`; the host prepares the factors."""
    number = NUMBERS[dtype]

    def adam_step(p, g, m, v, size, step, keep, b1, c1, b2, c2, root, tiny, scale):  # type: ignore[no-untyped-def]
        for i in range(int64(cuda.grid(1)), size, int64(cuda.gridsize(1))):
            gradient = g[i] * scale
            first = b1 * m[i] + c1 * gradient
            second = b2 * v[i] + c2 * gradient * gradient
            m[i] = first
            v[i] = second
            p[i] = keep * p[i] - step * first / (math.sqrt(second) * root + tiny)

    registers = registers_for(5 if dtype == np.float32 else 4)
    return GPUKernel(adam_step, (*[number[::1]] * 4, int64, *[number] * 9), threads, registers=registers)


@lru_cache
def sgd_kernel(dtype: np.dtype, threads: int = THREADS) -> GPUKernel:
    """Return a kernel for one step of gradient descent, as `kernels.update.sgd_step`."""
    number = NUMBERS[dtype]

    def sgd_step(p, g, velocity, size, has_velocity, rate, keep, inertia, scale):  # type: ignore[no-untyped-def]
        for i in range(int64(cuda.grid(1)), size, int64(cuda.gridsize(1))):
            speed = g[i] * scale
            if has_velocity != 0:
                speed += inertia * velocity[i]
                velocity[i] = speed
            p[i] = keep * p[i] - rate * speed

    return GPUKernel(sgd_step, (*[number[::1]] * 3, int64, int64, *[number] * 4), threads, registers=registers_for(6))


@lru_cache
def add_scaled_kernel(dtype: np.dtype, threads: int = THREADS) -> GPUKernel:
    """Return a kernel: x = x * scale + factor * y."""
    number = NUMBERS[dtype]

    def add_scaled(x, y, size, scale, factor):  # type: ignore[no-untyped-def]
        for i in range(int64(cuda.grid(1)), size, int64(cuda.gridsize(1))):
            x[i] = x[i] * scale + factor * y[i]

    return GPUKernel(add_scaled, (number[::1], number[::1], int64, number, number), threads, registers=registers_for(6))


def square_norm(runtime: Runtime, arrays: Sequence[Any]) -> float:
    """Return the sum of squares over all arrays, in float64, with a single copy to the host."""
    arrays = [array for array in arrays if array.size]
    kernels = [square_norm_kernel(array.dtype, row_threads(array.size)) for array in arrays]
    counts = [blocks_for(kernel, array.size, _PARTS) for kernel, array in zip(kernels, arrays, strict=True)]
    parts = runtime.xp.empty(sum(counts), np.float64)
    firsts = (np.cumsum(counts) - counts).tolist()
    for first, count, kernel, array in zip(firsts, counts, kernels, arrays, strict=True):
        runtime.launch(kernel, count, array, parts, array.size, first)
    return float(runtime.download(parts).sum())


def adam_step(
    runtime: Runtime,
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    learning_rate: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    bias_correction1: float,
    bias_correction2: float,
    gradient_scale: float,
) -> None:
    """Apply one step of Adam to flat arrays, in place; see `kernels.update.adam_step`."""
    factors = (
        learning_rate / bias_correction1,
        1.0 - learning_rate * weight_decay,
        *(beta1, 1.0 - beta1, beta2, 1.0 - beta2),
        1.0 / math.sqrt(bias_correction2),
        eps,
        gradient_scale,
    )
    if p.size:
        _launch(runtime, adam_kernel, p, g, m, v, p.size, *factors)


def sgd_step(
    runtime: Runtime,
    p: Any,
    g: Any,
    velocity: Any,
    learning_rate: float,
    momentum: float,
    weight_decay: float,
    gradient_scale: float,
) -> None:
    """Apply one step of gradient descent, in place; `velocity` may be empty where momentum is 0."""
    factors = learning_rate, 1.0 - learning_rate * weight_decay, momentum, gradient_scale
    if p.size:
        there = int(velocity.size > 0)
        _launch(runtime, sgd_kernel, p, g, velocity, p.size, there, *factors)


def add_scaled(runtime: Runtime, x: Any, y: Any, factor: float, scale: float) -> None:
    """Compute x = x * scale + factor * y, on flat arrays."""
    if x.size:
        _launch(runtime, add_scaled_kernel, x, y, x.size, scale, factor)


def _launch(runtime: Runtime, make: Any, changed: Any, *others: Any) -> None:
    kernel = make(changed.dtype, row_threads(changed.size))
    runtime.launch(kernel, blocks_for(kernel, changed.size), changed, *others)


def example_kernels() -> dict[str, GPUKernel]:
    """Return all kernels of this module, for the tests that compile them."""
    makers = (square_norm_kernel, adam_kernel, sgd_kernel, add_scaled_kernel)
    return {f"{make(kind).name} {kind}": make(kind) for make in makers for kind in NUMBERS}
