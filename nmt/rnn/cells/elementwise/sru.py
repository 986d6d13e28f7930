"""Simple recurrent unit: gates read the input and the unit's own memory, so all products leave the time loop."""

from nmt.rnn.cell import Cell, Param, Scope, State
from nmt.rnn.functions import sigmoid, split
from nmt.rnn.graph import Value


class SRUCell(Cell):
    """Lei et al. (2018), Simple Recurrent Units for Highly Parallelizable Recurrence, equations 1-4:

    f = sigmoid(x W_f + v_f * c_prev + b_f),  c_t = f * c_prev + (1 - f) * (x W),
    r = sigmoid(x W_r + v_r * c_prev + b_r),  h_t = r * c_t + (1 - r) * x.

    Where the sizes of input and state differ, the last x is x W_s. `W_x` holds W, W_f, W_r and, if need be, W_s.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size
        self.gates = 3 if input_size == hidden_size else 4

    def params(self) -> dict[str, Param]:
        D, H, G = self.input_size, self.hidden_size, self.gates
        shapes = {"W_x": Param((D, G * H), gates=G), "b_f": Param((H,)), "b_r": Param((H,))}
        return shapes | {"v_f": Param((H,)), "v_r": Param((H,))}

    def states(self) -> dict[str, int]:
        return {"c": self.hidden_size}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        candidate, a_f, a_r, *rest = split(x @ p.W_x, self.gates)
        f = sigmoid(a_f + p.v_f * s.c + p.b_f)
        r = sigmoid(a_r + p.v_r * s.c + p.b_r)
        c = f * s.c + (1 - f) * candidate
        h = r * c + (1 - r) * (rest[0] if rest else x)
        return h, State(c=c)
