"""The gradient of a weight matrix: a sum of outer products over all rows, as products of packed
blocks of rows."""

import numpy as np

from nmt.rnn.kernels.features import TARGET
from nmt.rnn.kernels.jit import kernel
from nmt.rnn.kernels.microkernel import tile_f4, tile_f8
from nmt.rnn.kernels.moves import address, copy_panel_row, copy_tile_row_f4, copy_tile_row_f8
from nmt.rnn.kernels.packing import PANEL_BYTES
from nmt.rnn.kernels.segments import by_panels, share

_MAX_ROWS = TARGET.max_rows
# Rows summed in one visit of a tile: a panel of their gradients fills the first cache, their inputs
# the second.
_SUM_BLOCK = 256
_INPUT_BLOCK = 96 * _MAX_ROWS
# Several panels are packed together: every read then takes a longer run of a row.
_PANELS_AT_A_TIME = 4


@kernel
def _tile(array, c, ldc, a, row_stride, k_stride, panel, K, columns, accumulate, rows):  # type: ignore[no-untyped-def]
    if array.itemsize == 4:
        tile_f4(c, ldc, a, row_stride, k_stride, panel, K, columns, accumulate, rows)
    else:
        tile_f8(c, ldc, a, row_stride, k_stride, panel, K, columns, accumulate, rows)


@kernel
def _copy_tile_row(out, at, X, source):  # type: ignore[no-untyped-def]
    if out.itemsize == 4:
        copy_tile_row_f4(address(out, at), address(X, source))
    else:
        copy_tile_row_f8(address(out, at), address(X, source))


@kernel
def _pack_inputs(X, x_col, K, pieces, rows, out):  # type: ignore[no-untyped-def]
    """Columns in tiles of nearly equal width, one after the other: [tile][row][width]."""
    tiles = (K + _MAX_ROWS - 1) // _MAX_ROWS
    narrow, wider = K // tiles, K % tiles
    seen = 0
    for p in range(len(pieces)):
        for r in range(pieces[p, 0], pieces[p, 0] + pieces[p, 1]):
            source, at = r * X.shape[1] + x_col, 0
            # Whole tiles are copied even to a narrower place: the next row overwrites the excess.
            # Only after the last row there is none, and past the last tile nothing may be read.
            exact = 0 if seen == rows - 1 else tiles - 1
            for tile in range(exact):
                width = narrow + (1 if tile < wider else 0)
                _copy_tile_row(out, at * rows + seen * width, X, source + at)
                at += width
            for tile in range(exact, tiles):
                width = narrow + (1 if tile < wider else 0)
                for i in range(width):
                    out[at * rows + seen * width + i] = X[r, x_col + at + i]
                at += width
            seen += 1


@kernel
def _pack_panels(G, g_col, columns, width, pieces, rows, out):  # type: ignore[no-untyped-def]
    """[panel][row][width] of the next `columns` columns, the last panel filled up with zeros."""
    full = columns // width
    seen = 0
    for p in range(len(pieces)):
        for r in range(pieces[p, 0], pieces[p, 0] + pieces[p, 1]):
            for q in range(full):
                source = address(G, r * G.shape[1] + g_col + q * width)
                copy_panel_row(address(out, (q * rows + seen) * width), source)
            if full * width < columns:
                for j in range(width):
                    value = G[r, g_col + full * width + j] if full * width + j < columns else out.dtype.type(0)
                    out[(full * rows + seen) * width + j] = value
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
        _tile(dW, c, ldc, address(inputs, at * rows), 1, height, panel, rows, columns, 1, height)
        at += height


@kernel
def weight_gradient(part, parts, X, x_col, K, G, g_col, N, segments, dW, accumulate):  # type: ignore[no-untyped-def]
    """dW[K, N] (+)= the sum over rows r in `segments` of outer(X[r, x_col:x_col+K], G[r,
    g_col:g_col+N])."""
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
    packed = np.empty(_SUM_BLOCK * width * _PANELS_AT_A_TIME, dW.dtype)
    for low in range(0, total, _SUM_BLOCK):
        rows = min(_SUM_BLOCK, total - low)
        pieces = share(segments, low, low + rows, _SUM_BLOCK)
        for k0 in range(first_k, last_k, _INPUT_BLOCK):
            k_count = min(_INPUT_BLOCK, last_k - k0)
            _pack_inputs(X, x_col + k0, k_count, pieces, rows, inputs)
            for p in range(first_panel, last_panel, _PANELS_AT_A_TIME):
                n0, n1 = p * width, min(N, min(p + _PANELS_AT_A_TIME, last_panel) * width)
                _pack_panels(G, g_col + n0, n1 - n0, width, pieces, rows, packed)
                for n in range(n0, n1, width):
                    panel = address(packed, (n - n0) * rows)
                    _add_panel(inputs, k_count, panel, rows, dW, k0, n, min(width, n1 - n))
