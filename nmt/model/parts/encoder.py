"""Encoders: layers of recurrent cells over the source, in one or both directions, or convolutional layers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nmt.config import ModelConfig
from nmt.model.batch_pass import BatchPass
from nmt.model.parts.cells import encoder_cells
from nmt.rnn.arrays.flat_arrays import Group
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.cell import strip, under
from nmt.rnn.scan.layered import LayeredScan

States = dict[str, np.ndarray]


@dataclass
class Encoded:
    """The result of an encoder: memory [S, B, M]; the final states of each layer that are vectors, both directions
    concatenated [B, M]; tapes for the backward pass."""

    memory: np.ndarray
    final: list[States]
    tapes: Any


class Encoder:
    """Recurrent layers with parameters `LAYER.forward.*` and `LAYER.backward.*`; or the convolutional layers of Gehring
    et al. (2017) with parameters `LAYER.*`, which have no states.

    The output of convolutional layer n is delayed by its context on the right; the scan corrects this.
    """

    def __init__(self, config: ModelConfig, **options: Any) -> None:
        """Make the layers; `options` are those of `Scan`."""
        cells, encoder = encoder_cells(config), config.encoder
        self.is_recurrent = encoder.type != "conv"
        directions = ("forward", "backward")[: 1 + encoder.bidirectional] if self.is_recurrent else ()
        delays = [getattr(cell, "delay", 0) for cell in cells]
        residual = self.is_recurrent and encoder.residual
        self.layers = LayeredScan(cells, delays=delays, directions=directions, residual=residual, **options)

    def forward(self, weights: Weights, x: np.ndarray, lengths: np.ndarray, how: BatchPass) -> Encoded:
        """Return the memory and the final states for x [S, B, E] with the length of each row."""
        layers = self.layers
        result = layers.forward(
            weights,
            x,
            lengths=lengths,
            training=how.training,
            seed=how.seed,
            allocate=how.allocate,
            outputs=partial(how.lasting, layers.device),
            label="encoder",
            threads=how.threads,
        )
        each = [strip(result.final, str(n)) for n in range(len(layers.scans))]
        return Encoded(result.y, [{k: v for k, v in one.items() if v.ndim == 2} for one in each], result.tape)

    def backward(
        self, encoded: Encoded, d_memory: np.ndarray, d_final: list[States], gradients: Group, how: BatchPass
    ) -> np.ndarray:
        """Return the gradient with respect to x; the gradients of the parameters are added to `gradients`."""
        d_last = {k: v for n, one in enumerate(d_final) for k, v in under(str(n), one).items()}
        found = self.layers.backward(encoded.tapes, d_memory, d_last, gradients, initial=()).x
        if found is None:
            raise RuntimeError("the encoder's scans gave no gradient for their input")
        return found
