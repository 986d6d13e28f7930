"""Simpler simple recurrent unit: the recurrence of fast translation decoders."""

from nmt.rnn.cell import Cell, Param, Scope, State
from nmt.rnn.functions import relu, sigmoid, split
from nmt.rnn.graph import Value


class SSRUCell(Cell):
    """Kim et al. (2019), From Research to Production and Back: Ludicrously Fast Neural Machine Translation, section
    on the SSRU: an SRU without the reset gate and the highway.

    f = sigmoid(x W_f + b_f),  c_t = f * c_prev + (1 - f) * (x W),  h_t = relu(c_t). `W_x` holds W, W_f.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size

    def params(self) -> dict[str, Param]:
        D, H = self.input_size, self.hidden_size
        return {"W_x": Param((D, 2 * H), gates=2), "b_f": Param((H,))}

    def states(self) -> dict[str, int]:
        return {"c": self.hidden_size}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        candidate, a_f = split(x @ p.W_x, 2)
        f = sigmoid(a_f + p.b_f)
        c = f * s.c + (1 - f) * candidate
        return relu(c), State(c=c)
