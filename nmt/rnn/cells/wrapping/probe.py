"""Cells that output another cell's attention weights. The plain cell and its program are unaffected."""

from nmt.errors import ShapeError
from nmt.overriding import override
from nmt.rnn.cell import Captured, Cell, Param, Scope, State
from nmt.rnn.functions import concat, weighted_sum
from nmt.rnn.graph import Value, topological


class AttentionProbe(Cell):
    """Any attention cell with the weights of the step appended to its output: y = [inner y; weights].

    The weights are read by an attention-like sum: `positions` [S, B, n] holds row s of the n x n unit matrix at source
    position s, so that its weighted sum is the weights, zero beyond the source. The weights are found in the traced
    step itself, so this works for every cell that normalises scores over S; of several weights the mean is returned.
    """

    def __init__(self, cell: Cell, positions: int) -> None:
        self.cell, self.positions = cell, positions
        self.input_size, self.output_size = cell.input_size, cell.output_size + positions

    def params(self) -> dict[str, Param]:
        """Return the parameters of the inner cell."""
        return self.cell.params()

    def states(self) -> dict[str, int]:
        """Return the states of the inner cell."""
        return self.cell.states()

    def learned(self) -> dict[str, str]:
        """Return the learned initial states of the inner cell."""
        return self.cell.learned()

    def sequences(self) -> dict[str, int]:
        """Return the further sequences of the inner cell."""
        return self.cell.sequences()

    def captured(self) -> dict[str, Captured]:
        """Return the captured arrays of the inner cell, and `positions`."""
        return self.cell.captured() | {"positions": Captured(self.positions)}

    @override
    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        y, new = self.cell.step(p, x, s)
        return concat(y, _shown(y, new, p)), new


def _shown(y: Value, new: State, p: Scope) -> Value:
    """Return the mean over heads and layers of all attention weights in a step, spread over the source positions.

    Raises ShapeError: there is none.
    """
    found = [v for v in topological([y, *new.values()]) if v.op == "softmax" and "S" in v.axes]
    if not found:
        raise ShapeError("AttentionProbe: the cell must attend to its source, got one without attention")
    ones = [v if v.width is None else v.graph.apply("sum_last", v) * (1.0 / v.width) for v in found]
    total = ones[0]
    for one in ones[1:]:
        total = total + one
    return weighted_sum(total * (1.0 / len(ones)), p.positions)
