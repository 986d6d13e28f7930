"""Weights dropped for a training pass (Wan et al. 2013, Regularization of Neural Networks using DropConnect).

A cell requests it by `Param.dropout`; the step itself has the same formulas, with other numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.cell import Param
from nmt.rnn.device import Device

Arrays = dict[str, Array]
_OFFSET = 1 << 62  # counters of random numbers that masks of activations do not use (see `ForwardPass.draw_masks`)


def connections(params: Mapping[str, Param], seed: int, dtype: Any, device: Device, threads: int) -> Arrays:
    """Return the factor of each entry of the parameters with a dropout in this pass: 0 or 1 / (1 - rate)."""
    masks: Arrays = {}
    for n, (name, param) in enumerate((k, p) for k, p in params.items() if p.dropout > 0):
        masks[name] = device.xp.empty(param.shape, dtype)
        device.dropout_mask(masks[name].reshape(-1), 1 - param.dropout, seed, (n << 40) + _OFFSET, threads)
    return masks


def disconnected(weights: Weights, params: Mapping[str, Param], masks: Arrays, device: Device) -> Weights:
    """Return the weights of a pass; the same object if nothing is dropped."""
    if not masks:
        return weights
    masks = device.host(masks)
    return Weights({name: weights[name] * masks[name] if name in masks else weights[name] for name in params})


@contextmanager
def joined(gradients: Arrays, masks: Arrays, device: Device) -> Iterator[Arrays]:
    """Yield the arrays in which gradients of a pass are summed; at the end add them to `gradients`, without dropped
    entries."""
    dropped = {name: device.xp.zeros_like(masks[name]) for name in masks if name in gradients}
    if not dropped:
        yield gradients
        return
    yield gradients | dropped
    for name, share in device.host(dropped).items():
        gradients[name] += share * masks[name]
