"""Minimum risk training: the loss and its gradients at the output layer (Shen et al. 2016, "Minimum Risk Training for
Neural Machine Translation", section 3). The weights of candidates are computed by `Risk` in objective.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from nmt.model.batch_pass import BatchPass, Targets
    from nmt.rnn.arrays.device_operations import OutputGradients, OutputLayer
    from nmt.rnn.device import Device


def risk_loss(
    device: Device,
    layer: OutputLayer,
    h: np.ndarray,
    into: OutputGradients,
    *,
    rows: np.ndarray,
    batch: Targets,
    how: BatchPass,
    scale: float,
) -> np.ndarray:
    """Return the loss of a batch of candidates; its gradients are written to `into`.

    Distributions are computed twice: the factor of a token's gradient is known only when the probabilities of all
    candidates of its sentence are.

    Args:
        device, layer: The device, which must be the processor, and the output layer.
        h: Outputs [R, H] of the decoder at all real positions.
        into: Gradients: that of h [R, H] is overwritten, those of the layer are added to.
        rows: The real positions in arrays [T * B, ...], int64 [R].
        batch: The candidates.
        how: The pass, with the `risk` of its objective, which describes the rows of the batch, and the label smoothing
            of the references' likelihood.
        scale: A factor of the gradients only.

    Returns:
        The negative log-likelihood of the references, the whole loss, and the number of tokens of the references that
        are the most probable ones: float64 [3].
    """
    risk, lengths, threads, label_smoothing = how.objective.risk, batch.tgt_lengths, how.threads, how.label_smoothing
    if risk is None:
        raise RuntimeError("the batch has no candidates")
    targets, rows = batch.tgt_out.reshape(-1)[rows], rows % len(lengths)
    own, mean, correct = device.processor.row_losses(h, layer, targets, threads)
    referred = risk.is_reference[rows]
    loss, slopes = risk.weigh(np.bincount(rows, -own, len(lengths)), lengths)
    nll = own[referred].sum()
    smoothed = (1 - label_smoothing) * nll + label_smoothing * mean[referred].sum()
    # The gradient of the logits is p * (likelihood - slope), minus the smoothing everywhere and the rest at the target.
    likelihood, V = np.where(referred, risk.likelihood, 0.0), len(layer.weights[layer.bias])
    of_target = slopes[rows] - (1 - label_smoothing) * likelihood
    weights = scale * np.stack([likelihood - slopes[rows], label_smoothing / V * likelihood, of_target])
    device.processor.weighted_gradients(h, layer, targets, weights.astype(h.dtype), into, threads)
    return np.array([nll, loss + risk.likelihood * smoothed, np.count_nonzero(correct[referred])])
