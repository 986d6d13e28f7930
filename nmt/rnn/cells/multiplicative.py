"""Multiplicative integration: inputs and states are combined by an elementwise product and a sum (Wu et al. 2016)."""

from nmt.rnn.cell import Cell, Param, Scope, State
from nmt.rnn.cells.layer_norm import norm_params, normalised
from nmt.rnn.functions import sigmoid, split, tanh
from nmt.rnn.graph import Value


class MILSTMCell(Cell):
    """a = alpha * (x W_x) * (h W_h) + beta_x * (x W_x) + beta_h * (h W_h) + b (Wu et al. 2016, On Multiplicative
    Integration with Recurrent Neural Networks, equation 4), in an LSTM (appendix A); gates i, f, g, o.

    With `layer_norm` both products, and the c that the output reads, are normalised as by Ba et al. (2016).
    """

    def __init__(self, input_size: int, hidden_size: int, layer_norm: bool = False) -> None:
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size
        self.layer_norm = layer_norm

    def params(self) -> dict[str, Param]:
        D, H = self.input_size, self.hidden_size
        shapes = {"W_x": Param((D, 4 * H), gates=4), "W_h": Param((H, 4 * H), gates=4)}
        shapes |= {name: Param((4 * H,), start=1.0) for name in ("alpha", "beta_x", "beta_h")}
        shapes["b"] = Param((4 * H,), gates=4, ones=1)
        if self.layer_norm:
            shapes |= norm_params("x", 4 * H) | norm_params("h", 4 * H) | norm_params("c", H)
        return shapes

    def states(self) -> dict[str, int]:
        return {"h": self.hidden_size, "c": self.hidden_size}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        u, v = self._norm(p, "x", x @ p.W_x), self._norm(p, "h", s.h @ p.W_h)
        i, f, g, o = split(p.alpha * u * v + p.beta_x * u + p.beta_h * v + p.b, 4)
        c = sigmoid(f) * s.c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(self._norm(p, "c", c))
        return h, State(h=h, c=c)

    def _norm(self, p: Scope, name: str, x: Value) -> Value:
        return normalised(p, name, x) if self.layer_norm else x
