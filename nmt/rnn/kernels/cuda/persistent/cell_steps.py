"""The computation of an LSTM and a GRU for one hidden unit of one sentence in one step, where their loops differ.

Sources: nmt/rnn/cells/lstm.py and nmt/rnn/cells/gru.py, with the reset after the product.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from numba import float32

from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import device_function


class CellSteps(NamedTuple):
    """A cell as device functions over local arrays of a thread; they work on the q-th element. now: the states, or
    their gradients, `states` numbers per element, h first. `inner` is the number per step that the backward pass needs
    besides gates and y: c of an LSTM; h W_n + b_n, before the reset, of a GRU."""

    states: int
    forward: Any
    """(given, sums, bias, now, q) -> inner. given [elements * gates]: x W_x + b; sums [gates] in: h W_h, out: the
    gates after their functions; bias [elements * in_product]: of the hidden unit. Changes `now`."""
    backward: Any
    """(gates, inner, before, d_y, d_now, q) -> the gradient of the last gate's product. gates [gates] in: after their
    functions, out: the gradients of x W_x + b; before: c of an LSTM or h of a GRU before the step; d_y: the gradient
    of y, d_now added. Updates `d_now`, except for the part through h W_h."""
    in_product: int
    """The number of gates, from the first on, to whose h W_h a bias b_h is added."""
    inner_takes_gradient: bool
    """Whether the last gate's product has a separate gradient, which the backward pass stores in `inner`: true for a
    GRU."""


def cell_steps(name: str) -> CellSteps:
    """Return the step functions of a cell of CELLS."""
    if name == "lstm":
        return CellSteps(2, _lstm_forward, _lstm_backward, 0, False)
    return CellSteps(1, _gru_forward, _gru_backward, 3, True)


CELLS: dict[str, int] = {"lstm": 4, "gru": 3}
"""The number of gates of each cell."""


@device_function
def _sigmoid(x):
    return float32(1) / (float32(1) + math.exp(-x))


@device_function
def _lstm_forward(given, sums, bias, now, q):
    i = _sigmoid(given[q * 4] + sums[0])
    f = _sigmoid(given[q * 4 + 1] + sums[1])
    g = math.tanh(given[q * 4 + 2] + sums[2])
    o = _sigmoid(given[q * 4 + 3] + sums[3])
    c = f * now[q * 2 + 1] + i * g
    now[q * 2], now[q * 2 + 1] = o * math.tanh(c), c
    sums[0], sums[1], sums[2], sums[3] = i, f, g, o
    return c


@device_function
def _lstm_backward(gates, c, c_before, d_y, d_now, q):
    zero, one = float32(0), float32(1)
    i, f, g, o = gates[0], gates[1], gates[2], gates[3]
    tanh_c = math.tanh(c)
    d_c = d_now[q * 2 + 1] + d_y * o * (one - tanh_c * tanh_c)
    d_o = d_y * tanh_c * o * (one - o)
    gates[0], gates[1] = d_c * g * i * (one - i), d_c * c_before * f * (one - f)
    gates[2], gates[3] = d_c * i * (one - g * g), d_o
    d_now[q * 2], d_now[q * 2 + 1] = zero, d_c * f
    return d_o


@device_function
def _gru_forward(given, sums, bias, now, q):
    r = _sigmoid(given[q * 3] + (sums[0] + bias[q * 3]))
    z = _sigmoid(given[q * 3 + 1] + (sums[1] + bias[q * 3 + 1]))
    u = sums[2] + bias[q * 3 + 2]
    n = math.tanh(given[q * 3 + 2] + r * u)
    now[q] = (float32(1) - z) * n + z * now[q]
    sums[0], sums[1], sums[2] = r, z, n
    return u


@device_function
def _gru_backward(gates, u, h_before, d_y, d_now, q):
    one = float32(1)
    r, z, n = gates[0], gates[1], gates[2]
    d_n = d_y * (one - z) * (one - n * n)
    gates[0], gates[1], gates[2] = d_n * u * r * (one - r), d_y * (h_before - n) * z * (one - z), d_n
    d_now[q] = d_y * z
    return d_n * r
