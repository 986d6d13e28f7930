"""The gradient of a weight matrix: a sum of outer products over all rows, computed as products of packed blocks of
rows."""

import numpy as np

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import external_by_elements, inner_kernel, kernel
from nmt.rnn.kernels.memory.arrays import by_panels, clear, release, rows_in, scratch, share
from nmt.rnn.kernels.memory.moves import address, copy_panel_row, copy_tile_row_f4, copy_tile_row_f8, transpose_f4
from nmt.rnn.kernels.products.bfloat16 import PAIR_LANES, holds_pairs, pair_rows, pair_words
from nmt.rnn.kernels.products.microkernel import product_rows_bf16, tile_bf16, tile_f4, tile_f8
from nmt.rnn.kernels.products.packing import PANEL_BYTES

_MAX_ROWS = TARGET.max_rows
# Rows, or pairs of rows, that are summed each time a tile is loaded: a panel of their gradients fills the L1 cache.
# Inputs that are packed at a time, which fill the L2 cache. Panels that are packed together, so that each read covers a
# longer part of a row.
_BLOCKS = 256, 96 * _MAX_ROWS, 4
# AMX adds to C itself, in the same order for any block: with twice the pairs it loads and stores C half as often.
_PAIR_BLOCKS = (512, 480, 12) if TARGET.has_amx else _BLOCKS


# _tile(inputs, c, ldc, ...): the tile for the element type of `inputs`.
_TILES = {"uint32": tile_bf16, "float32": tile_f4, "float64": tile_f8}
_tile = external_by_elements("tile", _TILES)
_rows_product = external_by_elements("rows_product", {"uint32": product_rows_bf16}, optional=True)


@inner_kernel
def _copy_tile_row(out, at, X, source):  # type: ignore[no-untyped-def]
    if out.itemsize == 4:
        copy_tile_row_f4(address(out, at), address(X, source))
    else:
        copy_tile_row_f8(address(out, at), address(X, source))


@inner_kernel
def _pack_inputs(X, x_col, K, pieces, count, rows, out):  # type: ignore[no-untyped-def]
    """Pack columns into consecutive tiles of nearly equal width: [tile][row][width]."""
    tiles = (K + _MAX_ROWS - 1) // _MAX_ROWS
    narrow, wider = K // tiles, K % tiles
    seen = 0
    for p in range(count):
        for r in range(pieces[p, 0], pieces[p, 0] + pieces[p, 1]):
            source, at = r * X.shape[1] + x_col, 0
            # Whole tiles are copied even if the tile is narrower: the next row overwrites the excess. There is no next
            # row after the last one, and nothing may be read past the last tile; both are copied exactly.
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


@inner_kernel
def _pack_panels(G, g_col, columns, width, pieces, count, rows, out):  # type: ignore[no-untyped-def]
    """Pack the next `columns` columns into [panel][row][width]; the last panel is padded with zeros."""
    full = columns // width
    seen = 0
    for p in range(count):
        for r in range(pieces[p, 0], pieces[p, 0] + pieces[p, 1]):
            for q in range(full):
                source = address(G, r * G.shape[1] + g_col + q * width)
                copy_panel_row(address(out, (q * rows + seen) * width), source)
            if full * width < columns:
                for j in range(width):
                    value = G[r, g_col + full * width + j] if full * width + j < columns else out.dtype.type(0)
                    out[(full * rows + seen) * width + j] = value
            seen += 1


@inner_kernel
def _fill_numbers(pieces, count, numbers):  # type: ignore[no-untyped-def]
    """Write the numbers of the rows of all pieces into `numbers`, in order."""
    seen = 0
    for p in range(count):
        for r in range(pieces[p, 0], pieces[p, 0] + pieces[p, 1]):
            numbers[seen] = r
            seen += 1


