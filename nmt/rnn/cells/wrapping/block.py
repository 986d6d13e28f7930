"""The usual block around a recurrence: norm, product, short convolution, recurrence, gate, product."""

from collections.abc import Callable
from typing import Literal

from nmt.errors import ShapeError
from nmt.rnn.cell import Cell, Param, Scope, State, under
from nmt.rnn.cells.parts import (
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
    """A cell that reads x / sqrt(mean(x^2)) * norm_gain: the first part of a block with a residual connection."""

    def params(self) -> dict[str, Param]:
        return {"norm_gain": Param((int(self.input_size),), start=1.0)} | self.cell.params()

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        return self.cell.step(p, rms_norm(x, p.norm_gain), s)


class BlockCell(Cell):
    """x W_in, a short convolution, the cell, times an activation of x W_gate, times W_out: the block of Mamba (Gu and
    Dao 2023, figure 3) and of Griffin's recurrence (De et al. 2024, section 2.3).

    The cell has as many inputs as outputs; its parameters and states are named `cell.*`. window: of the convolution,
    with a bias; 0 is none. convolved: whether silu follows the convolution, as in Mamba. gate: `silu` or `gelu`.
    """

    def __init__(
        self,
        input_size: int,
        cell: Cell,
        *,
        window: int = 4,
        convolved: bool = True,
        gate: Literal["silu", "gelu"] = "silu",
    ) -> None:
        if cell.input_size != cell.output_size or gate not in _ACTIVATIONS:
            got = f"{cell.input_size} -> {cell.output_size}, {gate}"
            raise ShapeError(f"BlockCell: the cell must have as many inputs as outputs, gate silu or gelu, got {got}")
        self.input_size, self.output_size, self.cell = input_size, cell.output_size, cell
        self.window, self.convolved, self.gate = window, convolved, gate

    def params(self) -> dict[str, Param]:
        D, H = self.input_size, int(self.cell.output_size)
        shapes = {"W_in": Param((D, H)), "W_gate": Param((D, H)), "W_out": Param((H, H))}
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
