"""A decoder cell that reads one source position at a time: hard monotonic attention."""

from nmt.errors import ShapeError
from nmt.overriding import override
from nmt.rnn.cell import Captured, Cell, Scope, State
from nmt.rnn.cells.wrapping.wrappers import WrappedCell
from nmt.rnn.functions import concat, maximum, positive, weighted_sum
from nmt.rnn.graph import Value


class PointerCell(WrappedCell):
    """The inner cell, which also reads the encoder's output at a pointer (Aharoni and Goldberg 2017, "Morphological
    Inflection Generation with Hard Monotonic Attention", section 2.2).

    The pointer is a state, `place` [B, 1], and starts at the first position. Where the last feature of the input is
    positive, it moves on by one position before the step reads. The memory [S, B, memory_size + 2] has the position,
    from 0, and the source token behind the encoder's outputs; the token at the pointer is appended to the output.
    Neither the pointer nor the token passes a gradient on. `dropout` is that of the input.
    """

    def __init__(self, cell: Cell, memory_size: int, dropout: float = 0.0, *, variational: bool = False) -> None:
        """Make the cell. The input size of the inner cell is that of this one plus `memory_size`. Raises ShapeError."""
        super().__init__(cell)
        self.memory_size, self.dropout, self.variational = memory_size, dropout, variational
        self.input_size, self.output_size = cell.input_size - memory_size, cell.output_size + 1
        read = cell.captured().get("memory")
        self._width = memory_size if read is None else read.width
        if self.input_size < 1:
            raise ShapeError(
                f"PointerCell: memory_size must be less than {cell.input_size}, the inner cell's input size, got "
                f"{memory_size}"
            )

    @override
    def states(self) -> dict[str, int]:
        return self.cell.states() | {"place": 1}

    @override
    def captured(self) -> dict[str, Captured]:
        return self.cell.captured() | {"memory": Captured(self._width + 2)}

    @override
    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        place = s.place + positive(_features(x, self.input_size - 1, 1))
        ahead = _features(p.memory, self._width, 1) - place
        here = ahead.graph.apply("sum_last", positive(1.0 - maximum(ahead, -ahead)))
        read = weighted_sum(here, _features(p.memory, 0, self.memory_size))
        token = weighted_sum(here, _features(p.memory, self._width + 1, 1))
        inner = State({name: value for name, value in s.items() if name != "place"})
        scope = p.replaced({"memory": _features(p.memory, 0, self._width)})
        y, new = self.cell.step(scope, concat(p.dropout(x, self.dropout, variational=self.variational), read), inner)
        new["place"] = place
        return concat(y, token), new


def _features(x: Value, start: int, size: int) -> Value:
    """Return `size` features of a value from `start` on."""
    return x.graph.apply("slice", x, start=start, size=size)
