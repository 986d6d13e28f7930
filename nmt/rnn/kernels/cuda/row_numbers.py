"""The numbers of a batch's rows as kernels read them on a GPU, and the rows that take part in sums.

Where most rows are active, kernels read lengths on the GPU, in the same memory in every batch of the same sizes, and
are launched for all rows: so one recording of a pass serves all batches of T steps, B rows and S positions. Elsewhere
launches are as large as the lengths require, and a recording is for those lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.arrays.workspace import Allocate
from nmt.rnn.kernels.cuda import tuning
from nmt.rnn.kernels.cuda.gpu_base import GPUBase
from nmt.rnn.kernels.cuda.rows import row_kernels
from nmt.rnn.kernels.memory.arrays import identity
from nmt.rnn.rows import Rows


class RowNumbers(NamedTuple):
    """Lengths, source lengths and owners of `Rows`, int64 on the GPU; whether every row is computed at every step; and
    for every step the length of the shortest prefix of rows that contains all that are computed."""

    lengths: Array
    source_lengths: Array
    owner: Array
    dense: bool
    prefix: list[int]


def row_numbers(device: GPUBase, rows: Rows, allocate: Allocate) -> RowNumbers:
    """Return the numbers of these rows, made once for all passes over them."""

    def make() -> RowNumbers:
        given = rows.lengths, rows.source_lengths, rows.owner
        ends = np.cumsum([len(one) for one in given]).tolist()
        whole = device.index(np.concatenate(given))
        sources = bool((rows.source_lengths == rows.S).all()) and np.array_equal(rows.owner, identity(rows.B))
        # Of whole rows the numbers are always the same; a single step is part of a larger recording, without a copy.
        if rows.T > 1 and not (rows.whole and sources):
            place = allocate(whole.shape, whole.dtype)
            place[...] = whole
            whole = place
        return RowNumbers(*(whole[start:end] for start, end in zip([0, *ends], ends, strict=False)), *_prefixes(rows))

    found: RowNumbers = rows.derived("row numbers", make)
    return found


def _prefixes(rows: Rows) -> tuple[bool, list[int]]:
    if rows.lengths.sum() >= tuning.FULL_STEPS_ABOVE * rows.T * rows.B:
        return True, [rows.B] * rows.T
    there = np.arange(rows.T)[:, None] < rows.lengths
    return False, (there * np.arange(1, rows.B + 1)).max(axis=1, initial=0).tolist()


def sum_memory(rows: Rows, numbers: RowNumbers, steps: int, allocate: Callable[..., Array]) -> Array | None:
    """Return memory for `active_rows` of so many steps; None where all take part, or their indices are of the host."""
    is_needed = numbers.dense and rows.T > 1 and not rows.whole
    return allocate((steps * rows.B,), np.int64) if is_needed else None


def active_rows(device: GPUBase, rows: Rows, numbers: RowNumbers, memory: Array, low: int, high: int) -> Array:
    """Return the index of each row of steps [low, high) among all of them, -1 for those that have ended, in
    `memory`."""
    out = memory[: (high - low) * rows.B]
    kernel = row_kernels.active_rows(out.dtype, row_kernels.threads_for(out.size))
    given = out, high - low, rows.B, numbers.lengths, low
    device.runtime.launch(kernel, row_kernels.grid_of(kernel, out.size), *given)
    return out


def taking_part(device: GPUBase, rows: Rows, what: str, lengths: np.ndarray, low: int, high: int) -> Array | None:
    """Return the indices of the active rows among all of steps [low, high), on the GPU; None for all. `what`: what
    `lengths` [B] count."""

    def find() -> Array | None:
        there = np.arange(low, high)[:, None] < lengths
        return None if there.all() else device.index(np.flatnonzero(there))

    return rows.derived((what, low, high), find)
