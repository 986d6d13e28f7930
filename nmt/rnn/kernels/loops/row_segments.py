"""Find the rows of an array that take part in a product or a sum, as runs of adjacent rows."""

from __future__ import annotations

import numpy as np

from nmt.rnn.kernels.memory.active_rows import active_rows, prefix_rows
from nmt.rnn.rows import Rows, TimeBlock


def row_segments(rows: Rows, wide: bool, block: TimeBlock, *, exact: bool = False) -> np.ndarray:
    """Return the runs of rows that take part in a block of a [T, B, n] array, or with `wide` of a [1, S, B, n] array:
    int64 [runs, 2], the first row and the number of rows of each.

    A product may also run over inactive rows within a prefix. A sum over rows must be `exact`: padding might be NaN or
    infinite, and additional rows would move the others to different blocks of the sum.
    """
    if rows.ordered and rows.threads == 1 and not wide:
        exact = False  # the prefixes are the active rows
    key = ("segments", wide, exact, block.low, block.high)
    return rows.derived(key, lambda: _find(rows, wide, block, exact))


def _find(rows: Rows, wide: bool, block: TimeBlock, exact: bool) -> np.ndarray:
    """Compute `row_segments`."""
    steps = rows.S if wide else block.high - block.low
    if rows.whole and not wide:
        return np.array([[0, steps * rows.B]], np.int64)
    lengths = rows.source_lengths if wide else rows.lengths - block.low
    if not wide and (block.low or block.high < rows.T):
        lengths = np.minimum(np.maximum(lengths, 0), steps)
    if exact:
        return np.asarray(active_rows(lengths, steps))
    bounds = np.array([0, len(lengths)], np.int64) if wide else rows.bounds
    return np.asarray(prefix_rows(lengths, bounds, steps))
