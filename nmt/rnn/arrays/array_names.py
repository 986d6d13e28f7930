"""What the arrays of a run are called: the names by which compiler, kernels and scans know the same array.

A run has its arrays in one dictionary; B rows, T steps, S source positions, n features:

    x        inputs [T, B, D]
    X_name   a further sequence that the cell reads at every step [T, B, n]
    S_name   the stack of a state [T + 1, B, n]; step t reads one slot and writes the next
    C_name   what stays the same over time: a captured array [S, B, n] or [B, n], what is computed from it alone, or a
             dropout mask of all steps [B, n]
    I_C_name the number of the row of C_name that each row reads [B]
    P_name   a parameter that is no product's weight
    N_name   a value that the cell notes [T, B, n]
    D_name   the gradient of a state on its way back [2, B, n], two slots in turn
    d_name   the gradient of an input or an output: d_x, d_X_name, d_y, d_N_name
    dC_name  the gradient of what stays the same over time

SEQUENCE and NOTED begin the names of what a cell's author has named, which so cannot meet those of our arrays. A
dropout mask that is drawn anew at every step has the name of its mask, without a prefix.
"""

from __future__ import annotations

import numpy as np

Arrays = dict[str, np.ndarray]
"""Arrays by name; of a device where a run is on one."""

SEQUENCE, STATE, CAPTURED, INDEX, PARAMETER, NOTED = "X_", "S_", "C_", "I_", "P_", "N_"
STATE_GRADIENT, GRADIENT = "D_", "d_"


def sequence(name: str) -> str:
    """Of a further sequence."""
    return SEQUENCE + name


def state(name: str) -> str:
    """Of the stack of a state."""
    return STATE + name


def captured(name: str) -> str:
    """Of what stays the same over time."""
    return CAPTURED + name


def captured_index(name: str) -> str:
    """Of the row numbers by which `captured(name)` is read."""
    return INDEX + CAPTURED + name


def mask(name: str, *, lasting: bool) -> str:
    """Of a dropout mask; `lasting`: one for all steps."""
    return captured(name) if lasting else name


def noted(name: str) -> str:
    """Of a value that the cell notes."""
    return NOTED + name


def output(name: str) -> str:
    """Of an output by the name that a caller knows: `y`, or a noted value."""
    return name if name == "y" else noted(name)


def state_gradient(name: str) -> str:
    """Of the gradient of a state on its way back."""
    return STATE_GRADIENT + name


def gradient(array: str) -> str:
    """Of the gradient of an array, by the array's name."""
    return GRADIENT + array
