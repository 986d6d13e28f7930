"""A recurrent layer's time loop in one launch, forward and backward, for the cells of `cell_steps`.

Arrays are flat. Step t reads h from slot t of `states` [T+1, B, H], reversed from slot t+1, and writes the new one to
the other slot. Beyond a row's length its states do not change; its y, and its gradients, are zero there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from numba import cuda, float32, int32, uint32, uint64

from nmt.rnn.kernels.cuda.machine_code import ptx
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel, device_function
from nmt.rnn.kernels.cuda.persistent.cell_steps import CELLS, cell_steps
from nmt.rnn.kernels.cuda.persistent.tile_product import FLOATS, LENGTHS, NUMBER, WORDS, make_product, state_type
from nmt.rnn.kernels.cuda.persistent.tiles import Capability, Tile, example_tiles

__all__ = ["backward_kernel", "forward_kernel"]


class _Place(NamedTuple):
    """Device functions that compute which elements a thread works on."""

    thread: Any  # (slice, lengths, B) -> warp, lane, group of sentences, first sentence, first unit, steps
    element: Any  # (q, first sentence, first unit, B) -> column, row, sentence, unit; the sentence is -1: none


def _make_place(tile: Tile) -> _Place:
    columns, units, threads = tile.columns, tile.units, tile.threads

    @device_function
    def thread_place(slice, lengths, B):  # noqa: A002
        thread, group = cuda.threadIdx.x, slice + cuda.blockIdx.y
        first = group * columns
        steps = int32(0)
        for n in range(first, min(first + columns, B)):
            steps = max(steps, int32(lengths[uint64(n)]))
        return thread >> 5, thread & 31, group, first, cuda.blockIdx.x * units, steps

    @device_function
    def element_place(q, first, unit, B):
        cell = cuda.threadIdx.x + q * threads
        column, row = cell // units, cell % units
        n = first + column
        return column, row, n if cell < units * columns and n < B else -1, unit + row

    return _Place(thread_place, element_place)


@device_function
def _announce(flags, at):
    """Signal that this block has finished a step; its threads must have passed a barrier before."""
    if cuda.threadIdx.x == 0:
        ptx.add_release(flags, at, uint32(1))


@lru_cache
def forward_kernel(cell: str, tile: Tile) -> GPUKernel:
    """Return the forward loop of a cell with G gates and n states for a tile, grid (tile.blocks, slices).

    W_h [H, G*H]; b_h [G*H] of a GRU; a [T, B, G*H] in: x W_x + b, out: the gates after their functions; lengths [B];
    initial, final [n, B, H]: h, and c of an LSTM; y [T, B, H]; inner [T, B, H]: out, see `CellSteps`; states
    [T+1, B, H] in the type of `state_type`, and the same memory as uint32 words; flags: tile.blocks zeros a slice;
    reverse: 0 or 1; slice: of the first sentences.
    """
    load_weights, sources, wait, multiply, total, put = make_product(tile)
    thread_place, element_place = _make_place(tile)
    count, step, *_ = cell_steps(cell, tile)
    H, G, units, cells, blocks = tile.hidden, tile.gates, tile.units, tile.cells, tile.blocks
    parts_count, weight_words = tile.sums * tile.threads, tile.weight_words
    now_count, given_count = count * cells, G * cells

    def forward(W_h, b_h, a, lengths, initial, y, inner, states, words, final, flags, T, B, reverse, slice):  # noqa: A002
        parts, weights = cuda.shared.array(parts_count, float32), cuda.local.array(weight_words, uint32)
        now, given = cuda.local.array(now_count, float32), cuda.local.array(given_count, float32)
        sums = cuda.local.array(G, float32)
        warp, lane, group, first, unit, steps = thread_place(slice, lengths, B)
        load_weights(W_h, weights, unit, warp, lane)
        low, high = sources(warp)
        for q in range(cells):
            column, row, n, k = element_place(q, first, unit, B)
            if n >= 0:
                for i in range(count):
                    now[q * count + i] = initial[uint64((i * B + n) * H + k)]
                put(states, ((steps if reverse else 0) * B + n) * H + k, now[q * count])
        cuda.syncthreads()
        _announce(flags, group * blocks + cuda.blockIdx.x)
        for s in range(steps):
            t = steps - 1 - s if reverse else s
            for q in range(cells):
                column, row, n, k = element_place(q, first, unit, B)
                if n >= 0:
                    for gate in range(G):
                        given[q * G + gate] = a[uint64(((t * B + n) * G + gate) * H + k)]
            wait(flags, group * blocks + low, group * blocks + high, lane, uint32(s + 1))
            multiply(words, (t + reverse) * B, first, B, weights, parts, warp, lane)
            cuda.syncthreads()
            for q in range(cells):
                column, row, n, k = element_place(q, first, unit, B)
                if n >= 0:
                    at = (t * B + n) * H + k
                    if t < lengths[uint64(n)]:
                        for gate in range(G):
                            sums[gate] = total(parts, gate * units + row, column)
                        inner[uint64(at)] = step(given, sums, b_h, k, now, q)
                        y[uint64(at)] = now[q * count]
                        for gate in range(G):
                            a[uint64(((t * B + n) * G + gate) * H + k)] = sums[gate]
                    else:
                        y[uint64(at)] = inner[uint64(at)] = float32(0)
                    put(states, ((t + 1 - reverse) * B + n) * H + k, now[q * count])
            cuda.syncthreads()
            _announce(flags, group * blocks + cuda.blockIdx.x)
        for q in range(cells):
            column, row, n, k = element_place(q, first, unit, B)
            if n >= 0:
                for i in range(count):
                    final[uint64((i * B + n) * H + k)] = now[q * count + i]
                for t in range(steps, T):
                    y[uint64((t * B + n) * H + k)] = inner[uint64((t * B + n) * H + k)] = float32(0)
                    put(states, ((t + 1) * B + n) * H + k, float32(0))

    forward.__name__ = f"{cell}_forward"
    signature = (*(FLOATS,) * 3, LENGTHS, *(FLOATS,) * 3, state_type(tile), WORDS, FLOATS, WORDS, *(NUMBER,) * 4)
    return GPUKernel(forward, signature, tile.threads, cooperative=True)


@lru_cache
def backward_kernel(cell: str, tile: Tile) -> GPUKernel:
    """Return the backward loop of a cell for a tile, grid (tile.blocks, slices).

    a [T, B, G*H] in: gates, out: gradients of x W_x + b; inner in: as forward, out of a GRU: gradients of h W_n + b_n
    (of the other gates' products they are those of a); kept [T, B, H]: the state of which the gradients need the one
    before the step, c of an LSTM and y of a GRU, and initial [B, H], its first; d_y [T, B, H]; d_states [n, B, H] in:
    of the final states, out: of the initial ones; d_product [T, B, G*H]: out, the gradients of h W_h rounded to the
    type of `state_type`, and the same memory as words; the rest as forward.
    """
    load_weights, sources, wait, multiply, total, put = make_product(tile)
    thread_place, element_place = _make_place(tile)
    count, _, step, inner_takes_gradient = cell_steps(cell, tile)
    H, G, cells, blocks, weight_words = tile.hidden, tile.gates, tile.cells, tile.blocks, tile.weight_words
    parts_count, now_count = tile.sums * tile.threads, count * tile.cells

    @device_function
    def give(a, inner, d_product, position, k, gates, of_product):
        """Write the gradients of a step: gates [G], and that of the last gate's product."""
        at = position * G * H + k
        for gate in range(G):
            a[uint64(at + gate * H)] = gates[gate]
            put(d_product, at + gate * H, gates[gate] if gate < G - 1 else of_product)
        if inner_takes_gradient:
            inner[uint64(position * H + k)] = of_product

    @device_function
    def clear(a, inner, d_product, position, k):
        """Zero the gradients of a step that a row does not run."""
        zero, at = float32(0), position * G * H + k
        for gate in range(G):
            a[uint64(at + gate * H)] = zero
            put(d_product, at + gate * H, zero)
        if inner_takes_gradient:
            inner[uint64(position * H + k)] = zero

    def backward(W_h, a, inner, lengths, kept, initial, d_y, d_states, d_product, words, flags, T, B, reverse, slice):  # noqa: A002
        parts, weights = cuda.shared.array(parts_count, float32), cuda.local.array(weight_words, uint32)
        d_now, gates = cuda.local.array(now_count, float32), cuda.local.array(G, float32)
        warp, lane, group, first, unit, steps = thread_place(slice, lengths, B)
        load_weights(W_h, weights, unit, warp, lane)
        low, high = sources(warp)
        for q in range(cells):
            column, row, n, k = element_place(q, first, unit, B)
            if n >= 0:
                for i in range(count):
                    d_now[q * count + i] = d_states[uint64((i * B + n) * H + k)]
        for s in range(steps + 1):
            t = s if reverse else steps - 1 - s
            if s > 0:
                wait(flags, group * blocks + low, group * blocks + high, lane, uint32(s))
                multiply(words, (t + 1 - 2 * reverse) * B, first, B, weights, parts, warp, lane)
                cuda.syncthreads()
            for q in range(cells):
                column, row, n, k = element_place(q, first, unit, B)
                if n >= 0:
                    if s > 0:
                        d_now[q * count] += total(parts, row, column)
                    here = t * B + n
                    if s == steps:
                        for i in range(count):
                            d_states[uint64((i * B + n) * H + k)] = d_now[q * count + i]
                    elif t < lengths[uint64(n)]:
                        before = t + 1 if reverse else t - 1
                        is_first = before < 0 or before >= lengths[uint64(n)]
                        state = initial[uint64(n * H + k)] if is_first else kept[uint64((before * B + n) * H + k)]
                        for gate in range(G):
                            gates[gate] = a[uint64((here * G + gate) * H + k)]
                        d_out = d_now[q * count] + d_y[uint64(here * H + k)]
                        of_product = step(gates, inner[uint64(here * H + k)], state, d_out, d_now, q)
                        give(a, inner, d_product, here, k, gates, of_product)
                    else:
                        clear(a, inner, d_product, here, k)
            cuda.syncthreads()
            _announce(flags, group * blocks + cuda.blockIdx.x)
        for q in range(cells):
            column, row, n, k = element_place(q, first, unit, B)
            if n >= 0:
                for t in range(steps, T):
                    clear(a, inner, d_product, t * B + n, k)

    backward.__name__ = f"{cell}_backward"
    signature = (*(FLOATS,) * 3, LENGTHS, *(FLOATS,) * 4, state_type(tile), WORDS, WORDS, *(NUMBER,) * 4)
    return GPUKernel(backward, signature, tile.threads, cooperative=True)


def chosen_kernels(capability: Capability) -> dict[str, GPUKernel]:
    """Return the kernels chosen on a GPU of this capability, for the tests that compile."""
    return {
        f"{cell} {name}": (backward_kernel if tile.backward else forward_kernel)(cell, tile)
        for cell, gates in CELLS.items()
        for name, tile in example_tiles(gates, capability)
    }
