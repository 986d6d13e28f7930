"""Several GRU transitions in one time step."""

from nmt.errors import ShapeError
from nmt.rnn.cell import Cell, Param, Scope, State, under
from nmt.rnn.cells.gru import GRUCell
from nmt.rnn.functions import sigmoid, split, tanh
from nmt.rnn.graph import Value


class DeepTransitionGRUCell(Cell):
    """A GRU step that reads the input, then `transitions - 1` GRU steps that read only the state (Pascanu et al. 2014;
    Miceli Barone et al. 2017, Deep Architectures for Neural Machine Translation, section on deep transition; as in
    Nematus: Sennrich et al. 2017). The reset acts after the product; z is the weight of the old state. `0.*` are the
    parameters of the first, a `GRUCell`."""

    def __init__(self, input_size: int, hidden_size: int, transitions: int = 2) -> None:
        if transitions < 1:
            raise ShapeError(f"DeepTransitionGRUCell: transitions must be at least 1, got {transitions}")
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size
        self.first, self.transitions = GRUCell(input_size, hidden_size), transitions

    def params(self) -> dict[str, Param]:
        H, shapes = self.hidden_size, under("0", self.first.params())
        for k in range(1, self.transitions):
            shapes |= {f"{k}.W_h": Param((H, 3 * H), gates=3), f"{k}.b_h": Param((3 * H,), gates=3)}
        return shapes

    def states(self) -> dict[str, int]:
        return self.first.states()

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        h, _ = self.first.step(p.sub("0"), x, s)
        for k in range(1, self.transitions):
            r, z, n = split(h @ p[f"{k}.W_h"] + p[f"{k}.b_h"], 3)
            z = sigmoid(z)
            h = (1 - z) * tanh(sigmoid(r) * n) + z * h
        return h, State(h=h)
