"""Heads: cells side by side, so that a recurrent matrix is block-diagonal."""

from collections.abc import Callable

from nmt.rnn.cell import Cell, Scope, State, under
from nmt.rnn.cells.parts import heads_of
from nmt.rnn.cells.wrapping.wrappers import SeveralCells
from nmt.rnn.functions import concat
from nmt.rnn.graph import Value


class HeadsCell(SeveralCells):
    """`heads` cells that read the same input, each with its share of the hidden units: `HeadsCell(LSTMCell, D, H, 4)`.

    No head reads another's state, so a product with the state costs a quarter (Beck et al. 2024, section 2.2, for the
    sLSTM).
    """

    def __init__(self, make: Callable[[int, int], Cell], input_size: int, hidden_size: int, heads: int) -> None:
        part = hidden_size // heads_of("HeadsCell", hidden_size, heads)
        self.cells = [make(input_size, part) for _ in range(heads)]
        self.input_size, self.hidden_size = input_size, hidden_size
        self.output_size = sum(int(cell.output_size) for cell in self.cells)

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        found = [cell.step(p.sub(str(n)), x, s.sub(str(n))) for n, cell in enumerate(self.cells)]
        new = {k: v for n, (_, inner) in enumerate(found) for k, v in under(str(n), inner).items()}
        return concat(*(y for y, _ in found)), State(new)
