"""Simple recurrent network (Elman 1990)."""

from nmt.rnn.arguments import flags, limit
from nmt.rnn.cell import Param, Scope, State
from nmt.rnn.cells.parts import ActivationSpec, EqualCell, activation, clip
from nmt.rnn.graph import Value


class ElmanCell(EqualCell):
    """h_t = f(x W_x + h_prev W_h + b), f an activation by name; `clip` limits its argument to [-clip, clip]."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: ActivationSpec = "tanh",
        clip: float | None = None,
    ) -> None:
        activation(nonlinearity, "ElmanCell: nonlinearity")
        flags("ElmanCell", bias=bias)
        super().__init__(input_size, hidden_size)
        self.bias, self.nonlinearity, self.clip = bias, nonlinearity, limit("ElmanCell", "clip", clip)

    def params(self) -> dict[str, Param]:
        D, H = self.input_size, self.hidden_size
        shapes = {"W_x": Param((D, H)), "W_h": Param((H, H))}
        return shapes | ({"b": Param((H,))} if self.bias else {})

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        a = x @ p.W_x + s.h @ p.W_h
        if self.bias:
            a = a + p.b
        h = activation(self.nonlinearity)(clip(a, self.clip))
        return h, State(h=h)
