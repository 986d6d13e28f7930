"""Cells that regularise the recurrence of another cell in training: zoneout, dropout of states; and dropout on a
cell's output.
"""

from nmt.errors import ShapeError
from nmt.rnn.cell import Cell, Scope, State
from nmt.rnn.cells.wrapping.wrappers import WrappedCell
from nmt.rnn.graph import Value


class ZoneoutCell(WrappedCell):
    """A cell whose state units keep their old value at random: in training each with probability `rates[state]`, drawn
    at every step; else the expectation, rate * old + (1 - rate) * new (Krueger et al. 2017, Zoneout, section 3).

    `rates`: a number for all states, or numbers by the states' names. An output that is a state is zoned out with it.
    """

    def __init__(self, cell: Cell, rates: float | dict[str, float]) -> None:
        super().__init__(cell)
        given = dict.fromkeys(cell.states(), rates) if isinstance(rates, int | float) else rates
        for name, rate in given.items():
            if name not in cell.states() or not 0 <= rate < 1:
                raise ShapeError(
                    f"ZoneoutCell: rates must be numbers from 0 to less than 1 for {', '.join(cell.states())}, "
                    f"got {rate} for {name}"
                )
        self.rates = tuple(given.items())

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        y, new = self.cell.step(p, x, s)
        for name, rate in self.rates:
            computed = new[name]
            # Dropout zeroes with probability `rate` and scales the rest by 1 / (1 - rate); without it: the expectation.
            new[name] = s[name] + (1 - rate) * p.dropout(computed - s[name], rate) if rate else computed
            y = new[name] if y is computed else y
        return y, new


class OutputDropoutCell(WrappedCell):
    """Dropout on the output of a cell, not on its states; per step, or one mask for all steps, as in `DropoutCell` for
    the input (Merity et al. 2018, section 4.2)."""

    def __init__(self, cell: Cell, rate: float, variational: bool = False) -> None:
        super().__init__(cell)
        self.rate, self.variational = rate, variational

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        y, new = self.cell.step(p, x, s)
        return p.dropout(y, self.rate, variational=self.variational), new


class _Weight:
    """A substitute for a matrix in a step that applies dropout to the other factor of its products."""

    def __init__(self, weight: Value, p: Scope, rate: float, variational: bool) -> None:
        self.weight, self.p, self.rate, self.variational = weight, p, rate, variational

    def __rmatmul__(self, x: Value) -> Value:
        return self.p.dropout(x, self.rate, variational=self.variational) @ self.weight


class RecurrentDropoutCell(WrappedCell):
    """Dropout on the state where the matrices `weights` read it: one mask for all steps (Gal and Ghahramani 2016,
    section 4), or one per step with `variational` False. Other uses of the state, as in a GRU's z * h, have no
    dropout."""

    def __init__(self, cell: Cell, rate: float, variational: bool = True, weights: tuple[str, ...] = ("W_h",)) -> None:
        super().__init__(cell)
        _check_weights("RecurrentDropoutCell", cell, weights)
        self.rate, self.variational, self.weights = rate, variational, weights

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        if not self.rate:
            return self.cell.step(p, x, s)
        return self.cell.step(
            p.replaced({name: _Weight(p[name], p, self.rate, self.variational) for name in self.weights}), x, s
        )


def _check_weights(where: str, cell: Cell, weights: tuple[str, ...]) -> None:
    """Raise ShapeError for a name that is not one of the cell's matrices."""
    matrices = [name for name, param in cell.params().items() if len(param.shape) == 2]
    for name in weights:
        if name not in matrices:
            raise ShapeError(f"{where}: weights must be among {', '.join(matrices)}, got {name}")
