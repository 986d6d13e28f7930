"""An LSTM layer's time loop in one launch, forward and backward (cell: nmt/rnn/cells/lstm.py).

Arrays are flat. Step t finds the state before it in slot t of `states` [T+1, B, H], reversed in slot t+1, and leaves
the one after it in the other. A row's states stay what they are at steps beyond its length; its y, and its gradients,
are zero there.
"""

from __future__ import annotations

import math
from functools import lru_cache

from numba import cuda, float32, int32, uint32, uint64

from nmt.rnn.kernels.cuda import ptx
from nmt.rnn.kernels.cuda.kernel import Kernel, device_function
from nmt.rnn.kernels.cuda.persistent.product import FLOATS, LENGTHS, NUMBER, WORDS, make_product, state_type
from nmt.rnn.kernels.cuda.persistent.tiles import Capability, Tile, example_tiles

__all__ = ["lstm_backward_kernel", "lstm_forward_kernel"]


@device_function
def sigmoid(x):
    """1 / (1 + exp(-x))."""
    return float32(1) / (float32(1) + math.exp(-x))


@device_function
def longest(lengths, first, last):
    """The largest of lengths[first:last]."""
    most = int32(0)
    for n in range(first, last):
        most = max(most, int32(lengths[uint64(n)]))
    return most


@lru_cache
def lstm_forward_kernel(tile: Tile) -> Kernel:
    """The forward loop for a tile, grid (tile.blocks, slices).

    W_h [H, 4H]; a [T, B, 4H] in: x W_x + b, out: the gates i, f, g, o after their functions; lengths [B]; h_0, c_0
    [B, H]; y, c [T, B, H]; states [T+1, B, H] in the type of `state_type`, and the same memory as uint32 words; h_last,
    c_last [B, H]; flags: tile.blocks zeros a slice; reverse: 0 or 1; slice: of the first sentences.
    """
    load_weights, sources, wait, multiply, total, put = make_product(tile)
    H, units, columns, threads, cells = tile.hidden, tile.units, tile.columns, tile.threads, tile.cells
    blocks, weight_words = tile.blocks, tile.weight_words
    parts_count, given_count = tile.sums * tile.threads, 4 * tile.cells

    def lstm_forward(W_h, a, lengths, h_0, c_0, y, c, states, words, h_last, c_last, flags, T, B, reverse, slice):  # noqa: A002
        parts = cuda.shared.array(parts_count, float32)
        weights = cuda.local.array(weight_words, uint32)
        h_now, c_now = cuda.local.array(cells, float32), cuda.local.array(cells, float32)
        given = cuda.local.array(given_count, float32)
        thread, block = cuda.threadIdx.x, cuda.blockIdx.x
        warp, lane = thread >> 5, thread & 31
        group = slice + cuda.blockIdx.y
        first, unit = group * columns, block * units
        last = min(first + columns, B)
        load_weights(W_h, weights, unit, warp, lane)
        low, high = sources(warp)
        steps = longest(lengths, first, last)
        for q in range(cells):
            cell = thread + q * threads
            n, k = first + cell // units, unit + cell % units
            if cell < units * columns and n < B:
                h_now[q], c_now[q] = h_0[uint64(n * H + k)], c_0[uint64(n * H + k)]
                put(states, ((steps if reverse else 0) * B + n) * H + k, h_now[q])
        cuda.syncthreads()
        if thread == 0:
            ptx.add_release(flags, group * blocks + block, uint32(1))
        for s in range(steps):
            t = steps - 1 - s if reverse else s
            for q in range(cells):
                cell = thread + q * threads
                n, k = first + cell // units, unit + cell % units
                if cell < units * columns and n < B:
                    for gate in range(4):
                        given[q * 4 + gate] = a[uint64(((t * B + n) * 4 + gate) * H + k)]
            wait(flags, group * blocks + low, group * blocks + high, lane, uint32(s + 1))
            multiply(words, (t + reverse) * B, first, B, weights, parts, warp, lane)
            cuda.syncthreads()
            for q in range(cells):
                cell = thread + q * threads
                column, row = cell // units, cell % units
                n, k = first + column, unit + row
                if cell < units * columns and n < B:
                    at = (t * B + n) * H + k
                    if t < lengths[uint64(n)]:
                        i = sigmoid(given[q * 4] + total(parts, row, column))
                        f = sigmoid(given[q * 4 + 1] + total(parts, units + row, column))
                        g = math.tanh(given[q * 4 + 2] + total(parts, 2 * units + row, column))
                        o = sigmoid(given[q * 4 + 3] + total(parts, 3 * units + row, column))
                        gates = (t * B + n) * 4 * H + k
                        a[uint64(gates)], a[uint64(gates + H)] = i, f
                        a[uint64(gates + 2 * H)], a[uint64(gates + 3 * H)] = g, o
                        c_now[q] = f * c_now[q] + i * g
                        h_now[q] = o * math.tanh(c_now[q])
                        y[uint64(at)], c[uint64(at)] = h_now[q], c_now[q]
                    else:
                        y[uint64(at)] = c[uint64(at)] = float32(0)
                    put(states, ((t + 1 - reverse) * B + n) * H + k, h_now[q])
            cuda.syncthreads()
            if thread == 0:
                ptx.add_release(flags, group * blocks + block, uint32(1))
        for q in range(cells):
            cell = thread + q * threads
            n, k = first + cell // units, unit + cell % units
            if cell < units * columns and n < B:
                h_last[uint64(n * H + k)], c_last[uint64(n * H + k)] = h_now[q], c_now[q]
                for t in range(steps, T):
                    y[uint64((t * B + n) * H + k)] = c[uint64((t * B + n) * H + k)] = float32(0)
                    put(states, ((t + 1) * B + n) * H + k, float32(0))

    state = state_type(tile)
    signature = (FLOATS, FLOATS, LENGTHS, *(FLOATS,) * 4, state, WORDS, *(FLOATS,) * 2, WORDS, *(NUMBER,) * 4)
    return Kernel(lstm_forward, signature, tile.threads, cooperative=True)


