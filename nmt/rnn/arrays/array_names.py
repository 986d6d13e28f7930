"""The names of the arrays of a run, by which compiler, kernels and scans refer to the same array.

A run has its arrays in one dictionary. `x` are the inputs [T, B, D]; every other name is made by `ArrayKind.of` or
`Numbered.of`, and read by `parse`: no other module spells a prefix. B rows, T steps, S source positions, n features.

A name that a cell's author chose always comes after the prefix of its kind, and no array of the compiler has such a
prefix, so the two cannot collide: scratch is `s12`, a dropout mask that is drawn at every step `mask0`. Leaves of a
step, and the inputs of the small steps split from it, have the names of their arrays.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from nmt.rnn.cell import axes_of

Arrays = dict[str, np.ndarray]
"""Arrays by name; those of a device if the run is on one."""


class ArrayKind(StrEnum):
    """Kinds of arrays; the value is the prefix of their names."""

    SEQUENCE = "X_"
    """A further sequence that the cell reads at every step [T, B, n]."""
    STATE = "S_"
    """The stack of a state [T + 1, B, n]; step t reads one slot and writes the next."""
    CHECKPOINT = "Q_"
    """A state with named axes before every few steps, kept for the backward pass [T / CHECKPOINT_STEPS, B, n]."""
    REPLAYED = "R_"
    """Such a state of one row in the steps after a checkpoint, computed once more [CHECKPOINT_STEPS + 1, n]."""
    CAPTURED = "C_"
    """A captured array [S, B, n] or [B, n]."""
    CONSTANT = "K_"
    """An array of the compiler that is constant over time: a value computed from captured arrays alone or shared by
    rows, or a dropout mask of all steps [B, n]."""
    INDEX = "I_"
    """The number of the row of an array constant over time, C_name or K_name, that each row reads [B]."""
    PARAMETER = "P_"
    """A parameter that is not the weight of a product."""
    NOTED = "N_"
    """A value that the cell notes [T, B, n]."""
    STATE_GRADIENT = "D_"
    """The gradient of a state in the backward pass [2, B, n], two slots used alternately."""
    GRADIENT = "d_"
    """The gradient of an input or an output: d_x, d_X_name, d_y, d_N_name."""
    CONSTANT_GRADIENT = "d"
    """The gradient of an array that is constant over time: dC_name, dK_name."""

    def of(self, name: str) -> str:
        """Return the name of the array of this kind for `name`."""
        return self + name


class NumberedName(StrEnum):
    """The base of kinds of names that have a number; the value is the part before it."""

    def of(self, number: int) -> str:
        """Return the name with this number, which is the id of a value or a count."""
        return f"{self}{number}"


class Numbered(NumberedName):
    """Arrays of the compiler, with a number in their names."""

    INVARIANT = "invariant"
    SHARED = "shared"
    MASK = "mask"
    SCRATCH = "s"
    KEPT = "k"
    OPERAND = "g"
    CROSSING = "t"

    def names(self, array: str) -> bool:
        """Return whether `array` is one of these names."""
        return array.startswith(self) and array[len(self) :].isdecimal()


class Name(NamedTuple):
    """The parts of an array's name; `kind` is None for `x` and arrays of the compiler."""

    kind: ArrayKind | None
    base: str


_BY_PREFIX = {str(kind): kind for kind in ArrayKind if len(kind) == 2}  # noqa: PLR2004


def parse(array: str) -> Name:
    """Return the kind and the name of an array: the inverse of `ArrayKind.of`. For a gradient, the name of its array. A
    gradient of an array that is constant over time has no kind."""
    kind = _BY_PREFIX.get(array[:2])
    return Name(kind, array if kind is None else array[2:])


def output(name: str) -> str:
    """Return the name of an output's array from the caller's name: `y`, or a noted value."""
    return name if name == "y" else ArrayKind.NOTED.of(name)


def flat(array: Any, lead: int, width: int) -> Any:
    """Return a caller's array with one axis for its features, after the first `lead` axes."""
    return array if array.ndim == lead + 1 else array.reshape(*array.shape[:lead], int(width))


def shaped(array: Any, width: int) -> Any:
    """Return an array with one feature axis in the caller's shape."""
    axes = axes_of(width)
    return array if len(axes) == 1 else array.reshape(*array.shape[:-1], *axes)
