"""Tiles: how a layer is divided among blocks and warps, and the choice of a division."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Tile", "choose_tile", "example_tiles"]

Capability = tuple[int, int]

WARP = 32
REGISTERS = 65536  # of a multiprocessor
OTHER_REGISTERS = 36  # per thread, for addresses and a step's own values; observed in compiled code
STATIC_SHARED = 48 * 1024  # bytes of shared memory that a block may use by default


@dataclass(frozen=True)
class Tile:
    """A block computes `units` hidden units of `columns` sentences; its `warps` divide the inner axis of the product.

    hidden: H. gates: G of the cell. backward: the product is d_a [B, G*H] @ W_h^T, else h [B, H] @ W_h. exact: products
    as three of tensor-float-32 parts, about 21 bits of each factor; else of bfloat16. The length of the inner axis must
    be warps * loads * 32 (16 with exact), and the rows of weights must be a multiple of sixteen.
    """

    hidden: int
    gates: int
    backward: bool
    units: int
    columns: int
    warps: int
    exact: bool

    @property
    def inner(self) -> int:
        """Return the product's inner size."""
        return self.hidden * (self.gates if self.backward else 1)

    @property
    def rows(self) -> int:
        """Return the number of rows of the transposed weights in a block."""
        return self.units * (1 if self.backward else self.gates)

    @property
    def run(self) -> int:
        """Return the number of adjacent elements of the inner axis in a thread's load of 16 bytes."""
        return 4 if self.exact else 8

    @property
    def loads(self) -> int:
        """Return the number of such loads per thread and column; four threads share a column."""
        return self.inner // (self.warps * 4 * self.run)

    @property
    def share(self) -> int:
        """Return the length of a warp's part of the inner axis."""
        return self.loads * 4 * self.run

    @property
    def row_tiles(self) -> int:
        """Return the number of row tiles of sixteen."""
        return self.rows // 16

    @property
    def column_tiles(self) -> int:
        """Return the number of column tiles of eight."""
        return self.columns // 8

    @property
    def weight_words(self) -> int:
        """Return the words of weights in a thread's registers."""
        return self.row_tiles * self.loads * 8

    @property
    def state_words(self) -> int:
        """Return the words of states that a thread loads in a step."""
        return self.column_tiles * self.loads * 4

    @property
    def sums(self) -> int:
        """Return the number of sums per thread."""
        return self.row_tiles * self.column_tiles * 4

    @property
    def threads(self) -> int:
        """Return the threads of a block."""
        return self.warps * WARP

    @property
    def cells(self) -> int:
        """Return the number of (unit, sentence) pairs per thread; the last may be empty."""
        return -(-self.units * self.columns // self.threads)

    @property
    def blocks(self) -> int:
        """Return the number of blocks that share a sentence's units."""
        return self.hidden // self.units

    def fits(self, capability: Capability) -> bool:
        """Return whether registers and shared memory suffice, by an estimate that the tests check on examples."""
        registers = self.weight_words + self.state_words + self.sums + self.cells * (self.gates + 4) + OTHER_REGISTERS
        if capability < (9, 0):
            # A tensor core's first operand uses every other group of four registers there and wastes some of the rest:
            # in code compiled for 8.0, layers that fit by the sum alone spill their weights.
            registers += self.weight_words
            if self.cells > 1:  # every address of a second cell takes a register, too
                return False
        # A multiprocessor allocates registers for four warps at a time.
        allowed = min(255, REGISTERS // (-(-self.warps // 4) * 4 * WARP) // 8 * 8)
        if allowed < 255 and self.row_tiles > 1:  # with the last register taken, such code spilled 112 bytes
            allowed -= 8
        return registers <= allowed and self.sums * self.threads * 4 <= STATIC_SHARED

    def slices(self, batch: int) -> int:
        """Return the number of groups of `columns` sentences."""
        return -(-batch // self.columns)

    def together(self, multiprocessors: int) -> int:
        """Return the number of groups in one launch, with one block per multiprocessor."""
        return max(1, multiprocessors // self.blocks)

    def cycles(self, batch: int, multiprocessors: int) -> float:
        """Return a step's estimated time: waiting, loading states, multiplying, and adding the warps' sums."""
        rounds = -(-self.slices(batch) // self.together(multiprocessors))
        loading = self.columns * self.inner * (4 if self.exact else 2) / 64
        instructions = self.row_tiles * self.column_tiles * self.loads * 2 * (3 if self.exact else 1)
        adding = self.cells * self.warps * (1 if self.backward else self.gates) * 4
        turns = -(-self.warps // 4)  # of the warps on a scheduler; there are four
        return rounds * (2000 + loading + instructions * 16 * turns + adding)


@lru_cache(maxsize=1024)
def choose_tile(
    hidden: int,
    gates: int,
    batch: int,
    multiprocessors: int,
    capability: Capability,
    *,
    backward: bool,
    exact: bool,
) -> Tile | None:
    """Return the division with the shortest estimated step, or None if no division fits the GPU.

    The estimate's constants are published latencies and rates, not measured here.
    """
    tiles = _tiles(hidden, gates, backward, exact)
    fitting = [tile for tile in tiles if tile.fits(capability) and tile.blocks <= multiprocessors]
    return min(fitting, key=lambda tile: (tile.cycles(batch, multiprocessors), tile.threads), default=None)


def _tiles(hidden: int, gates: int, backward: bool, exact: bool) -> Iterator[Tile]:
    for units in (8, 16, 32, 48, 64):
        if hidden % units or units * (1 if backward else gates) % 16:
            continue
        for columns in range(8, 72, 8):
            for warps in range(1, 17):
                tile = Tile(hidden, gates, backward, units, columns, warps, exact)
                if tile.share * warps == tile.inner:
                    yield tile


EXAMPLE_GPUS: dict[Capability, int] = {(8, 0): 108, (9, 0): 132}
"""The number of multiprocessors of an A100 and an H100."""


def example_tiles(gates: int, capability: Capability) -> Iterator[tuple[str, Tile]]:
    """Yield the tiles chosen on such a GPU for some hidden sizes and batches, with names."""
    for hidden, batch, exact in ((512, 128, False), (800, 20, False), (256, 64, True)):
        for backward in (False, True):
            multiprocessors = EXAMPLE_GPUS[capability]
            tile = choose_tile(hidden, gates, batch, multiprocessors, capability, backward=backward, exact=exact)
            if tile is not None:
                kind = f"{'backward' if backward else 'forward'} {'float32' if exact else 'bfloat16'}"
                grid = f"{tile.blocks}x{tile.slices(batch)} blocks of {tile.units}x{tile.columns}"
                yield f"{kind} H {hidden} B {batch}: {grid}", tile
