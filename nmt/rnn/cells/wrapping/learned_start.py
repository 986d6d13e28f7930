"""Learned initial states."""

from nmt.errors import ShapeError
from nmt.overriding import override
from nmt.rnn.cell import Cell, Param, Scope, State
from nmt.rnn.cells.wrapping.wrappers import WrappedCell
from nmt.rnn.graph import Value


class LearnedStartCell(WrappedCell):
    """A cell whose states start at parameter vectors, `start_NAME`, unless initial states are given.

    The vectors are the same for all rows, and their gradients are sums over the rows. The step itself is the inner
    cell's and costs the same. `states`: names of these states, None for all that may be initialised.
    """

    def __init__(self, cell: Cell, states: tuple[str, ...] | None = None) -> None:
        super().__init__(cell)
        self.names = cell.starts() if states is None else states
        for name in self.names:
            if name not in cell.starts():
                raise ShapeError(
                    f"LearnedStartCell: states must be among {', '.join(cell.starts()) or 'none'}, got {name}"
                )

    def params(self) -> dict[str, Param]:
        """Return the parameters of the cell, and the vectors."""
        return self.cell.params() | {f"start_{k}": Param((int(self.cell.states()[k]),)) for k in self.names}

    @override
    def learned(self) -> dict[str, str]:
        return self.cell.learned() | {k: f"start_{k}" for k in self.names}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        """Run the inner cell's step."""
        return self.cell.step(p, x, s)
