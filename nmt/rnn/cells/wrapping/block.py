"""The usual block around a recurrence: norm, product, short convolution, recurrence, gate, product; and stacks of
blocks."""

from collections.abc import Callable
from typing import Literal

from nmt.errors import ShapeError
from nmt.rnn.cell import Cell, Param, Scope, State, under
from nmt.rnn.cells.layer_norm import norm_params, normalised
from nmt.rnn.cells.parts import (
    EPSILON,
    gelu,
    rms_norm,
    short_convolution,
    short_convolution_params,
    short_convolution_states,
    silu,
)
from nmt.rnn.cells.wrapping.wrappers import WrappedCell
from nmt.rnn.graph import Value

_ACTIVATIONS: dict[str, Callable[[Value], Value]] = {"silu": silu, "gelu": gelu}


class NormedCell(WrappedCell):
    """A cell that reads x / sqrt(mean(x^2)) * norm_gain: the first part of a block with a residual connection.

    layer: x is normalised by its mean and variance instead, with `gain_norm` and `bias_norm` (Ba et al. 2016).
    after: not the input but the output is normalised, as at the end of a stack of such blocks, with `gain_end` and, by
    layer, `bias_end`. epsilon: added to the mean of squares, but not by layer.
    """

    def __init__(self, cell: Cell, *, layer: bool = False, after: bool = False, epsilon: float = EPSILON) -> None:
        super().__init__(cell)
        self.layer, self.after, self.epsilon = layer, after, epsilon
        self._name = "end" if after else "norm"
        self._gain = "gain_end" if after else "norm_gain"

    def params(self) -> dict[str, Param]:
        width = int(self.output_size if self.after else self.input_size)
        own = norm_params(self._name, width) if self.layer else {self._gain: Param((width,), start=1.0)}
        return own | self.cell.params()

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        if not self.after:
            return self.cell.step(p, self._normed(p, x), s)
        y, new = self.cell.step(p, x, s)
        return self._normed(p, y), new

    def _normed(self, p: Scope, x: Value) -> Value:
        return normalised(p, self._name, x) if self.layer else rms_norm(x, p[self._gain], self.epsilon)


class BlockCell(Cell):
    """x W_in, a short convolution, the cell, times an activation of x W_gate, times W_out: the block of Mamba (Gu and
    Dao 2023, figure 3) and of Griffin's recurrence (De et al. 2024, section 2.3).

    The cell has as many inputs as outputs; its parameters and states are named `cell.*`. window: of the convolution,
    with a bias; 0 is none. convolved: whether silu follows the convolution, as in Mamba. gate: `silu` or `gelu`.
    output_size: that of the cell where None.
    """

    def __init__(
        self,
        input_size: int,
        cell: Cell,
        *,
        window: int = 4,
        convolved: bool = True,
        gate: Literal["silu", "gelu"] = "silu",
        output_size: int | None = None,
    ) -> None:
        if cell.input_size != cell.output_size or gate not in _ACTIVATIONS:
            got = f"{cell.input_size} -> {cell.output_size}, {gate}"
            raise ShapeError(f"BlockCell: the cell must have as many inputs as outputs, gate silu or gelu, got {got}")
        self.input_size, self.output_size, self.cell = input_size, output_size or cell.output_size, cell
        self.window, self.convolved, self.gate = window, convolved, gate

    def params(self) -> dict[str, Param]:
        D, H = self.input_size, int(self.cell.output_size)
        shapes = {"W_in": Param((D, H)), "W_gate": Param((D, H)), "W_out": Param((H, self.output_size))}
        if self.window:
            shapes |= {"b": Param((H,))} | short_convolution_params(self.window, H)
        return shapes | under("cell", self.cell.params())

    def states(self) -> dict[str, int]:
        return under("cell", self.cell.states()) | short_convolution_states(self.window, self.cell.output_size)

    def starts(self) -> tuple[str, ...]:
        return tuple(f"cell.{name}" for name in self.cell.starts())

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        u, past = x @ p.W_in, State()
        if self.window:
            u, past = short_convolution(p, u, s, self.window)
            u = u + p.b
            u = silu(u) if self.convolved else u
        y, inner = self.cell.step(p.sub("cell"), u, s.sub("cell"))
        return (y * _ACTIVATIONS[self.gate](x @ p.W_gate)) @ p.W_out, State(under("cell", inner), **past)


class GatedUnitsCell(Cell):
    """(silu(x W_gate) * x W_in) W_out with `inner` units: a mixing of channels without a state (SwiGLU, Shazeer 2020,
    equation 6)."""

    def __init__(self, size: int, inner: int) -> None:
        self.input_size, self.output_size, self.inner = size, size, inner

    def params(self) -> dict[str, Param]:
        D, n = self.input_size, self.inner
        return {"W_gate": Param((D, n)), "W_in": Param((D, n)), "W_out": Param((n, D))}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        return (silu(x @ p.W_gate) * (x @ p.W_in)) @ p.W_out, State()