@inner_kernel
def _pack_input_pairs(X, x_col, K, numbers, out):  # type: ignore[no-untyped-def]
    """Pack columns like `_pack_inputs`, in pairs of bfloat16 along the rows: [tile][pair][width]; an odd last row is
    paired with zeros."""
    tiles = (K + _MAX_ROWS - 1) // _MAX_ROWS
    narrow, wider = K // tiles, K % tiles
    rows = len(numbers)
    pairs = (rows + 1) // 2
    nothing = scratch(K, X.dtype)
    clear(nothing)
    # Room at the end, because whole tiles are read.
    line = scratch(K + _MAX_ROWS, out.dtype)
    for i in range(pairs):
        earlier = address(X, numbers[2 * i] * X.shape[1] + x_col)
        later = address(X, numbers[2 * i + 1] * X.shape[1] + x_col) if 2 * i + 1 < rows else address(nothing, 0)
        pair_rows(address(line, 0), earlier, later, K)
        at, exact = 0, 0 if i == pairs - 1 else tiles
        # Whole tiles are copied even if the tile is narrower, as in `_pack_inputs`.
        for tile in range(exact):
            width = narrow + (1 if tile < wider else 0)
            copy_tile_row_f4(address(out, at * pairs + i * width), address(line, at))
            at += width
        for tile in range(exact, tiles):
            width = narrow + (1 if tile < wider else 0)
            for j in range(width):
                out[at * pairs + i * width + j] = line[at + j]
            at += width
    release(line)
    release(nothing)


@inner_kernel
def _pack_input_rows(X, x_col, K, numbers, out):  # type: ignore[no-untyped-def]
    """Pack columns like `_pack_input_pairs`, but as rows of pairs for AMX: [K][pair], zero-padded to a multiple of the
    pairs that it takes at a time."""
    rows, pairs = len(numbers), pair_words(len(numbers))
    nothing, lines = scratch(K, X.dtype), scratch(PAIR_LANES * K, out.dtype)
    clear(nothing)
    whole = K // PAIR_LANES * PAIR_LANES
    for i0 in range(0, pairs, PAIR_LANES):
        for i in range(PAIR_LANES):
            row = 2 * (i0 + i)
            earlier = address(X, numbers[row] * X.shape[1] + x_col) if row < rows else address(nothing, 0)
            later = address(X, numbers[row + 1] * X.shape[1] + x_col) if row + 1 < rows else address(nothing, 0)
            pair_rows(address(lines, i * K), earlier, later, K)
        for k in range(0, whole, PAIR_LANES):
            transpose_f4(address(out, k * pairs + i0), pairs, address(lines, k), K)
        for k in range(whole, K):
            for i in range(PAIR_LANES):
                out[k * pairs + i0 + i] = lines[i * K + k]
    release(lines)
    release(nothing)


@inner_kernel
def _pack_panel_pairs(G, g_col, columns, width, numbers, out):  # type: ignore[no-untyped-def]
    """Pack columns like `_pack_panels`, in pairs of bfloat16 along the rows: [panel][pair][width]."""
    rows, pairs = len(numbers), pair_words(len(numbers))
    nothing = scratch(width, G.dtype)
    clear(nothing)
    for i in range(pairs):
        for n in range(0, columns, width):
            count, at = min(width, columns - n), n * pairs + i * width
            earlier, later = address(nothing, 0), address(nothing, 0)
            if 2 * i < rows:
                earlier = address(G, numbers[2 * i] * G.shape[1] + g_col + n)
            if 2 * i + 1 < rows:
                later = address(G, numbers[2 * i + 1] * G.shape[1] + g_col + n)
            pair_rows(address(out, at), earlier, later, count)
            out[at + count : at + width] = 0
    release(nothing)


