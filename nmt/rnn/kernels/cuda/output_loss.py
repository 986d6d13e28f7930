"""The output layer and its cross entropy: products over a chunk of rows, and one kernel that turns their logits into
losses and gradients.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda, float32, float64, int32, int64

from nmt.rnn.arrays.device_operations import OutputGradients, OutputLayer
from nmt.rnn.kernels.cuda.blas import Matrix
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel
from nmt.rnn.kernels.cuda.matrices import Matrices
from nmt.rnn.kernels.cuda.rows.row_functions import (
    THREADS,
    WARPS,
    block_first_max,
    block_sum,
    registers_for,
    row_threads,
)
from nmt.rnn.kernels.cuda.rows.row_operations import NUMBERS

CHUNK_BYTES = 256 << 20
"""Maximum bytes of logits in memory at a time."""

_LOWEST = float32(-math.inf)


@lru_cache
def loss_rows_kernel(dtype: np.dtype, threads: int = THREADS) -> GPUKernel:
    """Return a kernel with a block per row that adds the bias to logits [V] and computes losses and, optionally,
    gradients.

    The losses are those of `kernels.softmax.row_loss`: sums [3, R] of negative log likelihood, smoothed loss, and 1
    where the target is the first largest logit; zeros where the target is negative. The gradient overwrites the
    logits. scales [1]: its factor.
    """
    number = NUMBERS[dtype]

    def loss_rows(logits, bias, targets, sums, first, R, V, smoothing, scales, want_gradient):  # type: ignore[no-untyped-def]
        shared = cuda.shared.array(WARPS, number)
        places = cuda.shared.array(WARPS, int64)
        row = int64(cuda.blockIdx.x)
        base = row * V
        target = int64(targets[first + row])
        if target < 0:  # no row
            if cuda.threadIdx.x == 0:
                sums[first + row] = sums[R + first + row] = sums[2 * R + first + row] = 0.0
            if want_gradient != 0:
                for j in range(int64(cuda.threadIdx.x), V, cuda.blockDim.x):
                    logits[base + j] = number(0)
            return
        best, place = number(_LOWEST), V
        for j in range(int64(cuda.threadIdx.x), V, cuda.blockDim.x):
            x = logits[base + j] + bias[j]
            logits[base + j] = x
            if x > best:
                best, place = x, j
        best, place = block_first_max(best, place, shared, places)
        total, plain = number(0), number(0)
        for j in range(int64(cuda.threadIdx.x), V, cuda.blockDim.x):
            x = logits[base + j] - best
            plain += x
            total += math.exp(x)
        total = block_sum(total, shared)
        plain = block_sum(plain, shared)
        if cuda.threadIdx.x == 0:
            log_total = float64(math.log(total))
            nll = log_total - float64(logits[base + target] - best)
            sums[first + row] = nll
            sums[R + first + row] = (1.0 - smoothing) * nll + smoothing * (log_total - float64(plain) / V)
            sums[2 * R + first + row] = 1.0 if place == target else 0.0
        if want_gradient != 0:
            cuda.syncthreads()  # the first thread has read the target's logit
            scale = scales[0]
            factor = number(scale / float64(total))
            shift = number(scale * smoothing / V)
            for j in range(int64(cuda.threadIdx.x), V, cuda.blockDim.x):
                x = math.exp(logits[base + j] - best) * factor - shift
                if j == target:
                    x -= number(scale * (1.0 - smoothing))
                logits[base + j] = x

    signature = (number[::1], number[::1], int32[::1], float64[::1], int64, int64, int64, float64, float64[::1], int32)
    registers = registers_for(4 if dtype == np.float32 else 2)
    return GPUKernel(loss_rows, signature, threads, registers=registers)


def _sum_lines(x, out, size):  # type: ignore[no-untyped-def]
    """Set out[block] to the sum of line `block` of x [lines, size]."""
    shared = cuda.shared.array(WARPS, float64)
    base = int64(cuda.blockIdx.x) * size
    total = float64(0)
    for i in range(int64(cuda.threadIdx.x), size, THREADS):
        total += x[base + i]
    total = block_sum(total, shared)
    if cuda.threadIdx.x == 0:
        out[cuda.blockIdx.x] = total


SUM_LINES = GPUKernel(_sum_lines, (float64[::1], float64[::1], int64), THREADS, registers=40)


def chunk_rows(V: int, itemsize: int, chunk_bytes: int = CHUNK_BYTES) -> int:
    """Return the maximum number of rows whose logits are computed at a time."""
    return max(1, chunk_bytes // (V * itemsize))


def output_loss(
    matrices: Matrices,
    h: Any,
    layer: OutputLayer,
    targets: Any,
    label_smoothing: float,
    scale: Any,
    gradients: OutputGradients | None,
    out: Any,
    chunk_bytes: int = CHUNK_BYTES,
) -> Any:
    """Return the cross entropy of softmax(h @ W + b) against targets, and its gradients; all arrays are on the GPU.

    h [R, H]; targets int32 [R], each below V, a negative one for a row that does not exist. label_smoothing: the share
    of the probability spread evenly over all V classes. scale: float64 [1], the factor of the gradients, not of the
    losses. gradients: the arrays they are added to; None for losses only. chunk_bytes: of logits in memory at a time,
    at least one row. The result is `out`, float64 [3]: sums over the rows, in nats, of negative log likelihood and
    smoothed loss, and the number of rows whose target is the first largest logit. Sums have a fixed order: the same
    bits every time.
    """
    device, runtime, bias = matrices.device, matrices.runtime, layer.weights[layer.bias]
    R, V = len(h), len(bias)
    sums = device.buffer("losses of rows", (3 * R,), np.dtype(np.float64))
    chunk = min(max(R, 1), chunk_rows(V, h.dtype.itemsize, chunk_bytes))
    logits = device.buffer("logits", (chunk, V), h.dtype)
    kernel = loss_rows_kernel(h.dtype, row_threads(V))
    for first in range(0, R, chunk):
        count = min(chunk, R - first)
        block, rows = Matrix(logits, 0, count), Matrix(h, first, count)
        with matrices.keeping_factors():
            matrices.multiply(rows, _weight(layer, layer.tied), block)
            numbers = first, R, V, label_smoothing, scale, int(gradients is not None)
            runtime.launch(kernel, count, logits, bias, targets, sums, *numbers)  # the logits are no factor before it
            if gradients is not None:
                matrices.multiply(block, _weight(layer, not layer.tied), Matrix(gradients.h, first, count))
                left, right = (block, rows) if layer.tied else (rows, block)
                matrices.add_outer(left, right, None, Matrix.whole(gradients.matrix))
                matrices.add_sum(block, None, gradients.bias)
    runtime.launch(SUM_LINES, 3, sums, out, R)
    return out


def output_logits(matrices: Matrices, outputs: Any, layer: OutputLayer, logits: Any) -> None:
    """Compute logits [R, V] = outputs [R, H] @ W, without the bias."""
    if len(outputs):
        matrices.multiply(Matrix.whole(outputs), _weight(layer, layer.tied), Matrix.whole(logits))


def _weight(layer: OutputLayer, transposed: bool) -> tuple[str, int, int, bool]:
    return layer.matrix, 0, len(layer.weights[layer.matrix]), transposed
