"""Cells whose recurrence multiplies each number of the state by itself alone: no matrix reads the state."""

import math

from nmt.errors import ShapeError
from nmt.rnn.cell import Param, Scope, State
from nmt.rnn.cells.parts import EqualCell, activation
from nmt.rnn.functions import exp, maximum, relu, sigmoid, softplus, split, sqrt, tanh
from nmt.rnn.graph import Value


class IndRNNCell(EqualCell):
    """h_t = f(x W_x + u * h_prev + b) with one recurrent weight u per unit, initially 1 (Li et al. 2018, Independently
    Recurrent Neural Network, section 3); f is relu in the paper."""

    def __init__(self, input_size: int, hidden_size: int, nonlinearity: str = "relu") -> None:
        activation(nonlinearity, "IndRNNCell: nonlinearity")
        super().__init__(input_size, hidden_size)
        self.nonlinearity = nonlinearity

    def params(self) -> dict[str, Param]:
        D, H = self.input_size, self.hidden_size
        return {"W_x": Param((D, H)), "u": Param((H,), start=1.0), "b": Param((H,))}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        h = activation(self.nonlinearity)(x @ p.W_x + p.u * s.h + p.b)
        return h, State(h=h)


class LRNCell(EqualCell):
    """[q, k, v] = x W_x + b,  i = sigmoid(k + h_prev),  f = sigmoid(q - h_prev),  h_t = tanh(i * v + f * h_prev) (Zhang
    and Sennrich 2019, A Lightweight Recurrent Network for Sequence Modeling, section 3)."""

    def params(self) -> dict[str, Param]:
        D, H = self.input_size, self.hidden_size
        return {"W_x": Param((D, 3 * H), gates=3), "b": Param((3 * H,), gates=3)}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        q, k, v = split(x @ p.W_x + p.b, 3)
        h = tanh(sigmoid(k + s.h) * v + sigmoid(q - s.h) * s.h)
        return h, State(h=h)


class _OfInputs(EqualCell):
    """A base of minGRU and minLSTM (Feng et al. 2024, Were RNNs All We Needed?, sections 3.1 and 3.2): one product of
    the input gives all gates; the only state is the output."""

    gates = 2

    def params(self) -> dict[str, Param]:
        D, H, G = self.input_size, self.hidden_size, self.gates
        return {"W_x": Param((D, G * H), gates=G), "b": Param((G * H,), gates=G)}


class MinGRUCell(_OfInputs):
    """z = sigmoid(x W_z + b_z),  h_t = (1 - z) * h_prev + z * (x W_n + b_n); gates z, n; z weighs the new value."""

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        z, n = split(x @ p.W_x + p.b, 2)
        z = sigmoid(z)
        h = (1 - z) * s.h + z * n
        return h, State(h=h)


class MinLSTMCell(_OfInputs):
    """f and i, sigmoids of the input, normalised to sum to one: h_t = f' * h_prev + i' * (x W_n + b_n); gates f, i,
    n."""

    gates = 3

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        f, i, n = split(x @ p.W_x + p.b, 3)
        f, i = sigmoid(f), sigmoid(i)
        h = (f * s.h + i * n) / (f + i)
        return h, State(h=h)


_POWER = 8.0
"""c of equation 3 of RG-LRU."""


class RGLRUCell(EqualCell):
    """The real-gated linear recurrent unit (De et al. 2024, Griffin: Mixing Gated Linear Recurrences with Local
    Attention, section 2.4), equations 1 to 4:

    r, i = sigmoid(x W + b),  a = sigmoid(decay)^(8 r),  h_t = a * h_prev + sqrt(1 - a^2) * (i * x).

    The input has as many units as the state; its block (`BlockCell`) projects it. At first a^8 is between 0.9 and
    0.999, evenly over the units (section 2.4). 1 - a^2 is at least 1e-6, where its root would have no gradient.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        if input_size != hidden_size:
            raise ShapeError(f"RGLRUCell: input_size must be {hidden_size}, got {input_size}; use BlockCell")
        super().__init__(input_size, hidden_size)

    def params(self) -> dict[str, Param]:
        H = self.hidden_size
        decays = ((0.9 + 0.099 * n / max(1, H - 1)) ** (1 / _POWER) for n in range(H))
        start = tuple(math.log(a / (1 - a)) for a in decays)
        return {"W_ri": Param((H, 2 * H), gates=2), "b_ri": Param((2 * H,), gates=2), "decay": Param((H,), start=start)}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        r, i = split(sigmoid(x @ p.W_ri + p.b_ri), 2)
        log_a = -_POWER * softplus(-p.decay) * r
        h = exp(log_a) * s.h + sqrt(maximum(1 - exp(2 * log_a), 1e-6)) * (i * x)
        return h, State(h=h)


class SRUCell(EqualCell):
    """Lei et al. (2018), Simple Recurrent Units for Highly Parallelizable Recurrence, equations 1-4:

    f = sigmoid(x W_f + v_f * c_prev + b_f),  c_t = f * c_prev + (1 - f) * (x W),
    r = sigmoid(x W_r + v_r * c_prev + b_r),  h_t = r * c_t + (1 - r) * x.

    Where the sizes of input and state differ, the last x is x W_s. `W_x` holds W, W_f, W_r and, if need be, W_s.
    """

    _memory = ("c",)

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.gates = 3 if input_size == hidden_size else 4

    def params(self) -> dict[str, Param]:
        D, H, G = self.input_size, self.hidden_size, self.gates
        return {"W_x": Param((D, G * H), gates=G)} | {name: Param((H,)) for name in ("b_f", "b_r", "v_f", "v_r")}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        candidate, a_f, a_r, *rest = split(x @ p.W_x, self.gates)
        f = sigmoid(a_f + p.v_f * s.c + p.b_f)
        r = sigmoid(a_r + p.v_r * s.c + p.b_r)
        c = f * s.c + (1 - f) * candidate
        h = r * c + (1 - r) * (rest[0] if rest else x)
        return h, State(c=c)


class SSRUCell(EqualCell):
    """Kim et al. (2019), From Research to Production and Back: Ludicrously Fast Neural Machine Translation, section
    on the SSRU: an SRU without the reset gate and the highway.

    f = sigmoid(x W_f + b_f),  c_t = f * c_prev + (1 - f) * (x W),  h_t = relu(c_t). `W_x` holds W, W_f.
    """

    _memory = ("c",)

    def params(self) -> dict[str, Param]:
        D, H = self.input_size, self.hidden_size
        return {"W_x": Param((D, 2 * H), gates=2), "b_f": Param((H,))}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        candidate, a_f = split(x @ p.W_x, 2)
        f = sigmoid(a_f + p.b_f)
        c = f * s.c + (1 - f) * candidate
        return relu(c), State(c=c)
