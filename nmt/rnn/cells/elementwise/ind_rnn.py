"""Independently recurrent network: each unit reads only its own past."""

from nmt.rnn.cell import Cell, Param, Scope, State
from nmt.rnn.cells.activations import activation
from nmt.rnn.graph import Value


class IndRNNCell(Cell):
    """h_t = f(x W_x + u * h_prev + b) with one recurrent weight u per unit, initially 1 (Li et al. 2018, Independently
    Recurrent Neural Network, section 3); f is relu in the paper."""

    def __init__(self, input_size: int, hidden_size: int, nonlinearity: str = "relu") -> None:
        activation(nonlinearity)
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size
        self.nonlinearity = nonlinearity

    def params(self) -> dict[str, Param]:
        D, H = self.input_size, self.hidden_size
        return {"W_x": Param((D, H)), "u": Param((H,), start=1.0), "b": Param((H,))}

    def states(self) -> dict[str, int]:
        return {"h": self.hidden_size}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        h = activation(self.nonlinearity)(x @ p.W_x + p.u * s.h + p.b)
        return h, State(h=h)
