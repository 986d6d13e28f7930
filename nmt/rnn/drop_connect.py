"""Weights that take no part in a training pass (Wan et al. 2013, Regularization of Neural Networks using DropConnect).

A cell asks for it by `Param.dropout`; the step itself is the same mathematics, on other numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from nmt.rnn.cell import Param
from nmt.rnn.kernels.threads import run_parallel
from nmt.rnn.kernels.update import dropout_mask
from nmt.rnn.weights import Weights

Arrays = dict[str, np.ndarray]
_OFFSET = 1 << 32  # counters of random numbers that masks of activations do not reach (see `Scan._draw`)


def connections(params: Mapping[str, Param], seed: int, dtype: Any, threads: int) -> Arrays:
    """What each entry of the parameters with a dropout is multiplied by in this pass: 0 or 1 / (1 - rate)."""
    masks: Arrays = {}
    for n, (name, param) in enumerate((k, p) for k, p in params.items() if p.dropout > 0):
        masks[name] = np.empty(param.shape, dtype)
        offset = np.uint64((n << 40) + (_OFFSET << 30))
        run_parallel(dropout_mask, threads, masks[name].reshape(-1), 1 - param.dropout, np.uint64(seed % 2**64), offset)
    return masks


def disconnected(weights: Weights, params: Mapping[str, Param], masks: Arrays) -> Weights:
    """The weights of a pass; the same object where nothing is dropped."""
    if not masks:
        return weights
    return Weights({name: weights[name] * masks[name] if name in masks else weights[name] for name in params})


@contextmanager
def joined(gradients: Arrays, masks: Arrays) -> Iterator[Arrays]:
    """Where gradients of a pass are added up; at the end those of dropped entries are left out of `gradients`."""
    apart = {name: np.zeros_like(gradients[name]) for name in masks if name in gradients}
    yield gradients | apart
    for name, share in apart.items():
        gradients[name] += share * masks[name]
