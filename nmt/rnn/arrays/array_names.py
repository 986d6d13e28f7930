"""The names of the arrays of a run, by which compiler, kernels and scans refer to the same array.

A run has its arrays in one dictionary; B rows, T steps, S source positions, n features:

    x        inputs [T, B, D]
    X_name   a further sequence that the cell reads at every step [T, B, n]
    S_name   the stack of a state [T + 1, B, n]; step t reads one slot and writes the next
    C_name   a captured array [S, B, n] or [B, n]
    K_name   another array that is constant over time, numbered by the compiler: a value computed from captured arrays
             alone or shared by rows, or a dropout mask of all steps [B, n]
    I_C_name the number of the row of C_name that each row reads [B]; also I_K_name
    P_name   a parameter that is not the weight of a product
    N_name   a value that the cell notes [T, B, n]
    D_name   the gradient of a state in the backward pass [2, B, n], two slots used alternately
    d_name   the gradient of an input or an output: d_x, d_X_name, d_y, d_N_name
    dC_name  the gradient of an array that is constant over time; also dK_name

A name that a cell's author chose always comes after the prefix of its kind, and no array of the compiler has such a
prefix, so the two cannot collide: scratch is `s12`, a dropout mask that is drawn at every step `mask0`. Leaves of a
step, and the inputs of the small steps split from it, have the names of their arrays.
"""

from __future__ import annotations

import numpy as np

Arrays = dict[str, np.ndarray]
"""Arrays by name; those of a device if the run is on one."""

SEQUENCE, STATE, CAPTURED, CONSTANT, INDEX, PARAMETER, NOTED = "X_", "S_", "C_", "K_", "I_", "P_", "N_"
STATE_GRADIENT, GRADIENT = "D_", "d_"


def sequence(name: str) -> str:
    """Return the name of a further sequence."""
    return SEQUENCE + name


def state(name: str) -> str:
    """Return the name of a state's stack."""
    return STATE + name


def captured(name: str) -> str:
    """Return the name of a captured array."""
    return CAPTURED + name


def constant(name: str) -> str:
    """Return the name of an array of the compiler that is constant over time."""
    return CONSTANT + name


def index(array: str) -> str:
    """Return the name of the row numbers by which the named constant array is read."""
    return INDEX + array


def mask(name: str, *, lasting: bool) -> str:
    """Return the name of a dropout mask; `lasting`: one for all steps."""
    return constant(name) if lasting else name


def parameter(name: str) -> str:
    """Return the name of a parameter."""
    return PARAMETER + name


def noted(name: str) -> str:
    """Return the name of a value that the cell notes."""
    return NOTED + name


def output(name: str) -> str:
    """Return the name of an output's array from the caller's name: `y`, or a noted value."""
    return name if name == "y" else noted(name)


def state_gradient(name: str) -> str:
    """Return the name of a state's gradient in the backward pass."""
    return STATE_GRADIENT + name


def gradient(array: str) -> str:
    """Return the name of the gradient of the named array."""
    return GRADIENT + array
