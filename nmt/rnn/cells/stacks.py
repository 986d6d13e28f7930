"""Build the stacks of published language models: residual blocks of cells, and a norm after the last one."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from nmt.rnn.cell import Cell
from nmt.rnn.cells.matrix_states.linear_attention import LinearAttentionCell
from nmt.rnn.cells.matrix_states.mamba import S6Cell
from nmt.rnn.cells.matrix_states.rwkv7 import PassingCell, RWKV7ChannelCell, RWKV7TimeCell
from nmt.rnn.cells.wrapping.block import BlockCell, GatedUnitsCell, NormedCell
from nmt.rnn.cells.wrapping.wrappers import ResidualCell


def mamba_stack(
    hidden_size: int, layers: int, *, inner: int = 0, size: int = 16, rank: int = 0, window: int = 4
) -> list[Cell]:
    """Return Mamba (Gu and Dao 2023, section 3.4): one cell a layer. inner: units of the recurrence, twice the hidden
    size where 0; rank: of its steps, a sixteenth of the hidden size where 0; size, window: see `S6Cell` and
    `BlockCell`."""
    H, inner, rank = hidden_size, inner or 2 * hidden_size, rank or math.ceil(hidden_size / 16)

    def block() -> Cell:
        recurrence = S6Cell(inner, inner, size=size, rank=rank)
        return ResidualCell(NormedCell(BlockCell(H, recurrence, window=window, output_size=H)))

    return [*(block() for _ in range(layers - 1)), NormedCell(block(), after=True)]


def rwkv7_stack(
    hidden_size: int,
    layers: int,
    *,
    inner: int = 0,
    heads: int = 0,
    decay_rank: int = 64,
    rate_rank: int = 64,
    gate_rank: int = 128,
    value_rank: int = 32,
) -> list[Cell]:
    """Return RWKV-7 (Peng et al. 2025, section 4): time mixing and channel mixing, two cells a layer. inner: units of
    the channel mixing, four times the hidden size where 0; heads: of 64 units where 0; ranks: see `RWKV7Cell`, of w, a,
    g and n."""
    H, rank = hidden_size, {"w": decay_rank, "a": rate_rank, "g": gate_rank, "n": value_rank}
    cells: list[Cell] = []
    for n in range(layers):
        last = n == layers - 1
        channels: Cell = ResidualCell(NormedCell(RWKV7ChannelCell(H, inner or 4 * H), layer=True))
        channels = NormedCell(channels, layer=True, after=True) if last else channels
        time = RWKV7TimeCell(H, first=n == 0, heads=heads or None, rank=rank)
        cells += [time, PassingCell(channels, last=last)]
    return cells


def gla_stack(
    hidden_size: int,
    layers: int,
    *,
    inner: int = 0,
    heads: int = 0,
    key_size: int = 0,
    value_size: int = 0,
    rank: int = 16,
) -> list[Cell]:
    """Return GLA (Yang et al. 2024, section 4.4): linear attention and gated units, two cells a layer. inner: gated
    units, 8/3 of the hidden size rounded up to a multiple of 256 where 0; heads, key_size, value_size: see
    `LinearAttentionCell`, with as many units as the hidden size has where 0; rank: of the decay."""
    options = {"decay": "key", "rank": rank}
    return _linear_attention(hidden_size, layers, inner, heads, key_size, value_size, options)


def gated_delta_net_stack(
    hidden_size: int,
    layers: int,
    *,
    inner: int = 0,
    heads: int = 0,
    key_size: int = 0,
    value_size: int = 0,
    window: int = 4,
) -> list[Cell]:
    """Return gated DeltaNet (Yang et al. 2025, section 3.4), with the sizes of `gla_stack`; window: of the short
    convolution."""
    options = {"decay": "head", "delta": True, "window": window}
    return _linear_attention(hidden_size, layers, inner, heads, key_size, value_size, options)


def _linear_attention(
    H: int, layers: int, inner: int, heads: int, key_size: int, value_size: int, options: dict[str, Any]
) -> list[Cell]:
    heads = heads or max(1, H // 64)
    units = heads * value_size or H
    inner = inner or 256 * -(-8 * H // (3 * 256))
    block = partial(NormedCell, epsilon=_EPSILON)
    cells: list[Cell] = []
    for _ in range(layers):
        mixing = LinearAttentionCell(
            H, units, heads=heads, key_size=key_size or None, output_size=H, epsilon=_EPSILON, **options
        )
        cells += [ResidualCell(block(mixing)), ResidualCell(block(GatedUnitsCell(H, inner)))]
    return [*cells[:-1], block(cells[-1], after=True)]


_EPSILON = 1e-6
"""The epsilon of all norms of these two stacks, as published."""

STACKS_BY_NAME: dict[str, Callable[..., list[Cell]]] = {
    "mamba": mamba_stack,
    "rwkv7": rwkv7_stack,
    "gla": gla_stack,
    "gated_delta_net": gated_delta_net_stack,
}
"""Functions of (hidden_size, layers) and of sizes by name; the input has hidden_size numbers, and so has the output."""
