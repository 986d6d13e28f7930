"""Losses of attention: guided alignment and coverage."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmt.model.batch_pass import Objective
from nmt.rnn.device import Device

_LEAST = 1e-8
"""The least attention: smaller values are raised to it, so that their logarithm is finite."""


def attention_loss(
    device: Device, weights: Any, lengths: np.ndarray, objective: Objective, scale: float
) -> tuple[Any, Any]:
    """Return the loss of attention weights, and its gradient.

    Guided alignment: the cross entropy between the alignment's shares and attention (Chen et al. 2016, section 3.1,
    equation 5). Coverage: the sum over steps and positions of min(weight, sum of the weights of the previous steps)
    (See et al. 2017, equation 12).

    Args:
        device: The device of the weights.
        weights: Attention [T, B, n].
        lengths: The steps of each row [B], on the host.
        objective: The weights of both losses, and the alignment.
        scale: A factor of the gradient only.

    Returns:
        The sum that is added to the loss, and its gradient with respect to the weights, zero beyond the lengths.
    """
    xp = device.xp
    gradient = xp.zeros_like(weights)
    total = xp.zeros((), "float64")
    if objective.coverage:
        real = device.upload((np.arange(len(weights))[:, None] < lengths[None]).astype(weights.dtype))[..., None]
        before = xp.cumsum(weights, axis=0) - weights
        new = (weights <= before).astype(weights.dtype) * real
        total += objective.coverage * (xp.minimum(weights, before) * real).astype("float64").sum()
        # If the sum of the previous steps is the smaller one, the gradient goes to each of them.
        old = real - new
        after = xp.cumsum(old[::-1], axis=0)[::-1] - old
        gradient += (new + after) * real * weights.dtype.type(objective.coverage * scale)
    if objective.guided_alignment and objective.alignment is not None:
        found = objective.alignment
        at = device.index(found.step), device.index(found.row), device.index(found.position)
        share = device.upload(found.share.astype(weights.dtype))
        there = xp.maximum(weights[at], weights.dtype.type(_LEAST))
        total -= objective.guided_alignment * (share * xp.log(there)).astype("float64").sum()
        gradient[at] -= weights.dtype.type(objective.guided_alignment * scale) * share / there
    return total, gradient
