"""A recurrent layer's time loop in one launch, forward and backward, for the cells of `cell_steps`.

In the product of a step, a thread's share of an operand of a tensor core instruction is spread over the inner axis.
Since the order of the sum does not matter, adjacent numbers in memory are assigned to the elements of one thread, so
that it reads 16 bytes at a time and needs no shared memory for it. Weights are laid out in the same order.

Arrays are flat. Step t reads h from slot t of `states` [T+1, B, H], reversed from slot t+1, and writes the new one to
the other slot. Beyond a row's length its states do not change; its y, and its gradients, are zero there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from numba import cuda, float32, int32, types, uint16, uint32, uint64

from nmt.rnn.kernels.cuda.machine_code import ptx
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel, device_function
from nmt.rnn.kernels.cuda.persistent.cell_steps import cell_steps
from nmt.rnn.kernels.cuda.persistent.tiles import Tile

_TF32 = 0xFFFFE000  # the bits of a float32 that a tensor core reads


class TileProduct(NamedTuple):
    """Device functions over arrays of the kernel: a thread's own, or with `tile.in_shared` a block's weights."""

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
    """Return the multiplication, unrolled too. Columns beyond the last sentence get the last one's states; their sums
    are not read."""
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


class _Place(NamedTuple):
    """Device functions that compute which elements a thread works on."""

    thread: Any  # () -> warp, lane, first unit
    group: Any  # (group of sentences, lengths, B) -> the most steps of one of its sentences
    element: Any  # (q, first sentence, first unit, B) -> column, row, sentence, unit; the sentence is -1: none


def _make_place(tile: Tile) -> _Place:
    columns, units, threads = tile.columns, tile.units, tile.threads

    @device_function
    def thread_place():
        thread = cuda.threadIdx.x
        return thread >> 5, thread & 31, cuda.blockIdx.x * units

    @device_function
    def group_steps(group, lengths, B):
        first = group * columns
        steps = int32(0)
        for n in range(first, min(first + columns, B)):
            steps = max(steps, int32(lengths[uint64(n)]))
        return steps

    @device_function
    def element_place(q, first, unit, B):
        cell = cuda.threadIdx.x + q * threads
        column, row = cell // units, cell % units
        n = first + column
        return column, row, n if cell < units * columns and n < B else -1, unit + row

    return _Place(thread_place, group_steps, element_place)


class _Held(NamedTuple):
    """Device functions that keep the states of a block's groups of sentences in shared memory, behind the product's
    parts, while another group has its turn. With one group they do nothing: its states stay in registers."""

    size: int  # numbers of shared memory
    keep: Any  # (shared, turn, now)
    take: Any  # (shared, turn, now)
    keep_steps: Any  # (shared, turn, steps)
    steps: Any  # (shared, turn, the steps of the longest group) -> steps of the turn's group


def _make_held(tile: Tile, turns: int, now_count: int) -> _Held:
    start, threads, several = tile.sums * tile.threads, tile.threads, turns > 1
    steps_at = start + turns * now_count * threads

    @device_function
    def keep(shared, turn, now):
        if several:
            for i in range(now_count):
                shared[uint64(start + (turn * now_count + i) * threads + cuda.threadIdx.x)] = now[i]

    @device_function
    def take(shared, turn, now):
        if several:
            for i in range(now_count):
                now[i] = shared[uint64(start + (turn * now_count + i) * threads + cuda.threadIdx.x)]

    @device_function
    def keep_steps(shared, turn, steps):
        if several and cuda.threadIdx.x == 0:
            shared[uint64(steps_at + turn)] = ptx.as_float(uint32(steps))

    @device_function
    def steps(shared, turn, longest):
        return int32(ptx.as_bits(shared[uint64(steps_at + turn)])) if several else longest

    return _Held(steps_at + turns - start if several else 0, keep, take, keep_steps, steps)


@device_function
def _announce(flags, at):
    """Signal that this block has finished a step; its threads must have passed a barrier before."""
    if cuda.threadIdx.x == 0:
        ptx.add_release(flags, at, uint32(1))


@lru_cache
def forward_kernel(cell: str, tile: Tile, turns: int = 1) -> GPUKernel:
    """Return the forward loop of a cell with G gates and n states for a tile, grid (tile.blocks, groups at once).

    W_h [H, G*H]; b_h [G*H] of a GRU; a [T, B, G*H] in: x W_x + b, out: the gates after their functions; lengths [B];
    initial, final [n, B, H]: h, and c of an LSTM; y [T, B, H]; inner [T, B, H]: out, see `CellSteps`; states
    [T+1, B, H] in the type of `state_type`, and the same memory as uint32 words; flags: tile.blocks zeros a group;
    reverse: 0 or 1; from_group: the first group of sentences. A block takes turns at up to `turns` groups, so that one
    is computed while the states of another are on their way between blocks.

    Reading a counter with acquire empties the first-level cache, so what a step needs is read before the wait.
    """
    load_weights, sources, wait, multiply, total, put = make_product(tile)
    thread_place, group_steps, element_place = _make_place(tile)
    count, step, _, in_product, _ = cell_steps(cell)
    H, G, units, cells, blocks = tile.hidden, tile.gates, tile.units, tile.cells, tile.blocks
    columns, weight_words, in_shared = tile.columns, tile.weight_words, tile.in_shared
    now_count, given_count, bias_count = count * cells, G * cells, max(1, in_product * cells)
    held_count, keep, take, keep_steps, steps_of = _make_held(tile, turns, now_count)
    parts_count = tile.sums * tile.threads + held_count

    def forward(W_h, b_h, a, lengths, initial, y, inner, states, words, final, flags, T, B, reverse, from_group):
        parts = cuda.shared.array(parts_count, float32)
        if in_shared:
            weights = cuda.shared.array(0, uint32)
        else:
            weights = cuda.local.array(weight_words, uint32)
        now, given = cuda.local.array(now_count, float32), cuda.local.array(given_count, float32)
        sums = cuda.local.array(G, float32)
        bias, ends = cuda.local.array(bias_count, float32), cuda.local.array(cells, int32)
        warp, lane, unit = thread_place()
        load_weights(W_h, weights, unit, warp, lane)
        low, high = sources(warp)
        for q in range(cells):
            column, row, n, k = element_place(q, 0, unit, columns)
            for gate in range(in_product):
                bias[q * in_product + gate] = b_h[uint64(gate * H + k)]
        longest = int32(0)
        for turn in range(turns):
            group = from_group + cuda.blockIdx.y + turn * cuda.gridDim.y
            first = group * columns
            if first < B:
                steps = group_steps(group, lengths, B)
                longest = max(longest, steps)
                for q in range(cells):
                    column, row, n, k = element_place(q, first, unit, B)
                    if n >= 0:
                        for i in range(count):
                            now[q * count + i] = initial[uint64((i * B + n) * H + k)]
                        put(states, ((steps if reverse else 0) * B + n) * H + k, now[q * count])
                keep(parts, turn, now)
                keep_steps(parts, turn, steps)
                cuda.syncthreads()
                _announce(flags, group * blocks + cuda.blockIdx.x)
        for s in range(longest):
            for turn in range(turns):
                group = from_group + cuda.blockIdx.y + turn * cuda.gridDim.y
                first = group * columns
                steps = steps_of(parts, turn, longest) if first < B else int32(0)
                if s < steps:
                    t = steps - 1 - s if reverse else s
                    for q in range(cells):
                        column, row, n, k = element_place(q, first, unit, B)
                        if n >= 0:
                            ends[q] = int32(lengths[uint64(n)])
                            for gate in range(G):
                                given[q * G + gate] = a[uint64(((t * B + n) * G + gate) * H + k)]
                    take(parts, turn, now)
                    wait(flags, group * blocks + low, group * blocks + high, lane, uint32(s + 1))
                    multiply(words, (t + reverse) * B, first, B, weights, parts, warp, lane)
                    cuda.syncthreads()
                    for q in range(cells):
                        column, row, n, k = element_place(q, first, unit, B)
                        if n >= 0:
                            at = (t * B + n) * H + k
                            if t < ends[q]:
                                for gate in range(G):
                                    sums[gate] = total(parts, gate * units + row, column)
                                inner[uint64(at)] = step(given, sums, bias, now, q)
                                y[uint64(at)] = now[q * count]
                                for gate in range(G):
                                    a[uint64(((t * B + n) * G + gate) * H + k)] = sums[gate]
                            else:
                                y[uint64(at)] = inner[uint64(at)] = float32(0)
                            put(states, ((t + 1 - reverse) * B + n) * H + k, now[q * count])
                    cuda.syncthreads()
                    _announce(flags, group * blocks + cuda.blockIdx.x)
                    keep(parts, turn, now)
        for turn in range(turns):
            group = from_group + cuda.blockIdx.y + turn * cuda.gridDim.y
            first = group * columns
            if first < B:
                steps = steps_of(parts, turn, longest)
                take(parts, turn, now)
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
    return GPUKernel(forward, signature, tile.threads, tile.weight_bytes, cooperative=True)


@lru_cache
def backward_kernel(cell: str, tile: Tile, turns: int = 1) -> GPUKernel:
    """Return the backward loop of a cell for a tile.

    a [T, B, G*H] in: gates, out: gradients of x W_x + b; inner in: as forward, out of a GRU: gradients of h W_n + b_n
    (of the other gates' products they are those of a); kept [T, B, H]: the state of which the gradients need the one
    before the step, c of an LSTM and y of a GRU, and initial [B, H], its first; d_y [T, B, H]; d_states [n, B, H] in:
    of the final states, out: of the initial ones; d_product [T, B, G*H]: out, the gradients of h W_h rounded to the
    type of `state_type`, and the same memory as words; the rest as forward.
    """
    load_weights, sources, wait, multiply, total, put = make_product(tile)
    thread_place, group_steps, element_place = _make_place(tile)
    count, _, step, _, inner_takes_gradient = cell_steps(cell)
    H, G, cells, blocks = tile.hidden, tile.gates, tile.cells, tile.blocks
    weight_words, in_shared = tile.weight_words, tile.in_shared
    columns, now_count, given_count = tile.columns, count * tile.cells, (G + 3) * tile.cells
    held_count, keep, take, keep_steps, steps_of = _make_held(tile, turns, now_count)
    parts_count = tile.sums * tile.threads + held_count

    @device_function
    def clear(a, inner, d_product, position, k):
        """Zero the gradients of a step that a row does not run."""
        zero, at = float32(0), position * G * H + k
        for gate in range(G):
            a[uint64(at + gate * H)] = zero
            put(d_product, at + gate * H, zero)
        if inner_takes_gradient:
            inner[uint64(position * H + k)] = zero

    def backward(
        W_h, a, inner, lengths, kept, initial, d_y, d_states, d_product, words, flags, T, B, reverse, from_group
    ):
        parts = cuda.shared.array(parts_count, float32)
        if in_shared:
            weights = cuda.shared.array(0, uint32)
        else:
            weights = cuda.local.array(weight_words, uint32)
        d_now, gates = cuda.local.array(now_count, float32), cuda.local.array(G, float32)
        given = cuda.local.array(given_count, float32)  # of each element: gates, inner, the state before, d_y
        ends = cuda.local.array(cells, int32)
        warp, lane, unit = thread_place()
        load_weights(W_h, weights, unit, warp, lane)
        low, high = sources(warp)
        longest = int32(0)
        for turn in range(turns):
            group = from_group + cuda.blockIdx.y + turn * cuda.gridDim.y
            first = group * columns
            if first < B:
                steps = group_steps(group, lengths, B)
                longest = max(longest, steps)
                for q in range(cells):
                    column, row, n, k = element_place(q, first, unit, B)
                    if n >= 0:
                        for i in range(count):
                            d_now[q * count + i] = d_states[uint64((i * B + n) * H + k)]
                keep(parts, turn, d_now)
                keep_steps(parts, turn, steps)
        cuda.syncthreads()
        for s in range(longest + 1):
            for turn in range(turns):
                group = from_group + cuda.blockIdx.y + turn * cuda.gridDim.y
                first = group * columns
                steps = steps_of(parts, turn, longest) if first < B else int32(-1)
                if s <= steps:
                    t = s if reverse else steps - 1 - s
                    if s < steps:
                        for q in range(cells):
                            column, row, n, k = element_place(q, first, unit, B)
                            ends[q] = int32(lengths[uint64(n)]) if n >= 0 else int32(0)
                            if t < ends[q]:
                                here, before = t * B + n, t + 1 if reverse else t - 1
                                is_first = before < 0 or before >= ends[q]
                                for gate in range(G):
                                    given[q * (G + 3) + gate] = a[uint64((here * G + gate) * H + k)]
                                given[q * (G + 3) + G] = inner[uint64(here * H + k)]
                                if is_first:
                                    given[q * (G + 3) + G + 1] = initial[uint64(n * H + k)]
                                else:
                                    given[q * (G + 3) + G + 1] = kept[uint64((before * B + n) * H + k)]
                                given[q * (G + 3) + G + 2] = d_y[uint64(here * H + k)]
                    take(parts, turn, d_now)
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
                            elif t < ends[q]:
                                for gate in range(G):
                                    gates[gate] = given[q * (G + 3) + gate]
                                d_out = d_now[q * count] + given[q * (G + 3) + G + 2]
                                of_product = step(
                                    gates, given[q * (G + 3) + G], given[q * (G + 3) + G + 1], d_out, d_now, q
                                )
                                for gate in range(G):
                                    at = (here * G + gate) * H + k
                                    a[uint64(at)] = gates[gate]
                                    put(d_product, at, gates[gate] if gate < G - 1 else of_product)
                                if inner_takes_gradient:
                                    inner[uint64(here * H + k)] = of_product
                            else:
                                clear(a, inner, d_product, here, k)
                    cuda.syncthreads()
                    _announce(flags, group * blocks + cuda.blockIdx.x)
                    keep(parts, turn, d_now)
        for turn in range(turns):
            group = from_group + cuda.blockIdx.y + turn * cuda.gridDim.y
            first = group * columns
            if first < B:
                for q in range(cells):
                    column, row, n, k = element_place(q, first, unit, B)
                    if n >= 0:
                        for t in range(steps_of(parts, turn, longest), T):
                            clear(a, inner, d_product, t * B + n, k)

    backward.__name__ = f"{cell}_backward"
    signature = (*(FLOATS,) * 3, LENGTHS, *(FLOATS,) * 4, state_type(tile), WORDS, WORDS, *(NUMBER,) * 4)
    return GPUKernel(backward, signature, tile.threads, tile.weight_bytes, cooperative=True)
