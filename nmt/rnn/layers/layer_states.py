"""States of a stack of layers as the caller sees them, and by layer and direction as scans see them.

One array [L * directions, B, n] if all layers have the same width, layer by layer and forward before reverse; else a
tuple with one array [directions, B, n] per layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nmt.errors import ShapeError
from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.device import Device

States = Array | tuple[Array, ...]
"""One state of all layers."""


def check_array(
    where: str, what: str, array: Any, shape: Sequence[str | int], dtype: np.dtype, device: Device
) -> Array:
    """Return the array, contiguous. A letter in `shape` stands for any size. Raises ShapeError."""
    promise = f"{dtype} [{', '.join(map(str, shape))}]"
    if not isinstance(array, device.xp.ndarray):
        raise ShapeError(f"{where}: {what} must be {promise}, got {type(array).__name__}")
    fits = array.ndim == len(shape) and all(
        isinstance(n, str) or n == m for n, m in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype != dtype:
        raise ShapeError(f"{where}: {what} must be {promise}, got {array.dtype} {list(array.shape)}")
    return device.xp.ascontiguousarray(array)


class LayerStates:
    """Splits one state of all layers by layer and direction, and joins it again."""

    def __init__(self, where: str, device: Device, dtype: np.dtype, widths: Sequence[int], directions: int) -> None:
        """Describe one state. `where`: the caller's name, for errors; `widths` of the state by layer."""
        self._where, self._device, self._dtype = where, device, dtype
        self._widths, self._directions = list(widths), directions
        self._equal = len(set(widths)) == 1

    def shapes(self, B: int) -> list[tuple[int, ...]]:
        """Return the shapes of the caller's arrays."""
        if self._equal:
            return [(len(self._widths) * self._directions, B, self._widths[0])]
        return [(self._directions, B, width) for width in self._widths]

    def split(self, given: States, B: int, what: str) -> list[Array]:
        """Return [B, n] for each layer and direction. Raises ShapeError."""
        shapes = self.shapes(B)
        arrays = (given,) if self._equal else given
        if not isinstance(arrays, tuple | list) or len(arrays) != len(shapes):
            got = f"{len(arrays)}" if isinstance(arrays, tuple | list) else type(arrays).__name__
            raise ShapeError(f"{self._where}: {what} must be a tuple of {len(shapes)} arrays, one a layer, got {got}")
        checked = [
            check_array(self._where, what if self._equal else f"{what}[{n}]", array, shape, self._dtype, self._device)
            for n, (array, shape) in enumerate(zip(arrays, shapes, strict=True))
        ]
        return [side for array in checked for side in array]

    def fits(self, given: Any, B: int) -> bool:
        """Return whether `split` would accept it without conversion."""
        arrays, shapes = ((given,) if self._equal else given), self.shapes(B)
        if not isinstance(arrays, tuple) or len(arrays) != len(shapes):
            return False
        return all(
            type(a) is self._device.xp.ndarray and a.shape == shape and a.dtype == self._dtype
            for a, shape in zip(arrays, shapes, strict=True)
        )

    def join(self, sides: Sequence[Array]) -> States:
        """Return new arrays made from [1, B, n] of each layer and direction."""
        join, size = self._device.xp.concatenate, self._directions
        if self._equal:
            return join(sides)
        return tuple(join(sides[n : n + size]) for n in range(0, len(sides), size))
