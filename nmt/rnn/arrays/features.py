"""The features of an array: one axis inside, as many as a cell's width says outside (see `cell.Shape`)."""

from __future__ import annotations

from typing import Any

from nmt.rnn.cell import axes_of


def flat(array: Any, lead: int, width: int) -> Any:
    """Return an array as it looks outside, with one axis for its features behind the `lead` first ones."""
    return array if array.ndim == lead + 1 else array.reshape(*array.shape[:lead], int(width))


def shaped(array: Any, width: int) -> Any:
    """Return an array with one axis for its features as it looks outside."""
    axes = axes_of(width)
    return array if len(axes) == 1 else array.reshape(*array.shape[:-1], *axes)
