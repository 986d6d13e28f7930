"""The source side: position embeddings, the encoder, and the bridge to the decoder's initial states."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nmt.config import ModelConfig
from nmt.errors import ConfigError
from nmt.model.batch_pass import BatchPass
from nmt.model.parts.cells import decoder_layers, encoder_cells
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.arrays.workspace import Group
from nmt.rnn.cell import Param, strip, under
from nmt.rnn.cells import LinearCell
from nmt.rnn.device import Device
from nmt.rnn.devices import cpu
from nmt.rnn.scan.layered import LayeredScan
from nmt.rnn.scan.passes import Tape
from nmt.rnn.scan.scan import Scan

DEVIATION = 0.1
"""The initial standard deviation of word and position embeddings below convolutions, which keep the variance of their
input (section 3.5): large embeddings would sharpen attention before it has learned where to attend."""


class NormalParam(Param):
    """An embedding table or the output layer's matrix: drawn from a normal distribution with its `deviation`, whatever
    the settings say of other matrices."""


class Positions:
    """A table of position embeddings, the parameter `name` [N, E]: one row for each of the first N positions; later
    positions share the last row."""

    def __init__(self, name: str, count: int, width: int, deviation: float, device: Device) -> None:
        self.name, self.device, self.count = name, device, count
        self.param: Param = NormalParam((count, width), deviation=deviation)

    def add(self, weights: Weights, x: Any) -> None:
        """Add the embeddings of positions 0, 1, ... to x [T, B, E], in place."""
        x = self.device.host(x)
        x += self.rows(weights, np.arange(len(x)))[:, None]

    def rows(self, weights: Weights, positions: np.ndarray) -> Any:
        """Return the embeddings [R, E] of positions [R], which are on the host."""
        return weights[self.name][self.device.index(np.minimum(positions, self.count - 1))]

    def gradient(self, d_x: Any, gradients: dict[str, Any], threads: int) -> None:
        """Add d_x [T, B, E], which is zero beyond the lengths, to the gradient of the table."""
        rows = np.minimum(np.arange(len(d_x)), self.count - 1).astype(np.int32)
        summed = self.device.xp.ascontiguousarray(self.device.host(d_x).sum(axis=1))
        self.device.embedding_gradient(rows, summed, gradients[self.name], 1.0, threads)


def make_positions(config: ModelConfig, device: Device) -> dict[str, Positions]:
    """Return the position embeddings of those sides, src and tgt, whose encoder or decoder is not recurrent and cannot
    tell positions apart."""
    found = {}
    for side, one in (("src", config.encoder), ("tgt", config.decoder)):
        if one.type == "conv":
            width = one.embeddings.embedding_dim
            deviation = DEVIATION * (width**0.5 if one.embeddings.scale else 1.0)
            found[side] = Positions(f"{side}_position_embeddings", one.max_positions, width, deviation, device)
    return found


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
    et al. (2017) with parameters `LAYER.*`, which have no states. The output of convolutional layer n is delayed by its
    context on the right; the scan corrects this."""

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
        lasting = partial(how.lasting, layers.device)
        result = layers.forward(
            weights,
            x,
            lengths=lengths,
            training=how.training,
            seed=how.seed,
            allocate=how.allocate,
            outputs=lasting,
            lasting=lasting,
            threads=how.threads,
        )
        each = [strip(result.final, str(n)) for n in range(len(layers.scans))]
        return Encoded(result.y, [{k: v for k, v in one.items() if v.ndim == 2} for one in each], result.tape)

    def backward(self, encoded: Encoded, d_memory: np.ndarray, d_final: list[States], gradients: Group) -> np.ndarray:
        """Return the gradient with respect to x; the gradients of the parameters are added to `gradients`."""
        d_last = {k: v for n, one in enumerate(d_final) for k, v in under(str(n), one).items()}
        found = self.layers.backward(encoded.tapes, d_memory, d_last, gradients, initial=()).x
        if found is None:
            raise RuntimeError("the encoder's scans gave no gradient for their input")
        return found


_MEAN = "mean"


