"""The product of every step, and the synchronisation of blocks: the parts that all layers share.

A thread's share of an operand of a tensor core instruction is spread over the inner axis. Since the order of the sum
does not matter, adjacent numbers in memory are assigned to the elements of one thread, so that it reads 16 bytes at a
time and needs no shared memory for it. Weights are laid out in the same order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import cuda, float32, int32, types, uint16, uint32, uint64

from nmt.rnn.kernels.cuda.machine_code import ptx
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import device_function
from nmt.rnn.kernels.cuda.persistent.tiles import Tile

_TF32 = 0xFFFFE000  # the bits of a float32 that a tensor core reads


class TileProduct(NamedTuple):
    """Device functions over arrays that the kernel declares: a thread's own, or with `tile.in_shared` a block's
    weights."""

    load_weights: Any  # (W_h, weights, first unit, warp, lane)
    sources: Any  # (warp) -> the blocks [low, high) whose results the warp reads
    wait: Any  # (flags, low, high, lane, wanted): until those blocks have passed `wanted` steps
    multiply: Any  # (words, first row, first column, columns in all, weights, parts, warp, lane)
    total: Any  # (parts, row, column) -> the product's element
    put: Any  # (states, index, value)


def state_type(tile: Tile) -> Any:
    """Return the type in which states are exchanged: float32 as bits, or bfloat16."""
    return uint32[::1] if tile.exact else uint16[::1]


def make_product(tile: Tile) -> TileProduct:
    """Return the device functions for a tile; `parts` is shared memory of tile.sums * tile.threads numbers."""
    return TileProduct(
        _make_load_weights(tile),
        _make_sources(tile),
        _wait,
        _make_multiply(tile),
        _make_total(tile),
        _put_exact if tile.exact else _put,
    )


@device_function
def _put(states, index, value):
    states[uint64(index)] = uint16(ptx.to_bfloat16(value))


@device_function
def _put_exact(states, index, value):
    states[uint64(index)] = ptx.as_bits(value)


@device_function
def _wait(flags, low, high, lane, wanted):
    for block in range(low + lane, high, 32):
        while ptx.load_acquire(flags, block) < wanted:
            pass
    cuda.syncwarp()


def _make_load_weights(tile: Tile) -> Any:
    """Return the function that loads weights, unrolled in its source, since a loop would not keep them in registers."""
    width = tile.hidden * tile.gates
    along, across = (1, width) if tile.backward else (width, 1)  # between neighbours on the inner axis, between rows
    lines = [
        "def load_weights(W_h, weights, unit, warp, lane):",
        "    thread = uint64(warp * 32 + lane)",
        f"    start = (warp * {tile.share} + (lane & 3) * {tile.run}) * {along} + (unit + (lane >> 2)) * {across}",
    ]
    for m in range(tile.row_tiles):
        rows = [divmod(16 * m + 8 * high, tile.units) for high in range(2)]
        low, high = (gate * tile.hidden + unit * across for gate, unit in rows)
        for p in range(tile.loads):
            names = ", ".join(_weight(tile, (m * tile.loads + p) * 8 + i) for i in range(8))
            further = p * 4 * tile.run * along
            lines.append(f"    {names} = words(W_h, start + {low + further}, start + {high + further})")
            # Otherwise all loads are scheduled first, which takes too many registers.
            lines.append("    cuda.syncwarp()")
    return _function("load_weights", lines, words=_make_words(tile.exact, along))


def _make_words(exact: bool, along: int) -> Any:
    # Unsigned: for a signed index Numba adds a check for negative values.
    @device_function
    def single(W_h, low, high, i):
        return ptx.as_bits(W_h[uint64(low + i * along)]), ptx.as_bits(W_h[uint64(high + i * along)])

    @device_function
    def pair(W_h, low, high, i):
        n = 2 * i * along
        return (
            ptx.pack_bfloat16(W_h[uint64(low + n)], W_h[uint64(low + n + along)]),
            ptx.pack_bfloat16(W_h[uint64(high + n)], W_h[uint64(high + n + along)]),
        )

    word = single if exact else pair

    @device_function
    def words(W_h, low, high):
        a, b = word(W_h, low, high, 0)
        c, d = word(W_h, low, high, 1)
        e, f = word(W_h, low, high, 2)
        g, h = word(W_h, low, high, 3)
        return a, b, c, d, e, f, g, h

    return words


def _make_sources(tile: Tile) -> Any:
    share, hidden, units, blocks = tile.share, tile.hidden, tile.units, tile.blocks

    @device_function
    def sources(warp):
        first = warp * share
        last = first + share - 1
        if first // hidden != last // hidden:
            return int32(0), int32(blocks)
        return int32(first % hidden // units), int32(last % hidden // units + 1)

    return sources


@device_function
def _rest(bits):
    """Return the part of a float32 that a tensor core does not read."""
    return ptx.as_bits(ptx.as_float(bits) - ptx.as_float(bits & uint32(_TF32)))


@device_function
def _exact_multiply_add(w0, w1, w2, w3, s0, s1, c0, c1, c2, c3):
    """Return (w + w') (s + s') without w' s', added to the sums, smallest terms first."""
    c0, c1, c2, c3 = ptx.mma_tf32(_rest(w0), _rest(w1), _rest(w2), _rest(w3), s0, s1, c0, c1, c2, c3)
    c0, c1, c2, c3 = ptx.mma_tf32(w0, w1, w2, w3, _rest(s0), _rest(s1), c0, c1, c2, c3)
    return ptx.mma_tf32(w0, w1, w2, w3, s0, s1, c0, c1, c2, c3)


def _make_multiply(tile: Tile) -> Any:
    """Return the multiplication, unrolled too.

    Columns beyond the last sentence get the last one's states; their sums are not read.
    """
    per_word = tile.run // 4
    lines = ["def multiply(words, first_row, column, columns, weights, parts, warp, lane):"]
    lines.append("    thread = uint64(warp * 32 + lane)")
    for j in range(tile.column_tiles):
        row = f"(first_row + min(column + {8 * j} + (lane >> 2), columns - 1)) * {tile.inner // per_word}"
        lines.append(f"    row = {row} + (warp * {tile.share} + (lane & 3) * {tile.run}) // {per_word}")
        for p in range(tile.loads):
            names = ", ".join(f"s{j}_{p}_{i}" for i in range(4))
            lines.append(f"    {names} = ptx.load4(words, row + {16 * p})")
    lines += [f"    c{m}_{j}_{i} = float32(0)" for m, j in _pairs(tile) for i in range(4)]
    for p in range(tile.loads):
        for half in range(2):
            lines += [_multiply_line(tile, m, j, p, half) for m, j in _pairs(tile)]
    for at, (m, j) in enumerate(_pairs(tile)):
        lines += [f"    parts[(warp * {tile.sums} + {4 * at + i}) * 32 + lane] = c{m}_{j}_{i}" for i in range(4)]
    return _function("multiply", lines, exact=_exact_multiply_add)


def _weight(tile: Tile, word: int) -> str:
    """Return the expression for a thread's word of weights; in shared memory neighbours have theirs side by side."""
    return f"weights[thread + uint64({word * tile.threads})]" if tile.in_shared else f"weights[{word}]"


