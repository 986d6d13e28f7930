"""Weights laid out for the register tiles: [panels, K, P], columns in panels of P = TARGET.panel_width(dtype).

The last panel is filled up with zeros, so that the tiles can always read whole vectors. Parts divide the panels.
"""

import numpy as np
from numpy.typing import DTypeLike

from nmt.rnn.kernels.jit import kernel
from nmt.rnn.kernels.features import TARGET  # isort: skip

PANEL_BYTES = TARGET.panel_width(np.float32) * 4
_BLOCK = 16


def packed_size(K: int, N: int, dtype: DTypeLike) -> int:
    """Elements of the packed form of a K x N matrix."""
    width = TARGET.panel_width(dtype)
    return -(-N // width) * width * K


@kernel
def pack(part, parts, weights, row0, row1, out):  # type: ignore[no-untyped-def]
    """Pack weights[row0:row1, :] of shape [K, N] into the flat `out` of packed_size(K, N)."""
    N = weights.shape[1]
    K = row1 - row0
    width = PANEL_BYTES // out.itemsize
    panels = (N + width - 1) // width
    for p in range(panels * part // parts, panels * (part + 1) // parts):
        columns = min(width, N - p * width)
        for k in range(K):
            source = weights[row0 + k, p * width : p * width + columns]
            target = out[(p * K + k) * width : (p * K + k + 1) * width]
            if columns == width:
                for j in range(width):
                    target[j] = source[j]
            else:
                for j in range(columns):
                    target[j] = source[j]
                for j in range(columns, width):
                    target[j] = 0


@kernel
def pack_transposed(part, parts, weights, row0, row1, out):  # type: ignore[no-untyped-def]
    """Pack the transpose of weights[row0:row1, :]: K = weights.shape[1], N = row1 - row0."""
    K = weights.shape[1]
    N = row1 - row0
    width = PANEL_BYTES // out.itemsize
    panels = (N + width - 1) // width
    for p in range(panels * part // parts, panels * (part + 1) // parts):
        columns = min(width, N - p * width)
        panel = out[p * K * width : (p + 1) * K * width]
        # A block of rows by one cache line at a time: both sides of the transposition stay in the first cache.
        for k0 in range(0, K, _BLOCK):
            k1 = min(K, k0 + _BLOCK)
            for j in range(columns):
                source = weights[row0 + p * width + j]
                for k in range(k0, k1):
                    panel[k * width + j] = source[k]
            for k in range(k0, k1):
                for j in range(columns, width):
                    panel[k * width + j] = 0
