"""First states that are learned."""

from nmt.errors import ShapeError
from nmt.overriding import override
from nmt.rnn.cell import Cell, Param, Scope, State
from nmt.rnn.cells.wrapping.wrappers import Around
from nmt.rnn.graph import Value


class LearnedStartCell(Around):
    """A cell whose states start at vectors of its own, `start_NAME`, where nothing else is given: the same for all
    rows, and a gradient that is the sum over the rows. The step itself is the cell's, and costs what it did.

    `states`: names of those that do, all that may start where None.
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
        """Return those of the cell, and the vectors."""
        return self.cell.params() | {f"start_{k}": Param((int(self.cell.states()[k]),)) for k in self.names}

    @override
    def learned(self) -> dict[str, str]:
        return self.cell.learned() | {k: f"start_{k}" for k in self.names}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        """Return the cell's."""
        return self.cell.step(p, x, s)
