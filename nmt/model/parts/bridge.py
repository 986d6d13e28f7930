"""The bridge: the initial states of the decoder, which are zero, copied from the encoder, or learned from its
states."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmt.config import ModelConfig
from nmt.errors import ConfigError
from nmt.model.batch_pass import BatchPass
from nmt.model.parts.cells import decoder_layers, encoder_cells
from nmt.rnn.arrays.flat_arrays import Group
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.cell import Param, under
from nmt.rnn.cells import LinearCell
from nmt.rnn.devices import cpu
from nmt.rnn.scan.scan import Scan
from nmt.rnn.scan.tape import Tape

States = dict[str, np.ndarray]

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
        """Make the bridge; `options` are those of `Scan`. Raises ConfigError if states of different sizes are to be
        copied."""
        self.kind = config.decoder.init_hidden
        self.of_mean = config.decoder.init_from == "mean" and self.kind != "zero"
        self.device = options.get("device") or cpu()
        self.xp = self.device.xp
        encoder, directions = encoder_cells(config), 2 if config.encoder.bidirectional else 1
        # decoder state -> (encoder layer, encoder state)
        self.routes: dict[str, tuple[int, str]] = {}
        # decoder state -> the layer that computes it
        self.scans: dict[str, Scan] = {}
        top, learned = config.decoder.init_from == "top", config.decoder.bridge_activation
        activation = "none" if learned == "linear" else learned
        for n, cell in enumerate(decoder_layers(config)):
            layer = len(encoder) - 1 if top else min(n, len(encoder) - 1)
            for name in cell.starts() if self.of_mean or encoder[layer].starts() else ():
                width = cell.states()[name]
                if self.of_mean:
                    layer, source, size = -1, _MEAN, config.encoder.output_size
                else:
                    wanted = ("h", *encoder[layer].starts()) if top else (name, "h", *encoder[layer].starts())
                    source = next(k for k in wanted if k in encoder[layer].starts())
                    size = directions * encoder[layer].states()[source]
                if self.kind == "last" and size != width:
                    raise ConfigError(
                        f"model.decoder.init_hidden must be bridge or zero where the encoder's {source} has {size} "
                        f"numbers and the decoder's {name} {width}, got last"
                    )
                self.routes[f"{n}.{name}"] = layer, source
                self.scans[f"{n}.{name}"] = Scan(LinearCell(size, width, activation), **options)

    def params(self) -> dict[str, Param]:
        """Return the names and shapes of the parameters; there are none unless the bridge is learned."""
        if self.kind != "bridge":
            return {}
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
        if self.kind == "zero":
            return {}, {}
        if self.kind == "last":
            return {name: final[layer][state] for name, (layer, state) in self.routes.items()}, {}
        states, tapes = {}, {}
        for name, (layer, state) in self.routes.items():
            x = self.device.contiguous(final[layer][state])[None]
            result = self.scans[name].forward(
                weights.view(name),
                x,
                training=how.training,
                allocate=how.allocate,
                label=f"bridge.{name}",
                threads=how.threads,
            )
            states[name], tapes[name] = result.y[0], result.tape
        return states, tapes

    def backward(
        self, tapes: dict[str, Tape | None], d_states: States, final: list[States], gradients: Group, threads: int
    ) -> list[States]:
        """Return the gradients of the encoder's final states."""
        d_final = [{k: self.xp.zeros_like(v) for k, v in layer.items()} for layer in final]
        if self.kind == "zero":
            return d_final
        for name, (layer, state) in self.routes.items():
            d = d_states[name]
            tape = tapes.get(name)
            if tape is not None:
                below = gradients.view(name)
                got = self.scans[name].backward(tape, self.device.contiguous(d)[None], None, below).x
                if got is None:
                    raise RuntimeError("the bridge gave no gradient for its input")
                d = got[0]
            self.device.add(d_final[layer][state], d, threads)
        return d_final
