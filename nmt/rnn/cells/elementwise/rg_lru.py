"""RG-LRU, the real-gated linear recurrent unit (De et al. 2024, Griffin: Mixing Gated Linear Recurrences with Local
Attention, section 2.4)."""

import math

from nmt.errors import ShapeError
from nmt.rnn.cell import Cell, Param, Scope, State
from nmt.rnn.functions import exp, maximum, sigmoid, softplus, split, sqrt
from nmt.rnn.graph import Value

_POWER = 8.0
"""c of equation 3."""


class RGLRUCell(Cell):
    """Equations 1 to 4: r, i = sigmoid(x W + b),  a = sigmoid(decay)^(8 r),
    h_t = a * h_prev + sqrt(1 - a^2) * (i * x).

    The input has as many units as the state; its block (`BlockCell`) projects it. At first a^8 is between 0.9 and
    0.999, evenly over the units (section 2.4). 1 - a^2 is at least 1e-6, where its root would have no gradient.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        if input_size != hidden_size:
            raise ShapeError(
                f"RGLRUCell: input_size must be hidden_size {hidden_size}, got {input_size}; use BlockCell"
            )
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size

    def params(self) -> dict[str, Param]:
        H = self.hidden_size
        decays = ((0.9 + 0.099 * n / max(1, H - 1)) ** (1 / _POWER) for n in range(H))
        start = tuple(math.log(a / (1 - a)) for a in decays)
        return {
            "W_ri": Param((H, 2 * H), gates=2),
            "b_ri": Param((2 * H,), gates=2),
            "decay": Param((H,), start=start),
        }

    def states(self) -> dict[str, int]:
        return {"h": self.hidden_size}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        r, i = split(sigmoid(x @ p.W_ri + p.b_ri), 2)
        log_a = -_POWER * softplus(-p.decay) * r
        h = exp(log_a) * s.h + sqrt(maximum(1 - exp(2 * log_a), 1e-6)) * (i * x)
        return h, State(h=h)
