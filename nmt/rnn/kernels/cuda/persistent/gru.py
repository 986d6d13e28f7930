"""A GRU layer's time loop in one launch, forward and backward, the reset after the product (cell:
nmt/rnn/cells/gru.py). Slots of `states`, padding and `reverse` are as in the LSTM's."""

from __future__ import annotations

import math
from functools import lru_cache

from numba import cuda, float32, uint32, uint64

from nmt.rnn.kernels.cuda import ptx
from nmt.rnn.kernels.cuda.kernel import Kernel, device_function
from nmt.rnn.kernels.cuda.persistent.lstm import longest, sigmoid
from nmt.rnn.kernels.cuda.persistent.product import FLOATS, LENGTHS, NUMBER, WORDS, make_product, state_type
from nmt.rnn.kernels.cuda.persistent.tiles import Capability, Tile, example_tiles

__all__ = ["gru_backward_kernel", "gru_forward_kernel"]


@lru_cache
def gru_forward_kernel(tile: Tile) -> Kernel:
    """The forward loop for a tile, grid (tile.blocks, slices).

    W_h [H, 3H]; b_h [3H]; a [T, B, 3H] in: x W_x + b, out: the gates r, z, n after their functions; lengths [B]; h_0
    [B, H]; y [T, B, H]; inner [T, B, H]: out, h W_n + b_n before the reset; states [T+1, B, H] in the type of
    `state_type`, and the same memory as uint32 words; h_last [B, H]; flags: tile.blocks zeros a slice; reverse: 0 or 1;
    slice: of the first sentences.
    """
    load_weights, sources, wait, multiply, total, put = make_product(tile)
    H, units, columns, threads, cells = tile.hidden, tile.units, tile.columns, tile.threads, tile.cells
    blocks, weight_words = tile.blocks, tile.weight_words
    parts_count, given_count = tile.sums * tile.threads, 3 * tile.cells

    def gru_forward(W_h, b_h, a, lengths, h_0, y, inner, states, words, h_last, flags, T, B, reverse, slice):  # noqa: A002
        parts = cuda.shared.array(parts_count, float32)
        weights = cuda.local.array(weight_words, uint32)
        h_now = cuda.local.array(cells, float32)
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
                h_now[q] = h_0[uint64(n * H + k)]
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
                    for gate in range(3):
                        given[q * 3 + gate] = a[uint64(((t * B + n) * 3 + gate) * H + k)]
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
                        r = sigmoid(given[q * 3] + (total(parts, row, column) + b_h[uint64(k)]))
                        z = sigmoid(given[q * 3 + 1] + (total(parts, units + row, column) + b_h[uint64(H + k)]))
                        u = total(parts, 2 * units + row, column) + b_h[uint64(2 * H + k)]
                        g = math.tanh(given[q * 3 + 2] + r * u)
                        gates = (t * B + n) * 3 * H + k
                        a[uint64(gates)], a[uint64(gates + H)], a[uint64(gates + 2 * H)] = r, z, g
                        h_now[q] = (float32(1) - z) * g + z * h_now[q]
                        y[uint64(at)], inner[uint64(at)] = h_now[q], u
                    else:
                        y[uint64(at)] = inner[uint64(at)] = float32(0)
                    put(states, ((t + 1 - reverse) * B + n) * H + k, h_now[q])
            cuda.syncthreads()
            if thread == 0:
                ptx.add_release(flags, group * blocks + block, uint32(1))
        for q in range(cells):
            cell = thread + q * threads
            n, k = first + cell // units, unit + cell % units
            if cell < units * columns and n < B:
                h_last[uint64(n * H + k)] = h_now[q]
                for t in range(steps, T):
                    y[uint64((t * B + n) * H + k)] = inner[uint64((t * B + n) * H + k)] = float32(0)
                    put(states, ((t + 1) * B + n) * H + k, float32(0))

    state = state_type(tile)
    signature = (*(FLOATS,) * 3, LENGTHS, *(FLOATS,) * 3, state, WORDS, FLOATS, WORDS, *(NUMBER,) * 4)
    return Kernel(gru_forward, signature, tile.threads, cooperative=True)


