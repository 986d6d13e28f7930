"""The numbers of a batch's rows as kernels read them on a GPU, and the rows that take part in sums.

Where most rows are active, kernels read lengths on the GPU, in the same memory in every batch of the same sizes, and
are launched for all rows: so one recording of a pass serves all batches of T steps, B rows and S positions. Elsewhere
launches are as large as the lengths require, and a recording is for those lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.arrays.workspace import Allocate
from nmt.rnn.kernels.cuda import tuning
from nmt.rnn.kernels.cuda.gpu_base import GPUBase
from nmt.rnn.kernels.cuda.rows import row_kernels
from nmt.rnn.kernels.memory.arrays import identity
from nmt.rnn.rows import Rows


class RowNumbers(NamedTuple):
    """Lengths, source lengths and owners of `Rows`, int64 on the GPU; whether every row is computed at every step, and
    at every source position; and for every step the length of the shortest prefix of rows that contains all that are
    computed."""

    lengths: Array
    source_lengths: Array
    owner: Array
    dense: bool
    sources_dense: bool
    prefix: list[int]


def row_numbers(device: GPUBase, rows: Rows, allocate: Allocate) -> RowNumbers:
    """Return the numbers of these rows, made once for all passes over them."""

    def make() -> RowNumbers:
        given = rows.lengths, rows.source_lengths, rows.owner
        alone = np.array_equal(rows.owner, identity(rows.B))
        sources = bool((rows.source_lengths == rows.S).all()) and alone
        dense, sources_dense = is_dense(rows.lengths, rows.T), alone and is_dense(rows.source_lengths, rows.S)
        fixed = rows.whole, sources, alone
        arrays: list[Any] = [device.given(numbers, fixed=one) for numbers, one in zip(given, fixed, strict=True)]
        if arrays[0] is None:
            ends = np.cumsum([len(one) for one in given]).tolist()
            whole = device.index(np.concatenate(given))
            # Of whole rows the numbers are always the same; a single step is part of a larger recording.
            if rows.T > 1 and not (rows.whole and sources):
                place = allocate(whole.shape, whole.dtype)
                place[...] = whole
                whole = place
            arrays = [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        prefix: list[int] = [rows.B] * rows.T
        if not dense:
            there = np.arange(rows.T)[:, None] < rows.lengths
            prefix = (there * np.arange(1, rows.B + 1)).max(axis=1, initial=0).tolist()
        return RowNumbers(*arrays, dense, sources_dense, prefix)

    found: RowNumbers = rows.derived("row numbers", make)
    return found


def is_dense(lengths: np.ndarray, most: int) -> bool:
    """Return whether so much of [most, B] is real that all of it is computed."""
    return bool(lengths.sum() >= tuning.FULL_STEPS_ABOVE * most * len(lengths))


def sum_memory(
    rows: Rows, numbers: RowNumbers, steps: int, allocate: Callable[..., Array], *, wide: bool = False
) -> Array | None:
    """Return memory for `active_rows` of so many steps, or `wide` of all source positions of one step; None where all
    take part, or their indices are of the host."""
    if rows.T > 1:
        is_needed = numbers.dense and not rows.whole
    else:
        steps = rows.S
        is_needed = wide and numbers.sources_dense and bool((rows.source_lengths < rows.S).any())
    return allocate((steps * rows.B,), np.int64) if is_needed else None


def active_rows(device: GPUBase, rows: Rows, numbers: RowNumbers, memory: Array, low: int, high: int) -> Array:
    """Return the index of each row of steps [low, high) among all of them, or of these source positions of one step, -1
    for those that have ended, in `memory`."""
    out = memory[: (high - low) * rows.B]
    given = out, high - low, rows.B, numbers.lengths if rows.T > 1 else numbers.source_lengths, low
    row_kernels.launch(device.runtime, row_kernels.active_rows, out.dtype, out.size, *given)
    return out


def taking_part(device: GPUBase, rows: Rows, what: str, lengths: np.ndarray, low: int, high: int) -> Array | None:
    """Return the indices of active rows of steps [low, high), on the GPU; None for all. what: what `lengths` count."""

    def find() -> Array | None:
        there = np.arange(low, high)[:, None] < lengths
        return None if there.all() else device.index(np.flatnonzero(there))

    return rows.derived((what, low, high), find)
