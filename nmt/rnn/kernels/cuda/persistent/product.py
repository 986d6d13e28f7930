"""The product of every step, and what makes blocks wait for one another: the parts that all layers share.

A thread's share of an operand of a tensor core instruction is spread over the inner axis; as the sum does not mind its
order, neighbours in memory are given to the places that one thread holds, so that it reads 16 bytes at a time and
needs no shared memory for it. Weights are laid out in the same order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import cuda, float32, int32, types, uint16, uint32

from nmt.rnn.kernels.cuda import ptx
from nmt.rnn.kernels.cuda.kernel import device_function
from nmt.rnn.kernels.cuda.persistent.tiles import Tile

__all__ = ["Product", "make_product", "state_type"]

_TF32 = 0xFFFFE000  # the bits of a float32 that a tensor core reads


class Product(NamedTuple):
    """Device functions over a thread's local arrays, which the kernel declares: weights, loaded states, sums."""

    load_weights: Any  # (W_h, weights, first unit, warp, lane)
    sources: Any  # (warp) -> the blocks [low, high) whose results the warp reads
    wait: Any  # (flags, low, high, lane, wanted): until those blocks have passed `wanted` steps
    multiply: Any  # (words, first row, first column, columns in all, weights, loaded, sums, parts, warp, lane)
    total: Any  # (parts, row, column) -> the product's element
    put: Any  # (states, index, value)


def state_type(tile: Tile) -> Any:
    """How states are handed over: float32 as bits, or bfloat16."""
    return uint32[::1] if tile.exact else uint16[::1]


def make_product(tile: Tile) -> Product:
    """The device functions for a tile; `parts` is shared memory of tile.sums * tile.threads numbers."""
    multiply_add = _exact_multiply_add if tile.exact else _multiply_add
    return Product(
        _make_load_weights(tile),
        _make_sources(tile),
        _wait,
        _make_multiply(tile, multiply_add),
        _make_total(tile),
        _put_exact if tile.exact else _put,
    )


@device_function
def _put(states, index, value):
    states[index] = uint16(ptx.to_bfloat16(value))


@device_function
def _put_exact(states, index, value):
    states[index] = ptx.as_bits(value)


@device_function
def _wait(flags, low, high, lane, wanted):
    for block in range(low + lane, high, 32):
        while ptx.load_acquire(flags, block) < wanted:
            pass
    cuda.syncwarp()