@lru_cache
def lstm_backward_kernel(tile: Tile) -> Kernel:
    """The backward loop for a tile, grid (tile.blocks, slices).

    a [T, B, 4H] in: gates, out: gradients of x W_x + b; c_0, c as forward; d_y [T, B, H]; d_h, d_c [B, H] in: of the
    last states, out: of the first; d_states [T, B, 4H]: out, what a holds, rounded to the type of `state_type`.
    """
    load_weights, sources, wait, multiply, total, put = make_product(tile)
    H, units, columns, threads, cells = tile.hidden, tile.units, tile.columns, tile.threads, tile.cells
    blocks, weight_words, parts_count = tile.blocks, tile.weight_words, tile.sums * tile.threads

    @device_function
    def give(a, d_states, at, d_i, d_f, d_g, d_o):
        a[uint64(at)], a[uint64(at + H)] = d_i, d_f
        a[uint64(at + 2 * H)], a[uint64(at + 3 * H)] = d_g, d_o
        put(d_states, at, d_i)
        put(d_states, at + H, d_f)
        put(d_states, at + 2 * H, d_g)
        put(d_states, at + 3 * H, d_o)

    def lstm_backward(W_h, a, lengths, c_0, c, d_y, d_h, d_c, d_states, words, flags, T, B, reverse, slice):  # noqa: A002
        parts = cuda.shared.array(parts_count, float32)
        weights = cuda.local.array(weight_words, uint32)
        d_h_now, d_c_now = cuda.local.array(cells, float32), cuda.local.array(cells, float32)
        thread, block = cuda.threadIdx.x, cuda.blockIdx.x
        warp, lane = thread >> 5, thread & 31
        group = slice + cuda.blockIdx.y
        first, unit = group * columns, block * units
        last = min(first + columns, B)
        load_weights(W_h, weights, unit, warp, lane)
        low, high = sources(warp)
        steps = longest(lengths, first, last)
        zero, one = float32(0), float32(1)
        for q in range(cells):
            cell = thread + q * threads
            n, k = first + cell // units, unit + cell % units
            if cell < units * columns and n < B:
                d_h_now[q], d_c_now[q] = d_h[uint64(n * H + k)], d_c[uint64(n * H + k)]
        for s in range(steps + 1):
            t = s if reverse else steps - 1 - s
            if s > 0:
                wait(flags, group * blocks + low, group * blocks + high, lane, uint32(s))
                multiply(words, (t + 1 - 2 * reverse) * B, first, B, weights, parts, warp, lane)
                cuda.syncthreads()
            for q in range(cells):
                cell = thread + q * threads
                column, row = cell // units, cell % units
                n, k = first + column, unit + row
                if cell < units * columns and n < B:
                    if s > 0:
                        d_h_now[q] += total(parts, row, column)
                    gates = (t * B + n) * 4 * H + k
                    if s == steps:
                        d_h[uint64(n * H + k)], d_c[uint64(n * H + k)] = d_h_now[q], d_c_now[q]
                    elif t < lengths[uint64(n)]:
                        i, f = a[uint64(gates)], a[uint64(gates + H)]
                        g, o = a[uint64(gates + 2 * H)], a[uint64(gates + 3 * H)]
                        before = t + 1 if reverse else t - 1
                        is_first = before < 0 or before >= lengths[uint64(n)]
                        c_before = c_0[uint64(n * H + k)] if is_first else c[uint64((before * B + n) * H + k)]
                        tanh_c = math.tanh(c[uint64((t * B + n) * H + k)])
                        d_out = d_h_now[q] + d_y[uint64((t * B + n) * H + k)]
                        d_cell = d_c_now[q] + d_out * o * (one - tanh_c * tanh_c)
                        d_i = d_cell * g * i * (one - i)
                        d_f = d_cell * c_before * f * (one - f)
                        give(a, d_states, gates, d_i, d_f, d_cell * i * (one - g * g), d_out * tanh_c * o * (one - o))
                        d_c_now[q] = d_cell * f
                        d_h_now[q] = zero
                    else:
                        give(a, d_states, gates, zero, zero, zero, zero)
            cuda.syncthreads()
            if thread == 0:
                ptx.add_release(flags, group * blocks + block, uint32(1))
        for q in range(cells):
            cell = thread + q * threads
            n, k = first + cell // units, unit + cell % units
            if cell < units * columns and n < B:
                for t in range(steps, T):
                    give(a, d_states, (t * B + n) * 4 * H + k, zero, zero, zero, zero)

    state = state_type(tile)
    signature = (FLOATS, FLOATS, LENGTHS, *(FLOATS,) * 5, state, WORDS, WORDS, *(NUMBER,) * 4)
    return Kernel(lstm_backward, signature, tile.threads, cooperative=True)


def chosen_kernels(capability: Capability) -> dict[str, Kernel]:
    """What is chosen on a card of this capability, for the tests that compile."""
    return {
        name: (lstm_backward_kernel if tile.backward else lstm_forward_kernel)(tile)
        for name, tile in example_tiles(4, capability)
    }
