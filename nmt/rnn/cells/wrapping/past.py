"""Steps that read further back than the previous step.

A value of k steps ago is a state that has been passed on k times. The time loop and its backward pass are unaware of
this: a lag costs one copy of the value for each step it goes back, which is little compared with a product.
"""

from dataclasses import dataclass

from nmt.errors import ShapeError
from nmt.overriding import override
from nmt.rnn.cell import Cell, Scope, State
from nmt.rnn.cells.wrapping.wrappers import WrappedCell
from nmt.rnn.graph import Value


@dataclass(frozen=True)
class Past:
    """The last `lag` values of a signal of this width, for use within a cell.

    The cell includes its `states` among its own; `read` returns what was `push`ed k steps ago, 1 <= k <= lag. State
    `name` is the newest, `name.2` the one before it, and so on.
    """

    name: str
    width: int
    lag: int

    def __post_init__(self) -> None:
        if self.lag < 1:
            raise ShapeError(f"Past: lag of {self.name} must be at least 1, got {self.lag}")

    def states(self) -> dict[str, int]:
        """Return the states' widths by name."""
        return {self._at(k): self.width for k in range(1, self.lag + 1)}

    def read(self, s: State, k: int = 1) -> Value:
        """Return the value of k steps ago. Raises ShapeError."""
        if not 1 <= k <= self.lag:
            raise ShapeError(f"Past: {self.name} must be read from 1 to {self.lag} steps back, got {k}")
        return s[self._at(k)]

    def push(self, s: State, new: Value) -> State:
        """Return the states after a step whose value is `new`."""
        older = {self._at(k + 1): s[self._at(k)] for k in range(1, self.lag)}
        return State({self.name: new, **older})

    def _at(self, k: int) -> str:
        return self.name if k == 1 else f"{self.name}.{k}"


class SkipCell(WrappedCell):
    """A cell whose states come from `lag` steps ago instead of the previous step, so that `lag` recurrences alternate
    (Chang et al. 2017, Dilated Recurrent Neural Networks, section 2.1). Each of its states is a `Past`."""

    def __init__(self, cell: Cell, lag: int) -> None:
        super().__init__(cell)
        if cell.learned():
            raise ShapeError(f"SkipCell: states must start as given or at zero, got learned ones in {cell.learned()}")
        self.lag = lag
        self.past = [Past(name, width, lag) for name, width in cell.states().items()]

    def states(self) -> dict[str, int]:
        """Return `lag` states for each state of the cell."""
        return {name: width for past in self.past for name, width in past.states().items()}

    def starts(self) -> tuple[str, ...]:
        """Return all states that belong to one the cell allows to be initialised."""
        free = self.cell.starts()
        return tuple(name for past in self.past if past.name in free for name in past.states())

    @override
    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        y, new = self.cell.step(p, x, State({past.name: past.read(s, self.lag) for past in self.past}))
        return y, State({name: v for past in self.past for name, v in past.push(s, new[past.name]).items()})
