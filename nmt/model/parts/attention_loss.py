"""The loss of attention that follows word alignments."""

from __future__ import annotations

from typing import Any

from nmt.model.batch_pass import Objective
from nmt.rnn.device import Device

_LEAST = 1e-8
"""The least attention: smaller values are raised to it, so that their logarithm is finite."""


def attention_loss(device: Device, weights: Any, objective: Objective, scale: float) -> tuple[Any, Any]:
    """Return the cross entropy between the alignment's shares and attention (Chen et al. 2016, section 3.1, equation 5)
    that is added to the loss, and its gradient with respect to the weights, which `scale` multiplies.

    Args:
        device: The device of the weights.
        weights: Attention [T, B, n].
        objective: The weight of the loss, and the alignment.
    """
    xp = device.xp
    gradient, total = xp.zeros_like(weights), xp.zeros((), "float64")
    if (found := objective.alignment) is not None:
        at = device.index(found.step), device.index(found.row), device.index(found.position)
        share = device.upload(found.share.astype(weights.dtype))
        there = xp.maximum(weights[at], weights.dtype.type(_LEAST))
        total -= objective.guided_alignment * (share * xp.log(there)).astype("float64").sum()
        gradient[at] -= weights.dtype.type(objective.guided_alignment * scale) * share / there
    return total, gradient
