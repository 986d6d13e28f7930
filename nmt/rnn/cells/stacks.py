"""Build the stacks of published language models: residual blocks of cells, and a norm after the last one."""

import math
from collections.abc import Callable

from nmt.rnn.cell import Cell
from nmt.rnn.cells.matrix_states.mamba import S6Cell
from nmt.rnn.cells.matrix_states.rwkv7 import PassingCell, RWKV7ChannelCell, RWKV7TimeCell
from nmt.rnn.cells.wrapping.block import BlockCell, NormedCell
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


STACKS_BY_NAME: dict[str, Callable[..., list[Cell]]] = {"mamba": mamba_stack, "rwkv7": rwkv7_stack}
"""Functions of (hidden_size, layers) and of sizes by name; the input has hidden_size numbers, and so has the output."""
