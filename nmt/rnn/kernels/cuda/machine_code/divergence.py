"""R-Drop on a GPU, by array operations: two passes over a sentence with different dropout should predict alike (Liang
et al. 2021, section 2.1). On the processor it is a part of the output layer's loss (kernels/model/output.py).
"""

from __future__ import annotations

from typing import Any

from nmt.rnn.arrays.device_operations import OutputGradients, OutputLayer
from nmt.rnn.device import Device

_ROWS = 256
"""Rows whose distributions over all tokens are computed at a time; even, since rows come in pairs."""


def add_divergence(
    device: Device, layer: OutputLayer, h: Any, into: OutputGradients, *, weight: float, scale: float, threads: int
) -> Any:
    """Add to the gradients `into` `weight` times the symmetric Kullback-Leibler divergence of the distributions of rows
    2 i and 2 i + 1 of the decoder's outputs h [R, H], R even: half of KL(P || Q) + KL(Q || P) for each pair, as in
    equation 3. `scale` is a factor of the gradients only. Return the sum of the weighted divergences, a number of the
    device in float64."""
    xp, matrix = device.xp, layer.weights[layer.matrix]
    total = xp.zeros((), "float64")
    for first in range(0, len(h), _ROWS):
        rows = slice(first, first + _ROWS)
        outputs = xp.ascontiguousarray(h[rows])
        log_probs = device.log_probs(outputs, layer, threads)
        one, other = log_probs[0::2], log_probs[1::2]
        difference = one - other
        p, q = xp.exp(one), xp.exp(other)
        of_one = (p * difference).sum(1, keepdims=True)
        of_other = -(q * difference).sum(1, keepdims=True)
        total += weight * 0.5 * (of_one + of_other).astype("float64").sum()
        d_logits = xp.empty_like(log_probs)
        d_logits[0::2] = p * (difference - of_one) + p - q
        d_logits[1::2] = q * (-difference - of_other) + q - p
        d_logits *= log_probs.dtype.type(0.5 * weight * scale)
        into.h[rows] += d_logits @ (matrix if layer.tied else matrix.T)
        into.matrix[...] += d_logits.T @ outputs if layer.tied else outputs.T @ d_logits
        into.bias[...] += d_logits.sum(0)
    return total
