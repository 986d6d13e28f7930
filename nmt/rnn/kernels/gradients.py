"""The gradient of a weight matrix: a sum of outer products over all rows, as products of packed blocks of rows."""

import numpy as np

from nmt.rnn.kernels.features import TARGET
from nmt.rnn.kernels.jit import kernel
from nmt.rnn.kernels.microkernel import address, tile_f4, tile_f8
from nmt.rnn.kernels.packing import PANEL_BYTES
from nmt.rnn.kernels.segments import by_panels, share

_MAX_ROWS = TARGET.max_rows
# Rows summed in one visit of a tile: their packed gradients fill the first cache, the packed inputs the second.
_SUM_BLOCK = 256
_INPUT_BLOCK = 96 * _MAX_ROWS


@kernel
def _tile(array, c, ldc, a, row_stride, k_stride, panel, K, columns, accumulate, rows):  # type: ignore[no-untyped-def]
    if array.itemsize == 4:
        tile_f4(c, ldc, a, row_stride, k_stride, panel, K, columns, accumulate, rows)
    else:
        tile_f8(c, ldc, a, row_stride, k_stride, panel, K, columns, accumulate, rows)


@kernel
def _pack_inputs(X, x_col, K, pieces, out):  # type: ignore[no-untyped-def]
    """Columns in tiles of nearly equal width, one after the other: [tile][row][width]. Returns nothing."""
    rows = pieces[:, 1].sum()
    tiles = (K + _MAX_ROWS - 1) // _MAX_ROWS
    narrow, wider = K // tiles, K % tiles
    seen = 0
    for p in range(len(pieces)):
        for r in range(pieces[p, 0], pieces[p, 0] + pieces[p, 1]):
            at = 0
            row = X[r, x_col : x_col + K]
            for tile in range(tiles):
                width = narrow + (1 if tile < wider else 0)
                target = out[at * rows + seen * width : at * rows + (seen + 1) * width]
                for i in range(width):
                    target[i] = row[at + i]
                at += width
            seen += 1


@kernel
def _pack_panel(G, g_col, columns, width, pieces, out):  # type: ignore[no-untyped-def]
    seen = 0
    for p in range(len(pieces)):
        for r in range(pieces[p, 0], pieces[p, 0] + pieces[p, 1]):
            source = G[r, g_col : g_col + columns]
            target = out[seen * width : (seen + 1) * width]
            for j in range(columns):
                target[j] = source[j]
            for j in range(columns, width):
                target[j] = 0
            seen += 1


@kernel
def _add_panel(inputs, K, panel, rows, dW, k0, n0, columns):  # type: ignore[no-untyped-def]
    """dW[k0:k0+K, n0:n0+columns] += inputs.T @ panel, tile by tile."""
    tiles = (K + _MAX_ROWS - 1) // _MAX_ROWS
    narrow, wider = K // tiles, K % tiles
    at, ldc = 0, dW.shape[1]
    for tile in range(tiles):
        height = narrow + (1 if tile < wider else 0)
        c = address(dW, (k0 + at) * ldc + n0)
        _tile(dW, c, ldc, address(inputs, at * rows), 1, height, address(panel, 0), rows, columns, 1, height)
        at += height


@kernel
def weight_gradient(part, parts, X, x_col, K, G, g_col, N, segments, dW, accumulate):  # type: ignore[no-untyped-def]
    """dW[K, N] (+)= the sum over rows r in `segments` of outer(X[r, x_col:x_col+K], G[r, g_col:g_col+N])."""
    width = PANEL_BYTES // dW.itemsize
    panels = (N + width - 1) // width
    first_panel, last_panel, first_k, last_k = 0, panels, 0, K
    if by_panels(panels, parts) or K < 4 * _MAX_ROWS * parts:
        first_panel, last_panel = panels * part // parts, panels * (part + 1) // parts
    else:
        first_k, last_k = K * part // parts, K * (part + 1) // parts
    if not accumulate:
        dW[first_k:last_k, first_panel * width : min(N, last_panel * width)] = 0
    if first_panel == last_panel or first_k == last_k:
        return
    total = segments[:, 1].sum()
    inputs = np.empty(_SUM_BLOCK * min(_INPUT_BLOCK, last_k - first_k), dW.dtype)
    panel = np.empty(_SUM_BLOCK * width, dW.dtype)
    for low in range(0, total, _SUM_BLOCK):
        pieces = share(segments, low, min(total, low + _SUM_BLOCK), _SUM_BLOCK)
        for k0 in range(first_k, last_k, _INPUT_BLOCK):
            k_count = min(_INPUT_BLOCK, last_k - k0)
            _pack_inputs(X, x_col + k0, k_count, pieces, inputs)
            for p in range(first_panel, last_panel):
                columns = min(width, N - p * width)
                _pack_panel(G, g_col + p * width, columns, width, pieces, panel)
                _add_panel(inputs, k_count, panel, pieces[:, 1].sum(), dW, k0, p * width, columns)
