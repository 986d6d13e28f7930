"""Checks of arrays given to a scan: shapes, dtypes and lengths are checked once, here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nmt.errors import ShapeError
from nmt.rnn.arrays.array_names import Arrays
from nmt.rnn.arrays.axes import flat
from nmt.rnn.cell import Cell, axes_of
from nmt.rnn.device import Device

Lead = tuple[int | None, ...]
"""Sizes of the axes before the features; None is any."""


class ArrayChecks:
    """Checks of a cell's arrays, which have one dtype and device. All errors are ShapeErrors."""

    def __init__(self, cell: Cell, dtype: np.dtype, device: Device) -> None:
        self.name, self.dtype, self.device = type(cell).__name__, dtype, device
        self.captured, self.sequences = cell.captured(), cell.sequences()
        self.inputs = {"x": cell.input_size, **self.sequences}

    def array(self, what: str, array: Any, lead: Lead, width: int) -> Any:
        """Return `array`, contiguous, with one axis for its features."""
        shape = (*lead, *axes_of(width))
        is_array = isinstance(array, self.device.xp.ndarray)
        fits = (
            is_array
            and array.ndim == len(shape)
            and all(n is None or n == m for n, m in zip(shape, array.shape, strict=True))
        )
        if not fits or array.dtype != self.dtype:
            promise = f"{self.dtype} [{', '.join('any' if n is None else str(n) for n in shape)}] on {self.device.name}"
            got = f"{array.dtype} {list(array.shape)}" if is_array else type(array).__name__
            raise ShapeError(f"{self.name}: {what} must be {promise}, got {got}")
        return flat(self.device.contiguous(array), len(lead), width)

    def lengths(self, what: str, lengths: Any, B: int, limit: int) -> np.ndarray:
        """Return lengths of B rows as int64; None is `limit` for each."""
        if lengths is None:
            return np.full(B, limit, np.int64)
        array = np.asarray(lengths)
        whole = array.dtype.kind in "iu" or not array.size
        if array.shape != (B,) or not whole or (B and (array.min() < 0 or array.max() > limit)):
            raise ShapeError(f"{self.name}: {what} must be {B} integers from 0 to {limit}, got {array.tolist()}")
        return array.astype(np.int64)

    def steps_of(self, lengths: Any, mask: Any, T: int, B: int) -> np.ndarray:
        """Return the steps of each row, bool [T, B], from lengths or a mask: one of the two, or neither for all
        steps."""
        if mask is None:
            return np.asarray(np.arange(T)[:, None] < self.lengths("lengths", lengths, B, T))
        mask = np.array(mask)
        if lengths is not None:
            raise ShapeError(f"{self.name}: lengths must be None with a mask, got both")
        if mask.shape != (T, B) or mask.dtype != bool:
            raise ShapeError(f"{self.name}: mask must be bool [{T}, {B}], got {mask.dtype} {list(mask.shape)}")
        return mask

    def source_steps(self, captured: Mapping[str, Any]) -> int:
        """Return the number of source positions of captured arrays; 1 if none has any."""
        return next((captured[k].shape[0] for k, c in self.captured.items() if c.source_axis and k in captured), 1)

    def all_captured(self, captured: Mapping[str, Any], S: int, B: int) -> Arrays:
        """Return the captured arrays after checking that exactly the cell's are given."""
        self._names("captured arrays", captured, self.captured)
        source = {True: (S,), False: ()}
        return {k: self.array(k, captured[k], (*source[c.source_axis], B), c.width) for k, c in self.captured.items()}

    def all_sequences(self, sequences: Mapping[str, Any], *lead: int) -> Arrays:
        """Return the further sequences after checking that exactly the cell's are given, with these sizes before the
        features."""
        self._names("sequences", sequences, self.sequences)
        return {k: self.array(k, sequences[k], lead, n) for k, n in self.sequences.items()}

    def _names(self, what: str, got: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
        if set(got) != set(expected):
            raise ShapeError(f"{self.name}: {what} must be {sorted(expected) or 'none'}, got {sorted(got) or 'none'}")
