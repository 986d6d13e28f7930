"""The feature axes of an array: one inside the engine, as many as a cell's width has for the caller (see
`cell.Shape`)."""

from __future__ import annotations

from typing import Any

from nmt.rnn.cell import axes_of


def flat(array: Any, lead: int, width: int) -> Any:
    """Return a caller's array with one axis for its features, after the first `lead` axes."""
    return array if array.ndim == lead + 1 else array.reshape(*array.shape[:lead], int(width))


def shaped(array: Any, width: int) -> Any:
    """Return an array with one feature axis in the caller's shape."""
    axes = axes_of(width)
    return array if len(axes) == 1 else array.reshape(*array.shape[:-1], *axes)