def _pairs(tile: Tile) -> list[tuple[int, int]]:
    return [(m, j) for m in range(tile.row_tiles) for j in range(tile.column_tiles)]


def _multiply_line(tile: Tile, m: int, j: int, p: int, half: int) -> str:
    at = (m * tile.loads + p) * 8 + 4 * half
    weights = ", ".join(_weight(tile, at + i) for i in range(4))
    states = ", ".join(f"s{j}_{p}_{2 * half + i}" for i in range(2))
    sums = ", ".join(f"c{m}_{j}_{i}" for i in range(4))
    return f"    {sums} = {'exact' if tile.exact else 'ptx.mma_bfloat16'}({weights}, {states}, {sums})"


def _function(name: str, lines: list[str], **named: Any) -> Any:
    scope: dict[str, Any] = {"ptx": ptx, "cuda": cuda, "float32": float32, "uint64": uint64, **named}
    exec("\n".join(lines), scope)  # noqa: S102
    return device_function(scope[name])


def _make_total(tile: Tile) -> Any:
    column_tiles, count, warps = tile.column_tiles, tile.sums, tile.warps

    @device_function
    def total(parts, row, column):
        part = ((row >> 4) * column_tiles + (column >> 3)) * 4 + ((row & 15) >> 3) * 2 + (column & 1)
        at = part * 32 + (row & 7) * 4 + ((column & 7) >> 1)
        result = float32(0)
        for warp in range(warps):
            result += parts[uint64(warp * count * 32 + at)]
        return result

    return total


FLOATS, LENGTHS, WORDS, NUMBER = float32[::1], types.int64[::1], uint32[::1], int32
