"""From the encoder's last states to the decoder's first ones: zero, the same, or learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmt.config import ModelConfig
from nmt.model.cells import memory_size, recurrent_cell
from nmt.rnn.cell import Param, under
from nmt.rnn.cells import LinearCell
from nmt.rnn.scan import Scan, Tape
from nmt.rnn.weights import Weights

States = dict[str, np.ndarray]


class Bridge:
    """Decoder layer l starts from encoder layer l (the last one where the encoder has fewer), each state from its
    namesake.

    A state the encoder lacks (an LSTM decoder's c above a GRU encoder) starts from the encoder's h. Learned: tanh(W
    state + b).
    """

    def __init__(self, config: ModelConfig, **options: Any) -> None:
        """`options` are those of `Scan`."""
        self.kind = config.decoder.init_hidden
        decoder, layers = config.decoder, config.encoder.num_layers
        has = recurrent_cell(config.encoder.rnn_type, 1, 1).states()
        names = recurrent_cell(decoder.rnn_type, 1, decoder.hidden_size).states()
        # decoder state -> (encoder layer, encoder state)
        self.routes = {
            f"{layer}.{name}": (min(layer, layers - 1), name if name in has else "h")
            for layer in range(decoder.num_layers)
            for name in names
        }
        self.cell = LinearCell(memory_size(config), decoder.hidden_size, "tanh")
        self.scan = Scan(self.cell, **options)

    def params(self) -> dict[str, Param]:
        """Names and shapes; none unless learned."""
        if self.kind != "bridge":
            return {}
        return {k: v for name in self.routes for k, v in under(name, self.cell.params()).items()}

    def forward(
        self, weights: Weights, final: list[States], *, training: bool, allocate: Any
    ) -> tuple[States, dict[str, Tape | None]]:
        """The decoder's first states by name, and tapes."""
        if self.kind == "zero":
            return {}, {}
        if self.kind == "last":
            return {name: final[layer][state] for name, (layer, state) in self.routes.items()}, {}
        states, tapes = {}, {}
        for name, (layer, state) in self.routes.items():
            x = self.scan.device.xp.ascontiguousarray(final[layer][state])[None]
            result = self.scan.forward(
                weights.view(name), x, training=training, allocate=allocate, label=f"bridge.{name}"
            )
            states[name], tapes[name] = result.y[0], result.tape
        return states, tapes

    def backward(
        self, tapes: dict[str, Tape | None], d_states: States, final: list[States], gradients: dict[str, np.ndarray]
    ) -> list[States]:
        """Gradients of the encoder's final states."""
        xp = self.scan.device.xp
        d_final = [{k: xp.zeros_like(v) for k, v in layer.items()} for layer in final]
        if self.kind == "zero":
            return d_final
        for name, (layer, state) in self.routes.items():
            d = d_states[name]
            tape = tapes.get(name)
            if tape is not None:
                inner = {k[len(name) + 1 :]: g for k, g in gradients.items() if k.startswith(f"{name}.")}
                got = self.scan.backward(tape, xp.ascontiguousarray(d)[None], None, inner).x
                if got is None:
                    raise RuntimeError("the bridge gave no gradient for its input")
                d = got[0]
            d_final[layer][state] += d
        return d_final