class Bridge:
    """Initial states of the decoder. Decoder layer l starts from encoder layer l (from the last one if the encoder has
    fewer layers), each state from the state of the same name.

    A state that the encoder lacks (c of an LSTM decoder with a GRU encoder) starts from the encoder's h or, if there is
    none, from its first state; only states named by `Cell.starts` count. With init_from: top, all states start from h
    of the encoder's last layer; with mean, from the mean of its memory, which `with_mean` appends to the layers. A
    learned bridge computes tanh(W state + b), or the same without tanh.
    """

    def __init__(self, config: ModelConfig, **options: Any) -> None:
        """Make the bridge; `options`: see `Scan`. Raises ConfigError if states of different sizes are to be copied."""
        kind = config.decoder.init_hidden
        self.of_mean = config.decoder.init_from == "mean" and kind != "zero"
        self.device = options.get("device") or cpu()
        self.xp = self.device.xp
        encoder, directions = encoder_cells(config), 2 if config.encoder.bidirectional else 1
        # decoder state -> (encoder layer, encoder state)
        self.routes: dict[str, tuple[int, str]] = {}
        # decoder state -> the layer that computes it, if the bridge is learned
        self.scans: dict[str, Scan] = {}
        top, learned = config.decoder.init_from == "top", config.decoder.bridge_activation
        activation = "none" if learned == "linear" else learned
        for n, cell in enumerate(decoder_layers(config) if kind != "zero" else ()):
            layer = len(encoder) - 1 if top else min(n, len(encoder) - 1)
            for name in cell.starts() if self.of_mean or encoder[layer].starts() else ():
                width = cell.states()[name]
                if self.of_mean:
                    layer, source, size = -1, _MEAN, config.encoder.output_size
                else:
                    wanted = ("h", *encoder[layer].starts()) if top else (name, "h", *encoder[layer].starts())
                    source = next(k for k in wanted if k in encoder[layer].starts())
                    size = directions * encoder[layer].states()[source]
                if kind == "last" and size != width:
                    raise ConfigError(
                        f"model.decoder.init_hidden must be bridge or zero where the encoder's {source} has {size} "
                        f"numbers and the decoder's {name} {width}, got last"
                    )
                self.routes[f"{n}.{name}"] = layer, source
                if kind == "bridge":
                    self.scans[f"{n}.{name}"] = Scan(LinearCell(size, width, activation), **options)

    def params(self) -> dict[str, Param]:
        """Return the names and shapes of the parameters; there are none unless the bridge is learned."""
        return {k: v for name, scan in self.scans.items() for k, v in under(name, scan.cell.params()).items()}

    def with_mean(self, final: list[States], memory: Any, lengths: np.ndarray) -> list[States]:
        """Return `final` with the mean of memory [S, B, M] over the real positions of each row, [B, M], appended if
        states start from the mean."""
        if not self.of_mean:
            return final
        memory, weights = self.device.host(memory), self._mean_weights(memory, lengths)
        # Over the first axis NumPy adds in order, so that the bits do not depend on the longest sentence of the batch.
        # `where`: padding may hold anything, and 0 times infinity is no number.
        return [*final, {_MEAN: self.xp.where(weights > 0, memory * weights, 0).sum(axis=0, dtype=memory.dtype)}]

    def add_mean_gradient(self, d_memory: Any, d_final: list[States], lengths: np.ndarray) -> Any:
        """Return the gradient of the memory, including that of its mean."""
        if not self.of_mean:
            return d_memory
        d_memory, d_mean = self.device.host((d_memory, d_final[-1][_MEAN]))
        return d_memory + d_mean * self._mean_weights(d_memory, lengths)

    def _mean_weights(self, memory: Any, lengths: np.ndarray) -> Any:
        """Return 1 / length at the real positions of memory and 0 at padding: [S, B, 1]."""
        is_real = np.arange(len(memory))[:, None] < lengths
        weights = np.where(is_real, 1 / np.maximum(lengths, 1), 0).astype(memory.dtype)
        return self.xp.asarray(weights[:, :, None])

    def forward(self, weights: Weights, final: list[States], how: BatchPass) -> tuple[States, dict[str, Tape | None]]:
        """Return the initial states of the decoder by name, and tapes."""
        states, tapes = {name: final[layer][state] for name, (layer, state) in self.routes.items()}, {}
        for name, scan in self.scans.items():
            x, view = self.device.contiguous(states[name])[None], weights.view(name)
            result = scan.forward(view, x, training=how.training, allocate=how.allocate, threads=how.threads)
            states[name], tapes[name] = result.y[0], result.tape
        return states, tapes

    def backward(
        self, tapes: dict[str, Tape | None], d_states: States, final: list[States], gradients: Group, how: BatchPass
    ) -> list[States]:
        """Return the gradients of the encoder's final states."""
        d_final = [{k: how.lasting(self.device, v.shape, v.dtype) for k, v in layer.items()} for layer in final]
        for array in (array for layer in d_final for array in layer.values()):
            self.device.clear(array, how.threads)
        for name, (layer, state) in self.routes.items():
            d = d_states[name]
            tape = tapes.get(name)
            if tape is not None:
                below = gradients.view(name)
                got = self.scans[name].backward(tape, self.device.contiguous(d)[None], None, below).x
                if got is None:
                    raise RuntimeError("the bridge gave no gradient for its input")
                d = got[0]
            self.device.add(d_final[layer][state], d, how.threads)
        return d_final
