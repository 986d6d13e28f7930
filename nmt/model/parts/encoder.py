"""Encoders: layers of recurrent cells over the source, in one or both directions, or convolutional layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from nmt.config import ModelConfig
from nmt.model.batch_pass import BatchPass
from nmt.model.parts.cells import encoder_cells
from nmt.rnn.arrays.flat_arrays import Group
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.cell import Param, dims_of, under
from nmt.rnn.profile import operation
from nmt.rnn.scan.layered import LayeredScan
from nmt.rnn.scan.scan import Scan
from nmt.rnn.scan.short_runs import ShortRuns
from nmt.rnn.scan.tape import Tape

States = dict[str, np.ndarray]
DIRECTIONS = ("forward", "backward")
_SEED_STEP = 0x9E3779B97F4A7C15
"""The distance between the seeds of two groups of 32 layers: far from the seeds of other batches."""


@dataclass
class Encoded:
    """The result of an encoder: memory [S, B, M]; the final states of each layer, both directions concatenated [B, M];
    tapes for the backward pass."""

    memory: np.ndarray
    final: list[States]
    tapes: Any


class Encoder(Protocol):
    """The interface of encoders."""

    scans: list[Scan]

    def params(self) -> dict[str, Param]:
        """Return the names and shapes of the parameters."""

    def runs(self, S: int) -> Iterator[tuple[str, Scan, int, int]]:
        """Yield every run over sources of S positions, as `LayeredScan.runs` does; for `nmt.model.footprint`."""

    def forward(self, weights: Weights, x: np.ndarray, lengths: np.ndarray, how: BatchPass) -> Encoded:
        """Return the memory and the final states for x [S, B, E] with the length of each row."""

    def backward(
        self, encoded: Encoded, d_memory: np.ndarray, d_final: list[States], gradients: Group, how: BatchPass
    ) -> np.ndarray:
        """Return the gradient with respect to x; the gradients of the parameters are added to `gradients` (named as in
        `params`)."""


def make_encoder(config: ModelConfig, **options: Any) -> Encoder:
    """Return the encoder that the settings describe; `options` are those of `Scan`."""
    return (ConvEncoder if config.encoder.type == "conv" else RecurrentEncoder)(config, **options)


class ConvEncoder:
    """The encoder of Gehring et al. (2017): parameters `LAYER.*`; it has no final states.

    The output of layer n is delayed by its context on the right; the scan corrects this.
    """

    def __init__(self, config: ModelConfig, **options: Any) -> None:
        """Make the layers; `options` are those of `Scan`."""
        cells = encoder_cells(config)
        delays = [getattr(cell, "delay", 0) for cell in cells]
        self.whole = LayeredScan(cells, delays=delays, **options)
        self.scans = self.whole.scans

    def params(self) -> dict[str, Param]:
        """Return the names and shapes of the parameters."""
        return self.whole.params

    def runs(self, S: int) -> Iterator[tuple[str, Scan, int, int]]:
        """Return an iterator over all runs; see `Encoder.runs`."""
        return self.whole.runs(S)

    def forward(self, weights: Weights, x: np.ndarray, lengths: np.ndarray, how: BatchPass) -> Encoded:
        """Encode x; see `Encoder.forward`."""
        result = self.whole.forward(
            weights,
            x,
            lengths=lengths,
            training=how.training,
            seed=how.seed,
            allocate=how.allocate,
            label="encoder",
            threads=how.threads,
        )
        return Encoded(result.y, [{}], result.tape)

    def backward(
        self, encoded: Encoded, d_memory: np.ndarray, d_final: list[States], gradients: Group, how: BatchPass
    ) -> np.ndarray:
        """Return the gradient with respect to x; see `Encoder.backward`."""
        found = self.whole.backward(encoded.tapes, d_memory, None, gradients).x
        if found is None:
            raise RuntimeError("the encoder's scans gave no gradient for their input")
        return found


class RecurrentEncoder:
    """An encoder of recurrent layers, with parameters `LAYER.forward.*` and `LAYER.backward.*`."""

    def __init__(self, config: ModelConfig, **options: Any) -> None:
        """Make the layers; `options` are those of `Scan`."""
        self.cells = encoder_cells(config)
        self.directions = DIRECTIONS if config.encoder.bidirectional else DIRECTIONS[:1]
        self.scans = [Scan(cell, **options) for cell in self.cells]
        self.residual = config.encoder.residual
        joins = [partial(_by_layer, directions=len(self.directions)) for _ in self.scans[0].states]
        self._short = ShortRuns(self.scans, self.directions, joins)
        self.device = self.scans[0].device

    def params(self) -> dict[str, Param]:
        """Return the names and shapes of the parameters."""
        return {
            k: v
            for layer, cell in enumerate(self.cells)
            for direction in self.directions
            for k, v in under(f"{layer}.{direction}", cell.params()).items()
        }

    def runs(self, S: int) -> Iterator[tuple[str, Scan, int, int]]:
        """Yield all runs; see `Encoder.runs`."""
        for layer, scan in enumerate(self.scans):
            for direction in self.directions:
                yield f"{layer}.{direction}", scan, S, 0

    def forward(self, weights: Weights, x: np.ndarray, lengths: np.ndarray, how: BatchPass) -> Encoded:
        """Encode x; see `Encoder.forward`."""
        if not how.training and not self.residual and self._short.takes(x, lengths):
            return self._forward_short(weights, x, how.threads)
        final: list[States] = []
        tapes: list[list[Tape | None]] = []
        for layer, scan in enumerate(self.scans):
            results = [
                scan.forward(
                    weights.view(f"{layer}.{direction}"),
                    x,
                    lengths=lengths,
                    reverse=direction == "backward",
                    training=how.training,
                    seed=_layer_seed(how.seed, layer, n),
                    allocate=how.allocate,
                    label=f"encoder.{layer}.{direction}",
                    threads=how.threads,
                )
                for n, direction in enumerate(self.directions)
            ]
            with operation("encoder: joining directions"):
                y = self._joined([r.y for r in results], how, apart=layer > 0 and self.residual)
                if layer and self.residual:
                    self.device.add(y, x, how.threads)
                x = y
            vectors = [k for k, width in scan.states.items() if not dims_of(width)]
            final.append({k: self._joined([r.final[k] for r in results], how) for k in vectors})
            tapes.append([r.tape for r in results])
        return Encoded(x, final, tapes)

    def _forward_short(self, weights: Weights, x: np.ndarray, threads: int) -> Encoded:
        """Return the same result for short sources, computed by prepared runs without tapes."""
        with operation("encoder"):
            memory, *states = self._short(weights, x, threads)
        final = [dict(zip(self.scans[0].states, layer, strict=True)) for layer in zip(*states, strict=True)]
        return Encoded(memory, final or [{} for _ in self.scans], None)

    def backward(
        self, encoded: Encoded, d_memory: np.ndarray, d_final: list[States], gradients: Group, how: BatchPass
    ) -> np.ndarray:
        """Return the gradient with respect to x; see `Encoder.backward`."""
        d = d_memory
        for layer in reversed(range(len(self.scans))):
            d_x = None
            for n, direction in enumerate(self.directions):
                below = gradients.view(f"{layer}.{direction}")
                tape = encoded.tapes[layer][n]
                if tape is None:
                    raise RuntimeError("the encoder ran without training=True")
                with operation("encoder gradients: splitting directions"):
                    d_last = {k: self._half(g, n, how) for k, g in d_final[layer].items()}
                    d_half = self._half(d, n, how)
                got = self.scans[layer].backward(tape, d_half, d_last, below, initial=()).x
                if d_x is None:
                    d_x = got
                elif got is not None:
                    with operation("encoder gradients: joining directions"):
                        self.device.add(d_x, got, how.threads)
            if d_x is None:
                raise RuntimeError("the encoder's scans gave no gradient for their input")
            if layer and self.residual:
                self.device.add(d_x, d, how.threads)
            d = d_x
        return d

    def _joined(self, parts: list[np.ndarray], how: BatchPass, *, apart: bool = False) -> np.ndarray:
        """Return the concatenated outputs of all directions, with `apart` in memory that nothing else reads."""
        if len(parts) == 1 and not apart:
            return parts[0]
        shape = *parts[0].shape[:-1], sum(part.shape[-1] for part in parts)
        out: np.ndarray = how.lasting(self.device, shape, parts[0].dtype)
        self.device.join_columns(parts, out, how.threads)
        return out

    def _half(self, both: np.ndarray, n: int, how: BatchPass) -> np.ndarray:
        """Return the columns of direction n."""
        if len(self.directions) == 1:
            return both
        width = both.shape[-1] // len(self.directions)
        out: np.ndarray = how.allocate((*both.shape[:-1], width), both.dtype)
        self.device.take_columns(both, n * width, out, how.threads)
        return out


def _layer_seed(seed: int, layer: int, direction: int) -> int:
    """Return the dropout seed of a layer and direction, which no other pair has, for this seed or the following
    ones."""
    return (seed + layer // 32 * _SEED_STEP) * 64 + layer % 32 * 2 + direction


def _by_layer(last: Sequence[np.ndarray], directions: int) -> list[np.ndarray]:
    """Return the final states of each layer, both directions concatenated [B, M], from one state [1, B, n] per layer
    and direction."""
    starts = range(0, len(last), directions)
    return [np.concatenate([one[0] for one in last[n : n + directions]], axis=-1) for n in starts]