def _make_load_weights(tile: Tile) -> Any:
    units, hidden, inner, width = tile.units, tile.hidden, tile.inner, tile.hidden * tile.gates
    row_tiles, loads, share, run = tile.row_tiles, tile.loads, tile.share, tile.run

    @device_function
    def element_forward(W_h, row, k, unit):
        return W_h[k * width + row // units * hidden + unit + row % units] if k < inner else float32(0)

    @device_function
    def element_backward(W_h, row, k, unit):
        return W_h[(unit + row) * width + k] if k < inner else float32(0)

    element = element_backward if tile.backward else element_forward

    @device_function
    def pair(W_h, row, k, i, unit):
        return ptx.pack_bfloat16(element(W_h, row, k + 2 * i, unit), element(W_h, row, k + 2 * i + 1, unit))

    @device_function
    def single(W_h, row, k, i, unit):
        return ptx.as_bits(element(W_h, row, k + i, unit))

    word = single if tile.exact else pair

    @device_function
    def load_weights(W_h, weights, unit, warp, lane):
        for m in range(row_tiles):
            for p in range(loads):
                row = m * 16 + (lane >> 2)
                k = warp * share + (p * 4 + (lane & 3)) * run
                at = (m * loads + p) * 8
                for i in range(4):
                    weights[at + 2 * i] = word(W_h, row, k, i, unit)
                    weights[at + 2 * i + 1] = word(W_h, row + 8, k, i, unit)

    return load_weights


def _make_sources(tile: Tile) -> Any:
    share, inner, hidden, units, blocks = tile.share, tile.inner, tile.hidden, tile.units, tile.blocks

    @device_function
    def sources(warp):
        first = warp * share
        last = min(first + share, inner) - 1
        if last < first:
            return int32(0), int32(0)
        if first // hidden != last // hidden:
            return int32(0), int32(blocks)
        return int32(first % hidden // units), int32(last % hidden // units + 1)

    return sources


@device_function
def _multiply_add(weights, at, s0, s1, sums, to):
    sums[to], sums[to + 1], sums[to + 2], sums[to + 3] = ptx.mma_bfloat16(
        weights[at], weights[at + 1], weights[at + 2], weights[at + 3], s0, s1,
        sums[to], sums[to + 1], sums[to + 2], sums[to + 3],
    )  # fmt: skip


@device_function
def _rest(bits):
    """What a tensor core does not read of a float32."""
    return ptx.as_bits(ptx.as_float(bits) - ptx.as_float(bits & uint32(_TF32)))


@device_function
def _exact_multiply_add(weights, at, s0, s1, sums, to):
    """(w + w') (s + s') without w' s', the smallest first."""
    w0, w1, w2, w3 = weights[at], weights[at + 1], weights[at + 2], weights[at + 3]
    c0, c1, c2, c3 = ptx.mma_tf32(
        _rest(w0), _rest(w1), _rest(w2), _rest(w3), s0, s1, sums[to], sums[to + 1], sums[to + 2], sums[to + 3]
    )
    c0, c1, c2, c3 = ptx.mma_tf32(w0, w1, w2, w3, _rest(s0), _rest(s1), c0, c1, c2, c3)
    sums[to], sums[to + 1], sums[to + 2], sums[to + 3] = ptx.mma_tf32(w0, w1, w2, w3, s0, s1, c0, c1, c2, c3)


def _make_multiply(tile: Tile, multiply_add: Any) -> Any:
    row_tiles, column_tiles, loads, count = tile.row_tiles, tile.column_tiles, tile.loads, tile.sums
    share, run, inner = tile.share, tile.run, tile.inner
    per_word = tile.run // 4

    @device_function
    def multiply(words, first_row, column, columns, weights, states, sums, parts, warp, lane):
        for j in range(column_tiles):
            n = column + j * 8 + (lane >> 2)
            for p in range(loads):
                k = warp * share + (p * 4 + (lane & 3)) * run
                at = (j * loads + p) * 4
                if n < columns and k < inner:
                    word = ((first_row + n) * inner + k) // per_word
                    states[at], states[at + 1], states[at + 2], states[at + 3] = ptx.load4(words, word)
                else:
                    states[at] = states[at + 1] = states[at + 2] = states[at + 3] = uint32(0)
        for i in range(count):
            sums[i] = float32(0)
        for p in range(loads):
            for m in range(row_tiles):
                for j in range(column_tiles):
                    for half in range(2):
                        w = (m * loads + p) * 8 + 4 * half
                        s = (j * loads + p) * 4 + 2 * half
                        multiply_add(weights, w, states[s], states[s + 1], sums, (m * column_tiles + j) * 4)
        for i in range(count):
            parts[(warp * count + i) * 32 + lane] = sums[i]

    return multiply


def _make_total(tile: Tile) -> Any:
    column_tiles, count, warps = tile.column_tiles, tile.sums, tile.warps

    @device_function
    def total(parts, row, column):
        part = ((row >> 4) * column_tiles + (column >> 3)) * 4 + ((row & 15) >> 3) * 2 + (column & 1)
        at = part * 32 + (row & 7) * 4 + ((column & 7) >> 1)
        result = float32(0)
        for warp in range(warps):
            result += parts[warp * count * 32 + at]
        return result

    return total


FLOATS, LENGTHS, WORDS, NUMBER = float32[::1], types.int64[::1], uint32[::1], int32
