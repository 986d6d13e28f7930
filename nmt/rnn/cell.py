"""Cells: the definition, on one page.

A cell is one time step, written once as mathematics on symbolic values. It declares its parameters, its states and
the other arrays it reads; `step` returns its output and the new states. The engine handles time, masks, gradients,
buffers and devices. A wrapper (stack, dropout, residual, attention) is a cell around cells.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

from nmt.errors import ShapeError
from nmt.rnn.arguments import share
from nmt.rnn.graph import Value

LOADED_AT = time.time_ns()
"""The time since when this process may contain cells: a file that is older has not changed since it was imported."""


@dataclass(frozen=True)
class Param:
    """A parameter's shape, [n] or [n, m]; the blocks of several `gates` have equal width, side by side along the last
    axis.

    `ones` names the gate whose bias is initialised to one (the LSTM's forget gate: Jozefowicz et al. 2015, section
    2.2). A vector is a bias and is initialised to zero, unless it is a `weight`: an attention's v at zero would pass no
    gradient on. `start` is the initial value of all entries of a vector, for example one for a gain, or a number for
    each. A matrix with a `deviation` is drawn from a normal distribution with that standard deviation, where Glorot
    initialisation would not preserve the variance.
    """

    shape: tuple[int, ...]
    gates: int = 1
    ones: int | None = None
    weight: bool = False
    start: float | tuple[float, ...] = 0.0
    deviation: float | None = None


@dataclass(frozen=True)
class Captured:
    """An array constant over time: one row per sentence, with `source_axis` one per source position and sentence."""

    width: int
    source_axis: bool = True


class Shape(int):
    """A width with several axes: `Shape(3, 4)` is 12 numbers that the caller's arrays show as [..., 3, 4]. It can stand
    for any width: of inputs, outputs, states and captured arrays. The step and everything derived from it see one
    feature axis, and `split` divides it along the first of these axes. Arrays are reshaped, without a copy, where they
    enter and leave the engine, so a cell that knows nothing of axes may be wrapped around one that has them."""

    axes: tuple[int, ...]

    def __new__(cls, *axes: int) -> Self:
        """Return the product of the axes. Raises ShapeError if an axis is below 1."""
        if not axes or not all(isinstance(n, Integral) and n >= 1 for n in axes):
            raise ShapeError(f"Shape: axes must be one or more sizes of at least 1, got {list(axes)}")
        shape = super().__new__(cls, math.prod(axes))
        shape.axes = axes
        return shape


class Axes(Shape):
    """A state's width as named axes: `Axes(h=8, k=64, v=64)` is a matrix of 64 x 64 numbers for each of 8 heads. Unlike
    those of a `Shape`, the step sees these axes by name: see `nmt.rnn.axes`. Operations between values with different
    axes broadcast each over the axes it lacks. Named axes have one order in all of a step, that of the states, which is
    also their order in memory."""

    dims: tuple[tuple[str, int], ...]

    def __new__(cls, **axes: int) -> Self:
        """Return the product of the axes. Raises ShapeError if there is none, or one below 1."""
        shape = super().__new__(cls, *axes.values())
        shape.dims = tuple(axes.items())
        return shape


def axes_of(width: int) -> tuple[int, ...]:
    """Return the trailing axes that a caller's array has for this width."""
    return width.axes if isinstance(width, Shape) else (width,)


def dims_of(width: int) -> tuple[tuple[str, int], ...]:
    """Return the named axes of a width and their sizes; none if it is one axis for the step."""
    return width.dims if isinstance(width, Axes) else ()


class State(dict[str, Value]):
    """Named states, also reachable as attributes: `State(h=h, c=c)`, `s.h`."""

    def __getattr__(self, name: str) -> Value:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self:
            raise ShapeError(f"a state must be one of {', '.join(self) or 'none'}, got {name}")
        return self[name]

    def sub(self, prefix: str) -> State:
        """Return the states of the inner cell `prefix`."""
        return State(strip(self, prefix))

    @staticmethod
    def nest(**inner: State) -> State:
        """Return states of several inner cells under their prefixes."""
        return State({f"{prefix}.{name}": v for prefix, state in inner.items() for name, v in state.items()})


