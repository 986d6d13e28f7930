"""Wrappers around cells: stack, residual, dropout; and the cell without a state, a linear layer."""

from nmt.errors import ShapeError
from nmt.rnn.cell import Captured, Cell, Param, Scope, State, under
from nmt.rnn.functions import tanh
from nmt.rnn.graph import Value


class SeveralCells(Cell):
    """A cell that is made of others. Parameters and states are named `0.W_x`, `1.h`."""

    cells: list[Cell]

    def params(self) -> dict[str, Param]:
        return {k: v for n, cell in enumerate(self.cells) for k, v in under(str(n), cell.params()).items()}

    def states(self) -> dict[str, int]:
        return {k: v for n, cell in enumerate(self.cells) for k, v in under(str(n), cell.states()).items()}

    def starts(self) -> tuple[str, ...]:
        return tuple(f"{n}.{name}" for n, cell in enumerate(self.cells) for name in cell.starts())

    def learned(self) -> dict[str, str]:
        return {f"{n}.{k}": f"{n}.{v}" for n, cell in enumerate(self.cells) for k, v in cell.learned().items()}

    def captured(self) -> dict[str, Captured]:
        return {k: v for cell in self.cells for k, v in cell.captured().items()}

    def sequences(self) -> dict[str, int]:
        return {k: v for cell in self.cells for k, v in cell.sequences().items()}


class StackCell(SeveralCells):
    """Cells one above the other; each reads the output of the one below."""

    def __init__(self, cells: list[Cell]) -> None:
        for below, above in zip(cells, cells[1:], strict=False):
            if above.input_size != below.output_size:
                raise ShapeError(
                    f"StackCell: input_size must be {below.output_size}, the output below, got {above.input_size}"
                )
        self.cells = cells
        self.input_size, self.output_size = cells[0].input_size, cells[-1].output_size

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        new = State()
        for n, cell in enumerate(self.cells):
            x, inner = cell.step(p.sub(str(n)), x, s.sub(str(n)))
            new.update(under(str(n), inner))
        return x, new


class WrappedCell(Cell):
    """A wrapper with the same parameters, states and other arrays as its inner cell, under the same names."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.input_size, self.output_size = cell.input_size, cell.output_size

    def params(self) -> dict[str, Param]:
        return self.cell.params()

    def states(self) -> dict[str, int]:
        return self.cell.states()

    def starts(self) -> tuple[str, ...]:
        return self.cell.starts()

    def learned(self) -> dict[str, str]:
        return self.cell.learned()

    def captured(self) -> dict[str, Captured]:
        return self.cell.captured()

    def sequences(self) -> dict[str, int]:
        return self.cell.sequences()


class ResidualCell(WrappedCell):
    """Output plus input, where the sizes agree (He et al. 2016; in recurrent stacks Wu et al. 2016, section 3.1)."""

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        y, new = self.cell.step(p, x, s)
        return (y + x if self.input_size == self.output_size else y), new


class DropoutCell(WrappedCell):
    """Dropout on the input of a cell (Srivastava et al. 2014), per step or one mask for all steps (Gal and
    Ghahramani 2016)."""

    def __init__(self, cell: Cell, rate: float, variational: bool = False) -> None:
        super().__init__(cell)
        self.rate, self.variational = rate, variational

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        return self.cell.step(p, p.dropout(x, self.rate, variational=self.variational), s)


class LinearCell(Cell):
    """y = f(x W + b), f identity or tanh: a cell without a state, so all steps are one product."""

    def __init__(self, input_size: int, output_size: int, nonlinearity: str = "none", bias: bool = True) -> None:
        self.input_size, self.output_size = input_size, output_size
        self.nonlinearity, self.bias = nonlinearity, bias

    def params(self) -> dict[str, Param]:
        shapes = {"W": Param((self.input_size, self.output_size))}
        return shapes | ({"b": Param((self.output_size,))} if self.bias else {})

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        y = x @ p.W
        if self.bias:
            y = y + p.b
        return (tanh(y) if self.nonlinearity == "tanh" else y), State()
