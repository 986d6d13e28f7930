"""LRN, a recurrence whose gates read the past output without a matrix (Zhang and Sennrich 2019, A Lightweight Recurrent
Network for Sequence Modeling, section 3)."""

from nmt.rnn.cell import Cell, Param, Scope, State
from nmt.rnn.functions import sigmoid, split, tanh
from nmt.rnn.graph import Value


class LRNCell(Cell):
    """[q, k, v] = x W_x + b,  i = sigmoid(k + h_prev),  f = sigmoid(q - h_prev),  h_t = tanh(i * v + f * h_prev)."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size

    def params(self) -> dict[str, Param]:
        D, H = self.input_size, self.hidden_size
        return {"W_x": Param((D, 3 * H), gates=3), "b": Param((3 * H,), gates=3)}

    def states(self) -> dict[str, int]:
        return {"h": self.hidden_size}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        q, k, v = split(x @ p.W_x + p.b, 3)
        h = tanh(sigmoid(k + s.h) * v + sigmoid(q - s.h) * s.h)
        return h, State(h=h)
