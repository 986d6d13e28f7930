"""Which rows of an array take part in a product or a sum, as runs of neighbours."""

from __future__ import annotations

import numpy as np

from nmt.rnn.kernels.memory.alias_scopes import active_rows, prefix_rows
from nmt.rnn.rows import Block, Rows


def row_segments(rows: Rows, wide: bool, block: Block, *, exact: bool = False) -> np.ndarray:
    """Runs of rows of a block of a [T, B, n] array that take part, int64 [runs, 2]: first and count; with `wide`, of a
    [1, S, B, n] array.

    A product may run over a prefix of rows that holds some that have ended. A sum over rows is `exact`: what lies in
    padding might be no number, and a row more or less would move the others to other blocks of the sum.
    """
    key = ("segments", wide, exact, block.low, block.high)
    return rows.derived(key, lambda: _find(rows, wide, block, exact))


def _find(rows: Rows, wide: bool, block: Block, exact: bool) -> np.ndarray:
    """`row_segments` without memory of former answers: one run where every row is there to the end."""
    steps = rows.S if wide else block.high - block.low
    if rows.whole and not wide:
        return np.array([[0, steps * rows.B]], np.int64)
    lengths = rows.source_lengths if wide else np.clip(rows.lengths - block.low, 0, steps)
    if len(lengths) and (lengths == steps).all():
        return np.array([[0, steps * len(lengths)]], np.int64)
    if exact:
        return np.asarray(active_rows(lengths, steps))
    bounds = np.array([0, len(lengths)], np.int64) if wide else rows.bounds
    return np.asarray(prefix_rows(lengths, bounds, steps))
