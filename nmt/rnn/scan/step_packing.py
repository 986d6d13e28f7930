"""Masks: which steps exist for each row, where these are not simply its first ones.

A step that is masked out does not exist: the state before it is the state after it, its output is zero, and its input
is never read. So a row with holes is packed into a row of its other steps, and a scan runs it as any row with a length:
no loop has to check every step, and a masked step costs nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nmt.rnn.device import Device


class Packing:
    """Moves arrays between the `steps` of a mask and packed rows, of `T` steps at most."""

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
