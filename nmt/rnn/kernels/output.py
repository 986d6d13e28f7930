"""The output layer and its cross entropy as one operation that never holds the logits of more than
a chunk of rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.errors import ShapeError
from nmt.rnn.arrays.aligned import aligned
from nmt.rnn.arrays.weights import PAIRS
from nmt.rnn.kernels.activations import exp
from nmt.rnn.kernels.arrays import release, scratch
from nmt.rnn.kernels.jit import kernel
from nmt.rnn.kernels.pool import run_parallel
from nmt.rnn.kernels.products import product, sum_rows, weight_gradient, weight_gradient_bf16
from nmt.rnn.kernels.softmax import row_loss
from nmt.rnn.profile import operation

__all__ = ["chunk_rows", "output_loss"]

Array = NDArray[Any]


def chunk_rows(packed: np.dtype) -> int:
    """Rows whose logits exist at a time, by the elements of packed weights: as many as the gradient of a weight sums
    in one visit of its tiles, which are a row each in float32 and two in a pair of bfloat16."""
    return 512 if packed == PAIRS else 256


@kernel
def _loss_rows(  # type: ignore[no-untyped-def]
    part,
    parts,
    logits,
    bias,
    targets,
    label_smoothing,
    scale,
    want_gradient,
    nll,
    smoothed,
    correct,
):
    """Turn this part's rows of logits (bias not yet added) into losses and, where wanted, into
    gradients."""
    for r in range(targets.size * part // parts, targets.size * (part + 1) // parts):
        row = logits[r]
        for j in range(row.size):
            row[j] += bias[j]
        nll[r], smoothed[r], correct[r] = row_loss(row, targets[r], label_smoothing, scale, want_gradient)


@kernel
def _loss_pairs(  # type: ignore[no-untyped-def]
    part,
    parts,
    logits,
    bias,
    targets,
    label_smoothing,
    scale,
    weight,
    nll,
    smoothed,
    correct,
    divergences,
):
    """`_loss_rows` with gradients and, for rows 2 i and 2 i + 1, `weight` times the divergence of their distributions P
    and Q: half of KL(P || Q) + KL(Q || P) (Liang et al., R-Drop (2021), equation 3)."""
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


def _check(h: Array, b: Array, targets: Array) -> None:
    """Refuse what compiled code would read past its end."""
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


def output_loss(
    h: Array,
    W_packed: Array,
    Wt_packed: Array | None,
    b: Array,
    targets: Array,
    label_smoothing: float,
    d_h: Array | None,
    dW: Array | None,
    db: Array | None,
    scale: float,
    num_threads: int,
    chunk: int | None = None,
    *,
    transposed: bool = False,
    divergence: float = 0.0,
) -> tuple[float, float, int]:
    """The cross entropy of `softmax(h @ W + b)` against `targets`, and its gradients.

    Args:
        h: [R, H], C-contiguous, float32 or float64; all arrays but targets are of this dtype.
        W_packed: W [H, V] packed (for a tied embedding [V, H]: pack_transposed of it). Where it is packed in
            bfloat16, all three products are computed so, from float32 and to float32.
        Wt_packed: its transpose [V, H] packed (for a tied embedding: pack of it); needed for d_h.
        b: [V].
        targets: int32 [R], each below V.
        label_smoothing: the share of the probability that is spread evenly over all V classes.
        d_h: [R, H], overwritten, or None.
        dW: [H, V], or [V, H] where `transposed`; added to, or None.
        db: [V]; added to, or None.
        scale: factor of the gradients, not of the losses.
        chunk: rows whose logits exist at a time; None for `chunk_rows`.
        divergence: how much of the divergence between rows 2 i and 2 i + 1 is added to the smoothed loss, and to the
            gradients; 0 for nothing. With it there are gradients, R and chunk are even.

    Returns:
        Sums over the rows, in nats: negative log likelihood, smoothed loss (see softmax.row_loss),
        number of rows whose target is the first largest logit. The same bits for any number of
        threads.

    Raises:
        ShapeError: an array has another shape, dtype or layout, or a target is no class; rows are no pairs.
    """
    _check(h, b, targets)
    if divergence and (len(h) % 2 or (chunk or 0) % 2):
        raise ShapeError(f"output_loss: with a divergence of pairs rows must be even, got {len(h)}, chunk {chunk}")
    rows, hidden = h.shape
    vocab = b.shape[0]
    gradients = d_h is not None or dW is not None or db is not None
    sum_products = weight_gradient_bf16 if W_packed.dtype == PAIRS else weight_gradient
    chunk = chunk_rows(W_packed.dtype) if chunk is None else chunk
    logits = aligned((min(chunk, rows), vocab), h.dtype)
    nll, smoothed, correct = np.empty(rows), np.empty(rows), np.empty(rows, np.int64)
    divergences = np.zeros(rows // 2)
    for r0 in range(0, rows, chunk):
        r1 = min(rows, r0 + chunk)
        h_part, block, segments = h[r0:r1], logits[: r1 - r0], np.array([[0, r1 - r0]], np.int64)
        size = (r1 - r0) * hidden * vocab
        with operation("output layer: logits", multiply_adds=size):
            run_parallel(product, num_threads, h_part, 0, W_packed, block, 0, hidden, vocab, segments, 0)
        sums = nll[r0:r1], smoothed[r0:r1], correct[r0:r1]
        smoothing, factor = float(label_smoothing), float(scale)
        with operation("output layer: loss"):
            if divergence and gradients:
                extra = divergences[r0 // 2 : r1 // 2]
                given = block, b, targets[r0:r1], smoothing, factor, float(divergence), *sums, extra
                run_parallel(_loss_pairs, num_threads, *given)
            else:
                run_parallel(_loss_rows, num_threads, block, b, targets[r0:r1], smoothing, factor, gradients, *sums)
        if d_h is not None:
            with operation("output layer gradients: h", multiply_adds=size):
                run_parallel(product, num_threads, block, 0, Wt_packed, d_h[r0:r1], 0, vocab, hidden, segments, 0)
        if dW is not None:
            left, right = ((block, vocab), (h_part, hidden)) if transposed else ((h_part, hidden), (block, vocab))
            with operation("output layer gradients: weights", multiply_adds=size):
                run_parallel(
                    sum_products,
                    num_threads,
                    left[0],
                    0,
                    left[1],
                    right[0],
                    0,
                    right[1],
                    segments,
                    dW,
                    1,
                )
        if db is not None:
            with operation("output layer gradients: sums for b"):
                run_parallel(sum_rows, num_threads, block, 0, vocab, segments, db, 1)
    return float(nll.sum()), float(smoothed.sum()) + float(divergences.sum()), int(correct.sum())
