"""Long short-term memory with a forget gate (Hochreiter and Schmidhuber 1997; Gers, Schmidhuber and Cummins 2000)."""

from nmt.rnn.arguments import flags
from nmt.rnn.cell import Cell, Param, Scope, State
from nmt.rnn.functions import sigmoid, split, tanh
from nmt.rnn.graph import Value


class LSTMCell(Cell):
    """Gates side by side in the order i, f, g, o; no peepholes.

    c_t = sigmoid(f) * c_prev + sigmoid(i) * tanh(g),  h_t = sigmoid(o) * tanh(c_t)
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        flags("LSTMCell", bias=bias)
        self.input_size, self.hidden_size, self.output_size, self.bias = input_size, hidden_size, hidden_size, bias

    def params(self) -> dict[str, Param]:
        D, H = self.input_size, self.hidden_size
        shapes = {"W_x": Param((D, 4 * H), gates=4), "W_h": Param((H, 4 * H), gates=4)}
        return shapes | ({"b": Param((4 * H,), gates=4, ones=1)} if self.bias else {})

    def states(self) -> dict[str, int]:
        return {"h": self.hidden_size, "c": self.hidden_size}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        a = x @ p.W_x + s.h @ p.W_h
        if self.bias:
            a = a + p.b
        i, f, g, o = split(a, 4)
        c = sigmoid(f) * s.c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
        p.note(i=sigmoid(i), f=sigmoid(f), g=tanh(g), o=sigmoid(o))
        return h, State(h=h, c=c)
