"""Read numbers and addresses from tables, and find the rows that are active at a step."""

from typing import Any

import numpy as np
from llvmlite import ir

from nmt.rnn.kernels.machine_code.jit import inner_kernel, instruction, kernel


@instruction("voidptr", "int64", result="int64")
def number_in(builder: ir.IRBuilder, table: ir.Value, index: ir.Value) -> ir.Value:
    """Return the int64 at an index of a table (see `jit.task`)."""
    numbers = builder.bitcast(table, ir.IntType(64).as_pointer())
    return builder.load(builder.gep(numbers, [index]))


def pointers_after(words: int) -> Any:
    """Return an intrinsic `get(table, index)`, which returns an address from a table; index 0 is the word that follows
    the first `words` words."""

    @instruction("voidptr", "int64", result="voidptr")
    def get(builder: ir.IRBuilder, table: ir.Value, index: ir.Value) -> ir.Value:
        numbers = builder.bitcast(table, ir.IntType(64).as_pointer())
        place = builder.add(index, ir.Constant(ir.IntType(64), words))
        word = builder.load(builder.gep(numbers, [place]))  # 8 bytes, also where a pointer has 4
        return builder.inttoptr(word, ir.IntType(8).as_pointer())

    return get


@kernel
def zero_inactive(part, parts, array, lengths):  # type: ignore[no-untyped-def]
    """Zero the rows of [T, B, n] beyond each length."""
    T, B, _ = array.shape
    for b in range(B * part // parts, B * (part + 1) // parts):
        for t in range(lengths[b], T):
            array[t, b, :] = 0


@inner_kernel
def active_prefix(lengths, first, last, t):  # type: ignore[no-untyped-def]
    """Return the length of the shortest prefix of rows [first, last) that contains all rows still active at step t."""
    for n in range(last - 1, first - 1, -1):
        if lengths[n] > t:
            return n - first + 1
    return 0


@kernel
def _prefix_rows(lengths, bounds, T, runs, found):  # type: ignore[no-untyped-def]
    B = lengths.shape[0]
    parts = bounds.shape[0] - 1
    count = 0
    for t in range(T):
        for part in range(parts):
            rows = active_prefix(lengths, bounds[part], bounds[part + 1], t)
            if rows > 0:
                start = t * B + bounds[part]
                if count > 0 and runs[count - 1, 0] + runs[count - 1, 1] == start:
                    runs[count - 1, 1] += rows
                else:
                    runs[count, 0], runs[count, 1] = start, rows
                    count += 1
    found[0] = count


def prefix_rows(lengths: np.ndarray, bounds: np.ndarray, T: int) -> np.ndarray:
    """Return the runs of rows [n, 2] of a [T * B] array that form, for every step and part, the shortest prefix with
    all its active rows. lengths [B] and bounds [parts + 1] are int64."""
    runs, found = np.empty((T * (len(bounds) - 1), 2), np.int64), np.zeros(1, np.int64)
    _prefix_rows(lengths, bounds, T, runs, found)
    return runs[: found[0]]


@kernel
def _active_rows(lengths, T, runs, found):  # type: ignore[no-untyped-def]
    B = lengths.shape[0]
    count = 0
    for t in range(T):
        for n in range(B):
            if lengths[n] > t:
                row = t * B + n
                if count > 0 and runs[count - 1, 0] + runs[count - 1, 1] == row:
                    runs[count - 1, 1] += 1
                else:
                    runs[count, 0], runs[count, 1] = row, 1
                    count += 1
    found[0] = count


def active_rows(lengths: np.ndarray, T: int) -> np.ndarray:
    """Return the runs of rows [n, 2] of a [T * B] array that contain exactly the active rows, step by step. lengths [B]
    are int64."""
    runs, found = np.empty((T * ((len(lengths) + 1) // 2), 2), np.int64), np.zeros(1, np.int64)
    _active_rows(lengths, T, runs, found)
    return runs[: found[0]]