@lru_cache
def gru_backward_kernel(tile: Tile) -> Kernel:
    """The backward loop for a tile, grid (tile.blocks, slices).

    a [T, B, 3H] in: gates, out: gradients of x W_x + b; inner in: as forward, out: gradients of h W_n + b_n (of the
    other gates' products they are those of a); h_0, y as forward; d_y [T, B, H]; d_h [B, H] in: of the last state, out:
    of the first; d_states [T, B, 3H]: out, the gradients of h W_h rounded to the type of `state_type`.
    """
    load_weights, sources, wait, multiply, total, put = make_product(tile)
    H, units, columns, threads, cells = tile.hidden, tile.units, tile.columns, tile.threads, tile.cells
    blocks, weight_words, parts_count = tile.blocks, tile.weight_words, tile.sums * tile.threads

    @device_function
    def give(a, inner, d_states, row, k, d_r, d_z, d_n, d_u):
        at = row * 3 * H + k
        a[uint64(at)], a[uint64(at + H)], a[uint64(at + 2 * H)] = d_r, d_z, d_n
        inner[uint64(row * H + k)] = d_u
        put(d_states, at, d_r)
        put(d_states, at + H, d_z)
        put(d_states, at + 2 * H, d_u)

    def gru_backward(W_h, a, inner, lengths, h_0, y, d_y, d_h, d_states, words, flags, T, B, reverse, slice):  # noqa: A002
        parts = cuda.shared.array(parts_count, float32)
        weights = cuda.local.array(weight_words, uint32)
        d_h_now = cuda.local.array(cells, float32)
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
                d_h_now[q] = d_h[uint64(n * H + k)]
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
                    here = t * B + n
                    gates = here * 3 * H + k
                    if s == steps:
                        d_h[uint64(n * H + k)] = d_h_now[q]
                    elif t < lengths[uint64(n)]:
                        r, z, g = a[uint64(gates)], a[uint64(gates + H)], a[uint64(gates + 2 * H)]
                        before = t + 1 if reverse else t - 1
                        is_first = before < 0 or before >= lengths[uint64(n)]
                        h_before = h_0[uint64(n * H + k)] if is_first else y[uint64((before * B + n) * H + k)]
                        d_out = d_h_now[q] + d_y[uint64(here * H + k)]
                        d_n = d_out * (one - z) * (one - g * g)
                        d_z = d_out * (h_before - g) * z * (one - z)
                        d_r = d_n * inner[uint64(here * H + k)] * r * (one - r)
                        give(a, inner, d_states, here, k, d_r, d_z, d_n, d_n * r)
                        d_h_now[q] = d_out * z
                    else:
                        give(a, inner, d_states, here, k, zero, zero, zero, zero)
            cuda.syncthreads()
            if thread == 0:
                ptx.add_release(flags, group * blocks + block, uint32(1))
        for q in range(cells):
            cell = thread + q * threads
            n, k = first + cell // units, unit + cell % units
            if cell < units * columns and n < B:
                for t in range(steps, T):
                    give(a, inner, d_states, t * B + n, k, zero, zero, zero, zero)

    state = state_type(tile)
    signature = (*(FLOATS,) * 3, LENGTHS, *(FLOATS,) * 4, state, WORDS, WORDS, *(NUMBER,) * 4)
    return Kernel(gru_backward, signature, tile.threads, cooperative=True)


def chosen_kernels(capability: Capability) -> dict[str, Kernel]:
    """What is chosen on a card of this capability, for the tests that compile."""
    return {
        name: (gru_backward_kernel if tile.backward else gru_forward_kernel)(tile)
        for name, tile in example_tiles(3, capability)
    }
