"""Learned position embeddings, added to word embeddings (Gehring et al. 2017, section 3.1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from nmt.config import ModelConfig
from nmt.config.model_section import DecoderConfig, EncoderConfig
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.cell import Param
from nmt.rnn.device import Device
from nmt.rnn.profile import operation

DEVIATION = 0.1
"""The initial standard deviation of word and position embeddings below convolutions (section 3.5)."""


class NormalParam(Param):
    """An embedding table or the output layer's matrix: drawn from a normal distribution with its `deviation`, whatever
    the settings say of other matrices."""


class Positions:
    """A table of position embeddings, the parameter `name` [N, E]: one row for each of the first N positions; later
    positions share the last row."""

    def __init__(self, name: str, count: int, width: int, deviation: float, device: Device) -> None:
        self.name, self.device, self.count = name, device, count
        self._param = NormalParam((count, width), deviation=deviation)

    def params(self) -> dict[str, Param]:
        """Return the shape of the table."""
        return {self.name: self._param}

    def add(self, weights: Weights, x: Any) -> None:
        """Add the embeddings of positions 0, 1, ... to x [T, B, E], in place."""
        with operation("position embeddings"):
            x = self.device.host(x)
            x += self.rows(weights, np.arange(len(x)))[:, None]

    def rows(self, weights: Weights, positions: np.ndarray) -> Any:
        """Return the embeddings [R, E] of positions [R], which are on the host."""
        return weights[self.name][self.device.index(np.minimum(positions, self.count - 1))]

    def gradient(self, d_x: Any, gradients: dict[str, Any], threads: int) -> None:
        """Add d_x [T, B, E], which is zero beyond the lengths, to the gradient of the table."""
        with operation("position embeddings: gradient"):
            rows = np.minimum(np.arange(len(d_x)), self.count - 1).astype(np.int32)
            summed = self.device.xp.ascontiguousarray(self.device.host(d_x).sum(axis=1))
            self.device.embedding_gradient(rows, summed, gradients[self.name], 1.0, threads)


def make_positions(config: ModelConfig, sides: Iterable[str], device: Device) -> dict[str, Positions]:
    """Return the position embeddings of those `sides`, src and tgt, whose encoder or decoder is not recurrent and
    cannot tell positions apart."""
    found = {}
    for side in sides:
        one = config.encoder if side == "src" else config.decoder
        if one.type == "conv":
            width = one.embeddings.embedding_dim
            deviation = DEVIATION * (width**0.5 if one.embeddings.scale else 1.0)
            found[side] = Positions(f"{side}_position_embeddings", one.max_positions, width, deviation, device)
    return found


def embedding_deviation(side: EncoderConfig | DecoderConfig) -> float:
    """Return the initial standard deviation of the word embeddings of an encoder or decoder.

    Convolutions keep the variance of their input. Large embeddings would sharpen attention before it has learned where
    to attend, and the output with it.
    """
    return DEVIATION if side.type == "conv" else 1.0