class Scope:
    """The names that a step reads besides its input and states: parameters, captured arrays and further sequences. It
    also provides dropout, and `note`, which makes intermediate values visible."""

    def __init__(
        self,
        values: Mapping[str, Value],
        dropout: Callable[[Value, float, bool], Value],
        note: Callable[[str, Value], None],
        prefix: str = "",
    ):
        self._values, self._dropout, self._note, self._prefix = values, dropout, note, prefix

    def __getattr__(self, name: str) -> Value:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Value:
        """Return the value of a name: the cell's own parameter, else what the nearest outer cell has captured."""
        prefix = self._prefix
        while True:
            if prefix + name in self._values:
                return self._values[prefix + name]
            if not prefix:
                known = ", ".join(self._values)
                promise = f"{self._prefix}{name} must be declared in params"
                raise ShapeError(f"{promise}, got none of that name among {known}")
            prefix = prefix[: prefix.rstrip(".").rfind(".") + 1]

    def sub(self, prefix: str) -> Scope:
        """Return the scope of the inner cell `prefix`."""
        return Scope(self._values, self._dropout, self._note, f"{self._prefix}{prefix}.")

    def replaced(self, values: Mapping[str, Any]) -> Scope:
        """Return the same scope with other values for some of its own names."""
        own = {self._prefix + k: v for k, v in values.items()}
        return Scope({**self._values, **own}, self._dropout, self._note, self._prefix)

    def without_dropout(self) -> Scope:
        """Return the same scope, in which dropout changes nothing."""
        return Scope(self._values, lambda x, rate, variational: x, self._note, self._prefix)

    def noting(self, prefix: str) -> Scope:
        """Return the same scope with `prefix.` before the names under which values are noted."""
        return Scope(self._values, self._dropout, lambda name, v: self._note(f"{prefix}.{name}", v), self._prefix)

    def note(self, **values: Value) -> None:
        """Name values of the step, which a scan with `record` returns for every step; costs nothing otherwise."""
        for name, value in values.items():
            self._note(self._prefix + name, value)

    def dropout(self, x: Value, rate: float, *, variational: bool = False) -> Value:
        """Return x with each unit set to zero at `rate` and the rest scaled by 1 / (1 - rate) in training, else x
        unchanged. `variational` keeps one mask for all steps of a sequence (Gal and Ghahramani 2016, section 4). Raises
        NMTError."""
        rate = share("dropout", "rate", rate)
        return self._dropout(x, rate, variational) if rate > 0 else x


class Cell:
    """Base of all cells. Sizes are plain attributes; a cell contains no arrays."""

    input_size: int
    output_size: int

    def params(self) -> dict[str, Param]:
        """Return the parameters' shapes by name."""
        return {}

    def states(self) -> dict[str, int]:
        """Return the states' widths by name; each state is one row per sentence."""
        return {}

    def starts(self) -> tuple[str, ...]:
        """Return the states that another network may initialise; the others always start at zero."""
        return tuple(self.states())

    def learned(self) -> dict[str, str]:
        """Return, for states with a learned initial value, the name of the vector they start at by default."""
        return {}

    def captured(self) -> dict[str, Captured]:
        """Return the arrays that the step reads, constant over time and not parameters, by name."""
        return {}

    def sequences(self) -> dict[str, int]:
        """Return the widths of the further sequences, which the step reads at every step besides its input, by name."""
        return {}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        """Compute one time step: input [B, input_size] and old states -> output [B, output_size] and new states."""
        raise ShapeError(f"{type(self).__name__}.step: must be written by the cell, got none; see docs/add-a-cell.md")


def check_is_cell(where: str, cell: Any) -> None:
    """Raise ShapeError unless this is a cell; a class of cells is none."""
    if not isinstance(cell, Cell):
        got, advice = type(cell).__name__, "derive it from nmt.rnn.Cell"
        if isinstance(cell, type):
            got, advice = f"the class {cell.__name__}", f"make one of it, {cell.__name__}(input_size, hidden_size)"
        raise ShapeError(f"{where}: the cell must be a Cell, got {got}; {advice}")


def belongs(name: str, groups: Collection[str]) -> bool:
    """Return whether a name is one of `groups`, or below one: `encoder` contains `encoder.W`, but not `encoder2.W`."""
    return any(name == group or name.startswith(f"{group}.") for group in groups)


def strip(names: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the entries whose names begin with `prefix.`, without the prefix."""
    start = prefix + "."
    return {k[len(start) :]: v for k, v in names.items() if k.startswith(start)}


def under(prefix: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same entries with `prefix.` before their names."""
    return {f"{prefix}.{k}": v for k, v in names.items()}
