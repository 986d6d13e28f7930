"""Minimum risk training: the loss and its gradients at the output layer (Shen et al. 2016, "Minimum Risk Training for
Neural Machine Translation", section 3). What is weighed how is `Risk` in objective.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nmt.rnn.profile import operation

if TYPE_CHECKING:
    from nmt.model.batch_pass import BatchPass, Targets
    from nmt.rnn.device import Device, OutputGradients, OutputLayer

_ROWS = 1024
"""Rows whose distributions over all tokens exist at a time."""


def risk_loss(
    device: Device,
    layer: OutputLayer,
    h: np.ndarray,
    into: OutputGradients,
    *,
    rows: np.ndarray,
    batch: Targets,
    how: BatchPass,
    label_smoothing: float,
    scale: float,
) -> np.ndarray:
    """The loss of a batch of candidates, and its gradients.

    Distributions are computed twice: what a token's gradient is multiplied by is known only when the probabilities of
    all candidates of its sentence are.

    Args:
        device, layer: Where and what predicts; the processor.
        h: Outputs [R, H] of the decoder at all real positions.
        into: Gradients: of h [R, H], which is filled, and of the layer, which are added to.
        rows: The real positions in arrays [T * B, ...], int64 [R].
        batch: The candidates.
        how: The pass, with the `risk` of its objective, which says what the rows of the batch are.
        label_smoothing: Of the likelihood of the references.
        scale: A factor of the gradients alone.

    Returns:
        Negative log-likelihood of the references, whole loss, and how many tokens of the references are the most
        probable ones: float64 [3].
    """
    risk, lengths, threads = how.objective.risk, batch.tgt_lengths, how.threads
    if risk is None:
        raise RuntimeError("the batch has no candidates")
    targets, rows = batch.tgt_out.reshape(-1)[rows], rows % len(lengths)
    own, plain, correct = _of_tokens(device, layer, h, targets, threads)
    referred = risk.is_reference[rows]
    loss, slopes = risk.weigh(np.bincount(rows, own, len(lengths)), lengths)
    nll = -own[referred].sum()
    smoothed = (1 - label_smoothing) * nll - label_smoothing * plain[referred].sum()
    # The gradient by the logits is p * (likelihood - slope), evenly less what is smoothed, and the rest at the target.
    likelihood, V = np.where(referred, risk.likelihood, 0.0), len(layer.weights[layer.bias])
    of_probs = (scale * (likelihood - slopes[rows])).astype(h.dtype)
    of_each = (scale * label_smoothing / V * likelihood).astype(h.dtype)
    of_target = (scale * (slopes[rows] - (1 - label_smoothing) * likelihood)).astype(h.dtype)
    matrix = layer.weights[layer.matrix]
    for block in _blocks(len(h)):
        with operation("output layer: log-probabilities"):
            d_logits = device.log_probs(h[block], layer, threads)
        with operation("output layer gradients: risk"):
            np.exp(d_logits, out=d_logits)
            d_logits *= of_probs[block, None]
            d_logits -= of_each[block, None]
            d_logits[np.arange(len(d_logits)), targets[block]] += of_target[block]
            into.h[block] = d_logits @ (matrix if layer.tied else matrix.T)
            into.matrix[...] += d_logits.T @ h[block] if layer.tied else h[block].T @ d_logits
            into.bias[...] += d_logits.sum(0)
    return np.array([nll, loss + risk.likelihood * smoothed, np.count_nonzero(correct & referred)])


def _of_tokens(
    device: Device, layer: OutputLayer, h: np.ndarray, targets: np.ndarray, threads: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """At each position the target's log-probability, the mean of all tokens', and whether the target's is the largest;
    [R] each."""
    own, plain, correct = np.empty(len(h)), np.empty(len(h)), np.empty(len(h), bool)
    for block in _blocks(len(h)):
        with operation("output layer: log-probabilities"):
            log_probs = device.log_probs(h[block], layer, threads)
        own[block] = log_probs[np.arange(len(log_probs)), targets[block]]
        plain[block] = log_probs.mean(1, dtype=np.float64)
        correct[block] = log_probs.argmax(1) == targets[block]
    return own, plain, correct


def _blocks(rows: int) -> list[slice]:
    return [slice(first, first + _ROWS) for first in range(0, rows, _ROWS)]
