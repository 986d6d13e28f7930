"""Checks of arrays given to a scan: shapes, dtypes and lengths are checked once, here; and masks, by which rows are
packed."""

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


class Packing:
    """Moves arrays between the `steps` of a mask and packed rows, of `T` steps at most.

    A step that is masked out does not exist: the state before it is the state after it, its output is zero, and its
    input is never read. A row with holes is packed into a row of its other steps, so a masked step costs nothing.
    """

    def __init__(self, mask: np.ndarray, device: Device) -> None:
        """Prepare the indices of a mask, bool [T, B], True where a step exists."""
        self.steps, B = mask.shape
        self.T = int(mask.sum(axis=0).max(initial=0))
        order = np.argsort(~mask, axis=0, kind="stable")[: self.T]  # the steps that exist first, in their order
        self._device, self._xp = device, device.xp
        self._rows = device.index(np.arange(B, dtype=np.int64))
        self._from = device.index(order.astype(np.int64))
        self._to = device.index(np.maximum(np.cumsum(mask, axis=0) - 1, 0).astype(np.int64))
        self._holes = device.xp.asarray(~mask)

    def pack(self, array: Any) -> Any:
        """Return [steps, B, n] or [steps, S, B, n] without the steps that do not exist; padding is arbitrary."""
        return self._take(array, self._from)

    def unpack(self, array: Any) -> Any:
        """Return an array at the mask's steps again, zero where no step exists."""
        if not self.T:
            return self._xp.zeros((self.steps, *array.shape[1:]), array.dtype)
        spread = self._take(array, self._to)
        moved = spread.swapaxes(1, 2) if spread.ndim == 4 else spread
        moved[self._holes] = 0
        return spread

    def _take(self, array: Any, steps: Any) -> Any:
        """Return the given steps [T, B] of each row."""
        array = self._device.host(array)
        if array.ndim == 4:  # the rows are the third axis
            return self._xp.ascontiguousarray(array.swapaxes(1, 2)[steps, self._rows].swapaxes(1, 2))
        return array[steps, self._rows]


def pack_steps(mask: np.ndarray, device: Device) -> tuple[np.ndarray, Packing | None]:
    """Return the lengths of rows under a mask, bool [T, B] of the host, and their packing; None if nothing needs to
    move."""
    lengths = mask.sum(axis=0).astype(np.int64)
    first = np.arange(len(mask))[:, None] < lengths
    return lengths, None if (mask == first).all() else Packing(mask, device)
