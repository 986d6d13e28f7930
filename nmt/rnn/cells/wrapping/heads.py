"""Heads: cells side by side, so that a recurrent matrix is block-diagonal."""

from collections.abc import Callable

from nmt.rnn.cell import Cell, Param, Scope, State, under
from nmt.rnn.cells.parts import heads_of
from nmt.rnn.functions import concat
from nmt.rnn.graph import Value


class HeadsCell(Cell):
    """`heads` cells that read the same input, each with its share of the hidden units: `HeadsCell(LSTMCell, D, H, 4)`.

    No head reads another's state, so a product with the state costs a quarter (Beck et al. 2024, section 2.2, for the
    sLSTM). Parameters and states are named `0.W_x`, `1.h`.
    """

    def __init__(self, make: Callable[[int, int], Cell], input_size: int, hidden_size: int, heads: int) -> None:
        part = hidden_size // heads_of("HeadsCell", hidden_size, heads)
        self.cells = [make(input_size, part) for _ in range(heads)]
        self.input_size, self.hidden_size = input_size, hidden_size
        self.output_size = sum(int(cell.output_size) for cell in self.cells)

    def params(self) -> dict[str, Param]:
        return {k: v for n, cell in enumerate(self.cells) for k, v in under(str(n), cell.params()).items()}

    def states(self) -> dict[str, int]:
        return {k: v for n, cell in enumerate(self.cells) for k, v in under(str(n), cell.states()).items()}

    def starts(self) -> tuple[str, ...]:
        return tuple(f"{n}.{name}" for n, cell in enumerate(self.cells) for name in cell.starts())

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        found = [cell.step(p.sub(str(n)), x, s.sub(str(n))) for n, cell in enumerate(self.cells)]
        new = {k: v for n, (_, inner) in enumerate(found) for k, v in under(str(n), inner).items()}
        return concat(*(y for y, _ in found)), State(new)
