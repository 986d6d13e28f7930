"""minGRU and minLSTM: gates that depend only on the input (Feng et al. 2024, Were RNNs All We Needed?, sections 3.1 and
3.2)."""

from nmt.rnn.cell import Cell, Param, Scope, State
from nmt.rnn.functions import sigmoid, split
from nmt.rnn.graph import Value


class _OfInputs(Cell):
    """A base: one product of the input gives all gates; the only state is the output."""

    gates = 2

    def __init__(self, input_size: int, hidden_size: int) -> None:
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size

    def params(self) -> dict[str, Param]:
        D, H, G = self.input_size, self.hidden_size, self.gates
        return {"W_x": Param((D, G * H), gates=G), "b": Param((G * H,), gates=G)}

    def states(self) -> dict[str, int]:
        return {"h": self.hidden_size}


class MinGRUCell(_OfInputs):
    """z = sigmoid(x W_z + b_z),  h_t = (1 - z) * h_prev + z * (x W_n + b_n); gates z, n. z is the weight of the new
    value."""

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
