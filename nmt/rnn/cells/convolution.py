"""Convolutions over time as cells: the state is the contribution of past inputs to later outputs.

y_t = x_t W_0 + x_{t-1} W_1 + ... is computed as y_t = x_t W_0 + s_1 with s_1' = x_t W_1 + s_2, s_2' = x_t W_2 + ...
(the transposed form of a filter). So every product reads the input only: over a finished sequence all products are
computed at once, before the loop; step by step, each input is multiplied once. It is the same convolution.
"""

from nmt.errors import ShapeError
from nmt.rnn.cell import Cell, Param, Scope, State
from nmt.rnn.functions import sigmoid, split, tanh
from nmt.rnn.graph import Value


def window_params(
    window: int, input_size: int, width: int, gates: int, deviation: float | None = None
) -> dict[str, Param]:
    """Return `W_0` for the newest input to `W_{window - 1}` for the oldest, and a bias. deviation: see `Param`."""
    if window < 1:
        raise ShapeError(f"window: must be at least 1, got {window}")
    shapes = {f"W_{k}": Param((input_size, width), gates=gates, deviation=deviation) for k in range(window)}
    return shapes | {"b": Param((width,), gates=gates)}


def window_states(window: int, width: int) -> dict[str, int]:
    """Return the states: `past1`, the past inputs' part of the next step's sum; `past2` of the one after it; ..."""
    return {f"past{k}": width for k in range(1, window)}


def convolve(p: Scope, x: Value, s: State, window: int) -> tuple[Value, State]:
    """Return the sum over the window, without bias, and the new states."""
    parts = [x @ p[f"W_{k}"] for k in range(window)]
    parts = [part + s[f"past{k + 1}"] if k + 1 < window else part for k, part in enumerate(parts)]
    return parts[0], State({f"past{k}": part for k, part in enumerate(parts) if k})


class ConvolutionCell(Cell):
    """Gated linear units over the last `window` inputs: y = a * sigmoid(b), [a, b] the convolution (Gehring et al.
    2017, Convolutional Sequence to Sequence Learning, section 3.2; Dauphin et al. 2017, equation 1).

    Weights are initialised with the variance 4 p / (window * input_size), where p is the share of the input `retained`
    by dropout, so that the output's variance equals the input's: the gate removes three quarters of it (Gehring et al.
    2017, section 3.5).
    """

    def __init__(self, input_size: int, hidden_size: int, window: int = 3, retained: float = 1.0) -> None:
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size
        self.window, self.retained = window, retained

    def params(self) -> dict[str, Param]:
        deviation = (4 * self.retained / (max(1, self.window) * self.input_size)) ** 0.5
        return window_params(self.window, self.input_size, 2 * self.hidden_size, 2, deviation)

    def states(self) -> dict[str, int]:
        return window_states(self.window, 2 * self.hidden_size)

    def starts(self) -> tuple[str, ...]:
        return ()

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        total, past = convolve(p, x, s, self.window)
        a, b = split(total + p.b, 2)
        return a * sigmoid(b), past


class QRNNCell(Cell):
    """Quasi-recurrent network with fo-pooling (Bradbury et al. 2017, equations 1, 2 and 4): convolutions give

    z = tanh(...), f = sigmoid(...), o = sigmoid(...);  c_t = f * c_prev + (1 - f) * z,  h_t = o * c_t.
    """

    def __init__(self, input_size: int, hidden_size: int, window: int = 2) -> None:
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size
        self.window = window

    def params(self) -> dict[str, Param]:
        return window_params(self.window, self.input_size, 3 * self.hidden_size, 3)

    def states(self) -> dict[str, int]:
        return {"c": self.hidden_size} | window_states(self.window, 3 * self.hidden_size)

    def starts(self) -> tuple[str, ...]:
        return ("c",)

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        total, past = convolve(p, x, s, self.window)
        z, f, o = split(total + p.b, 3)
        f = sigmoid(f)
        c = f * s.c + (1 - f) * tanh(z)
        return sigmoid(o) * c, State(past, c=c)