@inner_kernel
def _add_panels(inputs, K, panels, rows, dW, k0, n0, columns):  # type: ignore[no-untyped-def]
    """Add inputs.T @ panels to dW[k0:k0+K, n0:n0+columns], panel by panel and tile by tile."""
    tiles = (K + _MAX_ROWS - 1) // _MAX_ROWS
    narrow, wider = K // tiles, K % tiles
    ldc, width = dW.shape[1], PANEL_BYTES // dW.itemsize
    for n in range(0, columns, width):
        at, panel, count = 0, address(panels, n * rows), min(width, columns - n)
        for tile in range(tiles):
            height = narrow + (1 if tile < wider else 0)
            c = address(dW, (k0 + at) * ldc + n0 + n)
            _tile(inputs, c, ldc, address(inputs, at * rows), 1, height, panel, rows, count, 1, height)
            at += height


@inner_kernel
def _add_panels_by_rows(inputs, K, panels, rows, dW, k0, n0, columns):  # type: ignore[no-untyped-def]
    """Do the same as `_add_panels` with inputs from `_pack_input_rows`."""
    left, right, ldc = address(inputs, 0), address(panels, 0), dW.shape[1]
    _rows_product(inputs, left, rows, right, address(dW, k0 * ldc + n0), ldc, K, columns, rows, 1)


_pack_pairs, _add_pairs = (
    (_pack_input_rows, _add_panels_by_rows) if TARGET.has_amx else (_pack_input_pairs, _add_panels)
)


@inner_kernel
def _sum_products(part, parts, X, x_col, K, G, g_col, N, segments, dW, accumulate, packed_type):  # type: ignore[no-untyped-def]
    """Compute the sum of `weight_gradient`; packed blocks have the element type of the array `packed_type`."""
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
    in_pairs = holds_pairs(packed_type)
    summed, input_block, together = _PAIR_BLOCKS if in_pairs else _BLOCKS
    block = 2 * summed if in_pairs else summed  # a row of pairs is two rows
    total = rows_in(segments)
    inputs = scratch(summed * min(input_block, last_k - first_k), packed_type.dtype)
    packed = scratch(summed * width * together, packed_type.dtype)
    for low in range(0, total, block):
        rows = min(block, total - low)
        pieces, count = share(segments, low, low + rows, block)
        numbers = scratch(rows, np.int64)
        _fill_numbers(pieces, count, numbers)
        steps = pair_words(rows) if in_pairs else rows
        for k0 in range(first_k, last_k, input_block):
            k_count = min(input_block, last_k - k0)
            if in_pairs:
                _pack_pairs(X, x_col + k0, k_count, numbers, inputs)
            else:
                _pack_inputs(X, x_col + k0, k_count, pieces, count, rows, inputs)
            for p in range(first_panel, last_panel, together):
                n0, n1 = p * width, min(N, min(p + together, last_panel) * width)
                if k0 == first_k or last_panel - first_panel > together:
                    if in_pairs:
                        _pack_panel_pairs(G, g_col + n0, n1 - n0, width, numbers, packed)
                    else:
                        _pack_panels(G, g_col + n0, n1 - n0, width, pieces, count, rows, packed)
                if in_pairs:
                    _add_pairs(inputs, k_count, packed, steps, dW, k0, n0, n1 - n0)
                else:
                    _add_panels(inputs, k_count, packed, steps, dW, k0, n0, n1 - n0)
        release(numbers)
        release(pieces)
    release(packed)
    release(inputs)


@kernel
def weight_gradient(part, parts, X, x_col, K, G, g_col, N, segments, dW, accumulate):  # type: ignore[no-untyped-def]
    """Compute dW[K, N] (+)= the sum over rows r in `segments` of outer(X[r, x_col:x_col+K], G[r, g_col:g_col+N])."""
    _sum_products(part, parts, X, x_col, K, G, g_col, N, segments, dW, accumulate, dW)


@kernel
def weight_gradient_bf16(part, parts, X, x_col, K, G, g_col, N, segments, dW, accumulate):  # type: ignore[no-untyped-def]
    """Compute `weight_gradient` for float32 arrays whose numbers are rounded to bfloat16; sums are float32."""
    pairs = scratch(0, np.uint32)
    _sum_products(part, parts, X, x_col, K, G, g_col, N, segments, dW, accumulate, pairs)
    release(pairs)
