"""The output layer and its cross entropy as one operation, which stores the logits of only one chunk of rows at a
time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from nmt.errors import ShapeError
from nmt.rnn.arrays.device_operations import OutputGradients, OutputLayer
from nmt.rnn.arrays.weights import PAIRS
from nmt.rnn.arrays.workspace import aligned
from nmt.rnn.kernels.loops.activation_code import exp, log
from nmt.rnn.kernels.machine_code.jit import cgutils, inner_kernel, intrinsic, kernel, numba_types
from nmt.rnn.kernels.memory.arrays import release, scratch
from nmt.rnn.kernels.products.gradients import weight_gradient, weight_gradient_bf16
from nmt.rnn.kernels.products.packing import packed_output
from nmt.rnn.kernels.products.product import product, sum_rows
from nmt.rnn.kernels.threads.pool import host, run_parallel


@intrinsic
def _larger(typing_context: Any, a: Any, b: Any) -> Any:
    # LLVM vectorises a running maximum only if NaN may be ignored. It may: all callers of row_max sum exponentials
    # next, and the NaN appears in the sum.
    if a != b or not isinstance(a, numba_types.Float):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        kind = args[0].type
        name = f"llvm.maxnum.f{a.bitwidth}"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind, kind]), name)
        return builder.call(function, args, fastmath=("nnan", "nsz"))

    return a(a, a), codegen


@inner_kernel
def row_max(row):  # type: ignore[no-untyped-def]
    """Return the largest entry of a row, which must not be empty; unspecified if the row contains a NaN."""
    best = row[0]
    for i in range(row.size):
        best = _larger(best, row[i])
    return best


@inner_kernel
def _contains(row, value):  # type: ignore[no-untyped-def]
    for entry in row:
        if entry == value:
            return True
    return False


@inner_kernel
def row_loss(row, target, label_smoothing, gradient_scale, want_gradient):  # type: ignore[no-untyped-def]
    """Return (nll, smoothed loss, 1 if `target` is the first largest entry, else 0); with `want_gradient` the row is
    replaced by its gradient. The smoothed loss is (1 - eps) * nll + eps * the mean of -log p over all classes (Szegedy
    et al., Rethinking the Inception Architecture (2016), section 7). The gradient is that of the smoothed loss times
    gradient_scale."""
    number = row.dtype.type
    best, mark = row_max(row), row[target]
    correct = 1 if mark == best and not _contains(row[:target], best) else 0
    total, plain = number(0), number(0)
    for i in range(row.size):
        value = row[i]
        plain += value - best
        power = exp(value - best)
        total += power
        if want_gradient:
            row[i] = power
    # Everything is relative to the largest entry, so that small differences of large logits keep their precision.
    log_total = np.float64(log(total))
    nll = log_total - np.float64(mark - best)
    smoothed = (1.0 - label_smoothing) * nll + label_smoothing * (log_total - np.float64(plain) / row.size)
    if want_gradient:
        factor = number(gradient_scale / total)
        shift = number(gradient_scale * label_smoothing / row.size)
        for i in range(row.size):
            row[i] = row[i] * factor - shift
        row[target] -= number(gradient_scale * (1.0 - label_smoothing))
    return nll, smoothed, correct


Array = NDArray[Any]

_MOST_LOGITS, _LEAST_ROWS = 1 << 20, 16
"""The number of logits that `each_logits` passes on at a time, which its callers copy several times in float64, and the
least number of rows."""


def chunk_rows(packed: np.dtype) -> int:
    """Return the number of rows whose logits are stored at a time, by the dtype of packed weights: as many as a weight
    gradient sums each time it loads a tile. A step of a tile takes one row in float32 and two in pairs of bfloat16."""
    return 512 if packed == PAIRS else 256


@kernel
def _loss_rows(  # type: ignore[no-untyped-def]
    part, parts, logits, bias, targets, label_smoothing, scale, want_gradient, nll, smoothed, correct
):
    """Turn this part's rows of logits (without the bias) into losses and, with `want_gradient`, into gradients."""
    for r in range(targets.size * part // parts, targets.size * (part + 1) // parts):
        row = logits[r]
        for j in range(row.size):
            row[j] += bias[j]
        nll[r], smoothed[r], correct[r] = row_loss(row, targets[r], label_smoothing, scale, want_gradient)


@kernel
def _loss_pairs(  # type: ignore[no-untyped-def]
    part, parts, logits, bias, targets, label_smoothing, scale, weight, nll, smoothed, correct, divergences
):
    """Do the same as `_loss_rows` with gradients, and for rows 2 i and 2 i + 1 add `weight` times the divergence of
    their distributions P and Q: half of KL(P || Q) + KL(Q || P) (Liang et al., R-Drop (2021), equation 3)."""
    pairs, V, number = targets.size // 2, bias.size, logits.dtype.type
    likelihood, shares = scratch((2, V), logits.dtype), scratch((2, V), logits.dtype)
    half = number(0.5 * weight * scale)
    for i in range(pairs * part // parts, pairs * (part + 1) // parts):
        for n in range(2):
            r, row = 2 * i + n, logits[2 * i + n]
            for j in range(V):
                row[j] += bias[j]
                likelihood[n, j] = row[j]
            nll[r], smoothed[r], correct[r] = row_loss(likelihood[n], targets[r], label_smoothing, scale, True)
            log_total = number(nll[r] + np.float64(row[targets[r]]))
            for j in range(V):
                row[j] -= log_total
                shares[n, j] = exp(row[j])
        one, other, p, q = logits[2 * i], logits[2 * i + 1], shares[0], shares[1]
        of_one, of_other = number(0), number(0)
        for j in range(V):
            of_one += p[j] * (one[j] - other[j])
            of_other += q[j] * (other[j] - one[j])
        divergences[i] = weight * 0.5 * (np.float64(of_one) + np.float64(of_other))
        for j in range(V):
            difference, excess = one[j] - other[j], p[j] - q[j]
            one[j] = likelihood[0, j] + half * (p[j] * (difference - of_one) + excess)
            other[j] = likelihood[1, j] - half * (q[j] * (difference + of_other) + excess)
    release(shares)
    release(likelihood)


@kernel
def _add_up(part, parts, nll, smoothed, divergences, correct, found):  # type: ignore[no-untyped-def]
    """Set found [3] to the sums that `output_loss` returns, over rows [R] and pairs [R // 2]."""
    found[:] = 0
    for r in range(nll.size):
        found[0] += nll[r]
        found[1] += smoothed[r]
        found[2] += correct[r]
    for pair in range(divergences.size):
        found[1] += divergences[pair]


@dataclass(frozen=True)
class _Output:
    """An output layer, the rows h [R, H] that it reads, their targets, and the arrays for gradients, None for none."""

    h: Array
    layer: OutputLayer
    targets: Array
    gradients: OutputGradients | None
    threads: int

    @property
    def bias(self) -> Array:
        """Return the bias [V]."""
        bias: Array = self.layer.weights[self.layer.bias]
        return bias

    def check(self) -> _Output:
        """Raise ShapeError for arrays with which compiled code would read out of bounds."""
        h, b, targets = self.h, self.bias, self.targets
        if h.ndim != 2 or not h.flags.c_contiguous:
            raise ShapeError(f"output_loss: h must be C-contiguous [R, H], got shape {h.shape}; copy it first")
        if b.dtype != h.dtype or b.ndim != 1:
            raise ShapeError(f"output_loss: b must be {h.dtype} [V], got {b.dtype} {b.shape}; convert it")
        if targets.dtype != np.int32 or targets.shape != h.shape[:1]:
            raise ShapeError(
                f"output_loss: targets must be int32 [{h.shape[0]}], one for each row of h, "
                f"got {targets.dtype} {targets.shape}; convert them"
            )
        if targets.size and not 0 <= targets.min() <= targets.max() < b.size:
            raise ShapeError(
                f"output_loss: targets must be classes from 0 and below {b.size}, "
                f"got {targets.min()} to {targets.max()}; check the vocabulary"
            )
        return self

    def each_chunk(self, fill: Callable[[Array, slice], None], chunk: int | None = None) -> None:
        """Compute the logits in chunks of `chunk` rows (None: `chunk_rows`), and add to the gradients. `fill` is called
        with logits [n, V] without the bias, whose memory is reused after the call, and the slice of their rows. If
        there are gradients, it replaces the logits by the loss's derivative with respect to them."""
        layer, into, threads = self.layer, self.gradients, self.threads
        (rows, hidden), vocab, packed = self.h.shape, self.bias.shape[0], packed_output(layer, threads)
        back = packed_output(layer, threads, transposed=True) if into else None
        sum_products = weight_gradient_bf16 if layer.packed == PAIRS else weight_gradient
        chunk = chunk_rows(layer.packed) if chunk is None else chunk
        logits = aligned((min(chunk, rows), vocab), self.h.dtype)
        for r0 in range(0, rows, chunk):
            part = slice(r0, min(rows, r0 + chunk))
            count = part.stop - r0
            h, block, segments = self.h[part], logits[:count], np.array([[0, count]], np.int64)
            run_parallel(product, threads, h, 0, packed, block, 0, hidden, vocab, segments, 0)
            fill(block, part)
            if into is None:
                continue
            run_parallel(product, threads, block, 0, back, into.h[part], 0, vocab, hidden, segments, 0)
            sides = (block, 0, vocab, h, 0, hidden) if layer.tied else (h, 0, hidden, block, 0, vocab)
            run_parallel(sum_products, threads, *sides, segments, into.matrix, 1)
            run_parallel(sum_rows, threads, block, 0, vocab, segments, into.bias, 1)


def output_loss(
    h: Array,
    layer: OutputLayer,
    targets: Array,
    label_smoothing: float,
    gradients: OutputGradients | None,
    scale: float,
    threads: int,
    divergence: float = 0.0,
    chunk: int | None = None,
) -> Array:
    """Return the cross entropy of `softmax(h @ W + b)` against `targets`, and its gradients; see `Device.output_loss`.

    Where the layer's products are in bfloat16, all three are, from float32 and to float32. chunk: rows whose logits are
    stored at a time, None for `chunk_rows`; even with a divergence. The sums have the same bits for any number of
    threads. Where calls wait (`pool.in_one_call`), `host` waits for them. Raises ShapeError: an array has another
    shape, dtype or layout, a target is no class, or the rows are not pairs.
    """
    output = _Output(h, layer, targets, gradients, threads).check()
    if divergence and (len(h) % 2 or (chunk or 0) % 2):
        raise ShapeError(f"output_loss: with a divergence of pairs rows must be even, got {len(h)}, chunk {chunk}")
    rows, smoothing, factor, bias = len(h), float(label_smoothing), float(scale), output.bias
    nll, smoothed, correct = np.empty(rows), np.empty(rows), np.empty(rows, np.int64)
    divergences = np.zeros(rows // 2)

    def fill(logits: Array, part: slice) -> None:
        given, sums = (logits, bias, targets[part], smoothing, factor), (nll[part], smoothed[part], correct[part])
        if divergence and gradients:
            extra = divergences[part.start // 2 : part.stop // 2]
            run_parallel(_loss_pairs, threads, *given, float(divergence), *sums, extra)
        else:
            run_parallel(_loss_rows, threads, *given, gradients is not None, *sums)

    output.each_chunk(fill, chunk)
    found = np.empty(3)
    run_parallel(_add_up, 1, nll, smoothed, divergences, correct, found)
    return found


def each_logits(
    h: Array, layer: OutputLayer, fill: Callable[[Array, slice], None], gradients: OutputGradients | None, threads: int
) -> None:
    """Call `fill` with the logits of a few rows of h [R, H] at a time. `fill` gets logits [n, V] and the slice of their
    rows; with gradients, it replaces the logits by the derivative of the loss with respect to them. Raises
    ShapeError."""
    output = _Output(h, layer, np.zeros(len(h), np.int32), gradients, threads).check()

    def with_bias(logits: Array, part: slice) -> None:
        logits = host(logits)
        logits += output.bias
        fill(logits, part)

    few = max(_LEAST_ROWS, _MOST_LOGITS // max(1, len(output.bias)))
    output.each_chunk(with_bias, min(chunk_rows(layer.packed), few))
