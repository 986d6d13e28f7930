"""What the arrays of a run are called: the names by which compiler, kernels and scans know the same array.

A run has its arrays in one dictionary; B rows, T steps, S source positions, n features:

    x        inputs [T, B, D]
    X_name   a further sequence that the cell reads at every step [T, B, n]
    S_name   the stack of a state [T + 1, B, n]; step t reads one slot and writes the next
    C_name   a captured array [S, B, n] or [B, n]
    K_name   what else stays the same over time, numbered by the compiler: a value computed from captured arrays alone
             or shared by rows, or a dropout mask of all steps [B, n]
    I_C_name the number of the row of C_name that each row reads [B]; also I_K_name
    P_name   a parameter that is no product's weight
    N_name   a value that the cell notes [T, B, n]
    D_name   the gradient of a state on its way back [2, B, n], two slots in turn
    d_name   the gradient of an input or an output: d_x, d_X_name, d_y, d_N_name
    dC_name  the gradient of what stays the same over time; also dK_name

A name that a cell's author chose always stands behind the prefix of its kind, and no array of the compiler's own has
such a prefix, so the two cannot meet: scratch is `s12`, a dropout mask that is drawn anew at every step `mask0`. Leaves
of a step, and the inputs of small steps cut from it, have the names of their arrays.
"""

from __future__ import annotations

import numpy as np

Arrays = dict[str, np.ndarray]
"""Arrays by name; of a device where a run is on one."""

SEQUENCE, STATE, CAPTURED, CONSTANT, INDEX, PARAMETER, NOTED = "X_", "S_", "C_", "K_", "I_", "P_", "N_"
STATE_GRADIENT, GRADIENT = "D_", "d_"


def sequence(name: str) -> str:
    """Of a further sequence."""
    return SEQUENCE + name


def state(name: str) -> str:
    """Of the stack of a state."""
    return STATE + name


def captured(name: str) -> str:
    """Of a captured array."""
    return CAPTURED + name


def constant(name: str) -> str:
    """Of a value of the compiler's own that stays the same over time."""
    return CONSTANT + name


def index(array: str) -> str:
    """Of the row numbers by which an array that stays the same over time is read, by the array's name."""
    return INDEX + array


def mask(name: str, *, lasting: bool) -> str:
    """Of a dropout mask; `lasting`: one for all steps."""
    return constant(name) if lasting else name


def parameter(name: str) -> str:
    """Of a parameter."""
    return PARAMETER + name


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
