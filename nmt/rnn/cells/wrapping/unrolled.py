"""Several steps of a cell as one step of another: a loop of fixed length inside the containing graph."""

from nmt.errors import ShapeError
from nmt.overriding import override
from nmt.rnn.cell import Cell, Scope, Shape, State, axes_of
from nmt.rnn.cells.wrapping.wrappers import WrappedCell
from nmt.rnn.functions import concat, split
from nmt.rnn.graph import Value


class UnrolledCell(WrappedCell):
    """`steps` steps of a cell as one step: x [B, steps, ...] -> y [B, steps, ...], states after the last of them.

    The results are those of the cell itself; the cost depends on the compiler, which sees all steps in one graph. With
    one outer step for the whole sequence there is more to compile and no loop; each step's products stay separate. Rows
    end only at multiples of `steps`. Values that step k has noted are named `stepk.name`.
    """

    def __init__(self, cell: Cell, steps: int) -> None:
        super().__init__(cell)
        if steps < 1:
            raise ShapeError(f"UnrolledCell: steps must be at least 1, got {steps}")
        self.steps = steps
        self.input_size = Shape(steps, *axes_of(cell.input_size))
        self.output_size = Shape(steps, *axes_of(cell.output_size))

    def sequences(self) -> dict[str, int]:
        """Return the further sequences of the cell, with `steps` entries of each per step."""
        return {name: Shape(self.steps, *axes_of(n)) for name, n in self.cell.sequences().items()}

    @override
    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        others = {name: split(p[name], self.steps) for name in self.cell.sequences()}
        outputs = []
        for k, part in enumerate(split(x, self.steps)):
            own = p.replaced({name: values[k] for name, values in others.items()})
            y, s = self.cell.step(own.noting(f"step{k}"), part, s)
            outputs.append(y)
        return concat(*outputs), s
