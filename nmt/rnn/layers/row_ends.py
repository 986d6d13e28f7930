"""Outputs and final states of rows that end early: systems differ, and each convention is an option.

The engine's own convention is that of PyTorch, cuDNN and MXNet: y is zero beyond a row's length, and the final state of
a row without steps is its initial state. `pack`, `unpack` and `reverse_sequence` are what frameworks call so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from nmt.errors import ShapeError
from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.device import Device

Padding = Literal["zero", "repeat", "carry"]
"""y beyond a row's length.

`zero`    zero: PyTorch, cuDNN, MXNet, ONNX Runtime
`repeat`  the output of the previous step: Keras without zero_output_for_mask. In a direction that runs backwards no
          step precedes the padding, nor is there one in a row without steps: zero there
`carry`   the row's final state, in both directions, and in a row without steps its initial state: Caffe2
"""

Empty = Literal["initial", "zero"]
"""The final state of a row without steps: the initial one (Caffe2, Keras, Flax), or zero (ONNX Runtime)."""


class RowEnds:
    """The rows of one batch that end before T; converts the engine's results to the caller's convention, and gradients
    back."""

    def __init__(self, device: Device, lengths: np.ndarray, T: int, padding: Padding, empty: Empty) -> None:
        """Describe the rows of a batch. lengths [B], checked already."""
        self._xp, self._padding, self._empty = device.xp, padding, empty
        has_steps = lengths > 0
        ended = np.arange(T)[:, None] >= lengths
        if padding == "repeat":
            ended &= has_steps
        self._has_steps = device.upload(has_steps[:, None])
        self._ended = device.upload(np.ascontiguousarray(ended)[:, :, None])

    def final(self, state: Array) -> Array:
        """Return the final state [B, n] in the caller's convention; the same function converts its gradient back."""
        return self._chosen(self._has_steps, state) if self._empty == "zero" else state

    def output(self, y: Array, final: Array, reverse: bool) -> Array:
        """Return y [T, B, n] of one direction, padded from its final output [B, n]."""
        return self._xp.where(self._ended, final, y) if self._fills(reverse) else y

    def output_gradient(self, d_y: Array, reverse: bool) -> Array | None:
        """Return the part of the final output's gradient [B, n] that comes from `output`; None for none."""
        return self._chosen(self._ended, d_y).sum(axis=0) if self._fills(reverse) else None

    def _fills(self, reverse: bool) -> bool:
        return self._padding == "carry" or (self._padding == "repeat" and not reverse)

    def _chosen(self, where: Array, array: Array) -> Array:
        return self._xp.where(where, array, self._xp.zeros((), array.dtype))


def reverse_sequence(
    array: np.ndarray, lengths: Any, *, time_axis: int = 0, batch_axis: int = 1, xp: Any = np
) -> np.ndarray:
    """Return the first lengths[row] steps of each row in reverse order, the others in place: ONNX's ReverseSequence.

    array: any dtype, at least 2 axes; lengths: [B] integers from 0 to T. Returns a new array. The map is its own
    inverse and its own adjoint, so the same call maps the gradient back. Raises ShapeError.
    """
    axes = time_axis, batch_axis
    if array.ndim < 2 or sorted(axes) != sorted({n % array.ndim for n in axes if -array.ndim <= n < array.ndim}):
        raise ShapeError(
            f"reverse_sequence: time_axis and batch_axis must be two axes of the array, counted from 0, got {axes} for "
            f"an array of {array.ndim} axes"
        )
    T, B = array.shape[time_axis], array.shape[batch_axis]
    steps = np.asarray(lengths)
    if steps.shape != (B,) or (B and (steps.dtype.kind not in "iu" or steps.min() < 0 or steps.max() > T)):
        raise ShapeError(f"reverse_sequence: lengths must be {B} integers from 0 to {T}, got {steps.tolist()}")
    t = np.arange(T)[:, None]
    source = np.where(t < steps, steps - 1 - t, t)
    moved = xp.moveaxis(array, axes, (0, 1))
    result = moved[xp.asarray(source), xp.arange(B)]
    return xp.ascontiguousarray(xp.moveaxis(result, (0, 1), axes))


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
