"""LSTM and GRU whose products are normalised (Ba, Kiros and Hinton 2016, Layer Normalization).

Equations of the paper's supplementary material, on the experiments with LSTM and GRU. Statistics are those of one row
at one step, over all gates of a product together, so nothing depends on the batch or on padding.
"""

from nmt.rnn.arguments import flags
from nmt.rnn.cell import Param, Scope, State
from nmt.rnn.cells.parts import EqualCell, features, rms_norm
from nmt.rnn.functions import mean, sigmoid, split, tanh
from nmt.rnn.graph import Value


def norm_params(name: str, width: int) -> dict[str, Param]:
    """Return the gain (initially one) and the bias (initially zero) of a normalisation."""
    return {f"gain_{name}": Param((width,), start=1.0), f"bias_{name}": Param((width,))}


def normalised(p: Scope, name: str, x: Value) -> Value:
    """Return (x - mean) / sqrt(variance + EPSILON) * gain + bias over a row's features; gain and bias of this name."""
    return rms_norm(x - mean(x), p[f"gain_{name}"]) + p[f"bias_{name}"]


class LayerNormLSTMCell(EqualCell):
    """a = LN(x W_x) + LN(h W_h) + b, gates i, f, g, o;
    c_t = sigmoid(f) * c_prev + sigmoid(i) * tanh(g),  h_t = sigmoid(o) * tanh(LN(c_t))."""

    _memory = ("h", "c")

    def params(self) -> dict[str, Param]:
        D, H = self.input_size, self.hidden_size
        shapes = {"W_x": Param((D, 4 * H), gates=4), "W_h": Param((H, 4 * H), gates=4)}
        shapes["b"] = Param((4 * H,), gates=4, ones=1)
        return shapes | norm_params("x", 4 * H) | norm_params("h", 4 * H) | norm_params("c", H)

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        a = normalised(p, "x", x @ p.W_x) + normalised(p, "h", s.h @ p.W_h) + p.b
        i, f, g, o = split(a, 4)
        c = sigmoid(f) * s.c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(normalised(p, "c", c))
        return h, State(h=h, c=c)


class LayerNormGRUCell(EqualCell):
    """[r, z] = sigmoid(LN(x W_rz) + LN(h U_rz)),  n = tanh(LN(x W_n) + r * LN(h U_n)),
    h_t = (1 - z) * n + z * h_prev: four normalisations, as in the paper, whose z is our 1 - z."""

    def params(self) -> dict[str, Param]:
        D, H = self.input_size, self.hidden_size
        shapes = {"W_x": Param((D, 3 * H), gates=3), "W_h": Param((H, 3 * H), gates=3)}
        for side in ("x", "h"):
            shapes |= norm_params(f"{side}_rz", 2 * H) | norm_params(f"{side}_n", H)
        return shapes

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        H = self.hidden_size
        a, u = x @ p.W_x, s.h @ p.W_h
        a_rz, a_n = features(a, 0, 2 * H), features(a, 2 * H, H)
        u_rz, u_n = features(u, 0, 2 * H), features(u, 2 * H, H)
        r, z = split(sigmoid(normalised(p, "x_rz", a_rz) + normalised(p, "h_rz", u_rz)), 2)
        n = tanh(normalised(p, "x_n", a_n) + r * normalised(p, "h_n", u_n))
        h = (1 - z) * n + z * s.h
        return h, State(h=h)


class MILSTMCell(EqualCell):
    """Multiplicative integration: a = alpha * (x W_x) * (h W_h) + beta_x * (x W_x) + beta_h * (h W_h) + b (Wu et al.
    2016, On Multiplicative Integration with Recurrent Neural Networks, equation 4), in an LSTM (appendix A); gates i,
    f, g, o. With `layer_norm` both products, and the c that the output reads, are normalised as by Ba et al. (2016)."""

    _memory = ("h", "c")

    def __init__(self, input_size: int, hidden_size: int, layer_norm: bool = False) -> None:
        super().__init__(input_size, hidden_size)
        flags("MILSTMCell", layer_norm=layer_norm)
        self.layer_norm = layer_norm

    def params(self) -> dict[str, Param]:
        D, H = self.input_size, self.hidden_size
        shapes = {"W_x": Param((D, 4 * H), gates=4), "W_h": Param((H, 4 * H), gates=4)}
        shapes |= {name: Param((4 * H,), start=1.0) for name in ("alpha", "beta_x", "beta_h")}
        shapes["b"] = Param((4 * H,), gates=4, ones=1)
        if self.layer_norm:
            shapes |= norm_params("x", 4 * H) | norm_params("h", 4 * H) | norm_params("c", H)
        return shapes

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        u, v = self._norm(p, "x", x @ p.W_x), self._norm(p, "h", s.h @ p.W_h)
        i, f, g, o = split(p.alpha * u * v + p.beta_x * u + p.beta_h * v + p.b, 4)
        c = sigmoid(f) * s.c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(self._norm(p, "c", c))
        return h, State(h=h, c=c)

    def _norm(self, p: Scope, name: str, x: Value) -> Value:
        return normalised(p, name, x) if self.layer_norm else x
