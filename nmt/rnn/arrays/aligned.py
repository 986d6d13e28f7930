"""Arrays that begin on a cache line, so that no vector of their rows crosses a line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

LINE_BYTES = 64


def aligned(shape: tuple[int, ...], dtype: Any, *, zeros: bool = False) -> np.ndarray:
    """Return an array of `shape` at a multiple of LINE_BYTES, which NumPy does not guarantee; uninitialised, or
    zero."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = (np.zeros if zeros else np.empty)(size + LINE_BYTES, np.uint8)
    start = -memory.ctypes.data % LINE_BYTES
    return memory[start : start + size].view(dtype).reshape(shape)
