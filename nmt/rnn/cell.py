"""What a cell is, on one page.

A cell is one time step, written once as mathematics on symbolic values. It declares its parameters, its states and
what it reads besides its input; `step` returns its output and the new states. Time, masks, gradients, buffers and
devices are the engine's business. A wrapper (stack, dropout, residual, attention) is a cell around cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nmt.errors import ShapeError
from nmt.rnn.arguments import share
from nmt.rnn.graph import Value


@dataclass(frozen=True)
class Param:
    """A parameter's shape, [n] or [n, m]; `gates` of equal width lie side by side along the last axis.

    `ones` names the gate whose bias starts at one (the LSTM's forget gate: Jozefowicz et al. 2015, section 2.2).
    A vector is a bias and starts at zero, unless it is a `weight`: an attention's v at zero would pass no gradient on.
    `start` is what all of a vector starts at: a gain at one. `dropout` is the share of entries that a training pass
    sees as zero (Wan et al. 2013, DropConnect). A matrix with a `deviation` starts normal with that standard deviation,
    where the usual start would not keep the variance of what goes through it.
    """

    shape: tuple[int, ...]
    gates: int = 1
    ones: int | None = None
    weight: bool = False
    start: float = 0.0
    dropout: float = 0.0
    deviation: float | None = None


@dataclass(frozen=True)
class Captured:
    """An array constant over time: one row per sentence, with `source_axis` one per source position and sentence."""

    width: int
    source_axis: bool = True


class Shape(int):
    """A width with several axes: `Shape(3, 4)` is 12 numbers that arrays outside show as [..., 3, 4].

    Good wherever a width is: of inputs, outputs, states and what is captured. The step and everything made from it see
    one feature axis, and `split` cuts it along the first of these; arrays are viewed the other way at the door, which
    costs nothing, and a cell that has never heard of axes may be wrapped around one that has.
    """

    axes: tuple[int, ...]

    def __new__(cls, *axes: int) -> Shape:
        """Return the product of the axes. Raises ShapeError: one below 1."""
        if not axes or min(axes) < 1:
            raise ShapeError(f"Shape: axes must be one or more sizes of at least 1, got {list(axes)}")
        shape = super().__new__(cls, math.prod(axes))
        shape.axes = axes
        return shape


def axes_of(width: int) -> tuple[int, ...]:
    """Return the trailing axes of an array outside."""
    return width.axes if isinstance(width, Shape) else (width,)


class State(dict[str, Value]):
    """Named states, also reachable as attributes: `State(h=h, c=c)`, `s.h`."""

    def __getattr__(self, name: str) -> Value:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self:
            raise ShapeError(f"step: a state must be one of {', '.join(self) or 'none'}, got {name}")
        return self[name]

    def sub(self, prefix: str) -> State:
        """Return the states of the inner cell `prefix`."""
        return State(strip(self, prefix))

    @staticmethod
    def nest(**inner: State) -> State:
        """Return states of several inner cells under their prefixes."""
        return State({f"{prefix}.{name}": v for prefix, state in inner.items() for name, v in state.items()})


class Scope:
    """What a step reads besides its input and states: parameters, captured arrays and further sequences, by name; and
    dropout. What it may show: `note`."""

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
        """Return the innermost meaning of a name: a cell's own parameter, else what an outer cell has captured."""
        prefix = self._prefix
        while True:
            if prefix + name in self._values:
                return self._values[prefix + name]
            if not prefix:
                known = ", ".join(self._values)
                raise ShapeError(
                    f"step: {self._prefix}{name} must be a parameter or captured array, got none such among {known}"
                )
            prefix = prefix[: prefix.rstrip(".").rfind(".") + 1]

    def sub(self, prefix: str) -> Scope:
        """Return the scope of the inner cell `prefix`."""
        return Scope(self._values, self._dropout, self._note, f"{self._prefix}{prefix}.")

    def replaced(self, values: Mapping[str, Any]) -> Scope:
        """Return the same scope with something else under some of its own names."""
        own = {self._prefix + k: v for k, v in values.items()}
        return Scope({**self._values, **own}, self._dropout, self._note, self._prefix)

    def noting(self, prefix: str) -> Scope:
        """Return the same scope, but that names under which values are noted begin with `prefix.`."""
        return Scope(self._values, self._dropout, lambda name, v: self._note(f"{prefix}.{name}", v), self._prefix)

    def note(self, **values: Value) -> None:
        """Give values of the step names, by which a scan with `record` shows them for every step; costs nothing
        otherwise."""
        for name, value in values.items():
            self._note(self._prefix + name, value)

    def dropout(self, x: Value, rate: float, *, variational: bool = False) -> Value:
        """x with each unit dropped at `rate` while training and scaled by 1 / (1 - rate); unchanged otherwise.

        `variational` keeps one mask for all steps of a sequence (Gal and Ghahramani 2016, section 4). Raises NMTError.
        """
        rate = share("dropout", "rate", rate)
        return self._dropout(x, rate, variational) if rate > 0 else x


class Cell:
    """Base of all cells. Sizes are plain attributes; a cell holds no arrays."""

    input_size: int
    output_size: int

    def params(self) -> dict[str, Param]:
        """Return names of the parameters and their shapes."""
        return {}

    def states(self) -> dict[str, int]:
        """Return names of the states and their widths; each is one row per sentence."""
        return {}

    def starts(self) -> tuple[str, ...]:
        """Return the states that may start from what another network hands over; the others always start at zero."""
        return tuple(self.states())

    def learned(self) -> dict[str, str]:
        """Return states that start at a parameter where nothing else is given, and the names of these vectors."""
        return {}

    def captured(self) -> dict[str, Captured]:
        """Return arrays the step reads that are constant over time and not parameters."""
        return {}

    def sequences(self) -> dict[str, int]:
        """Return names and widths of what the step reads anew at every step besides its input."""
        return {}

    def step(self, p: Scope, x: Value, s: State) -> tuple[Value, State]:
        """Return one time step: input [B, input_size] and states before -> output [B, output_size] and states after."""
        raise ShapeError(f"{type(self).__name__}.step: must be written by the cell, got none; see docs/add-a-cell.md")


def strip(names: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the entries below `prefix.`, without it."""
    start = prefix + "."
    return {k[len(start) :]: v for k, v in names.items() if k.startswith(start)}


def under(prefix: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same entries below `prefix.`."""
    return {f"{prefix}.{k}": v for k, v in names.items()}
