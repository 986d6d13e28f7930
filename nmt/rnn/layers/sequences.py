"""Conversion between packed sequences of different lengths and the padded arrays that scans take."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nmt.errors import ShapeError

Lengths = Sequence[int] | np.ndarray


def pack(padded: Any, lengths: Lengths) -> Any:
    """Pack padded [T, B, ...] into values [sum of lengths, ...]: the real steps of row 0, then those of row 1, and so
    on.

    lengths: real steps of each row, from 0 to T. The result is a copy on the same device. The gradient of this is
    `unpack`. Raises ShapeError.
    """
    if padded.ndim < 2:
        raise ShapeError(f"pack: padded must be [T, B, ...], got {list(padded.shape)}")
    real = _real_steps("pack", lengths, padded.shape[1], padded.shape[0])
    return padded.swapaxes(0, 1)[real]


def unpack(values: Any, lengths: Lengths, steps: int | None = None) -> Any:
    """Unpack values [sum of lengths, ...] into padded [T, B, ...], zero beyond each row's length.

    T is `steps`, or the longest row. The result is contiguous, of the dtype and on the device of `values`. The gradient
    of this is `pack`. Raises ShapeError.
    """
    longest = max((int(n) for n in lengths), default=0)
    real = _real_steps("unpack", lengths, len(lengths), longest if steps is None else steps)
    if len(values) != real.sum():
        raise ShapeError(f"unpack: values must be as many as the sum of all lengths, {real.sum()}, got {len(values)}")
    rows, T = real.shape
    padded = _zeros_like(values, (T, rows, *values.shape[1:]))
    padded.swapaxes(0, 1)[real] = values
    return padded


def _real_steps(where: str, lengths: Lengths, rows: int, steps: int) -> np.ndarray:
    """Return which steps of each row are real, bool [B, T]."""
    array = np.asarray(lengths)
    whole = array.dtype.kind in "iu" or not array.size
    if array.shape != (rows,) or not whole or (rows and (array.min() < 0 or array.max() > steps)):
        raise ShapeError(f"{where}: lengths must be {rows} integers from 0 to {steps}, got {array.tolist()}")
    return np.arange(steps) < array[:, None]


def _zeros_like(array: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros on the device of `array`."""
    return np.zeros_like(array, shape=shape)  # other devices' arrays implement NumPy's functions themselves
