"""Tiles: how a layer is divided among blocks and warps, and the choice of a division."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

Capability = tuple[int, int]

WARP = 32
REGISTERS = 65536  # of a multiprocessor
OTHER_REGISTERS = 36  # per thread, for addresses and a step's own values; observed in compiled code
MOST_GROUPS = 4  # groups of sentences that a block takes turns at
MOST_SHARED_CELLS = 4  # pairs (unit, sentence) a thread, with weights in shared memory: with 6, code spilled 424 bytes
STATIC_SHARED = 48 * 1024  # bytes of shared memory that a block may use by default
_OPTIONAL_SHARED = {(8, 0): 163, (8, 7): 163, (9, 0): 227, (10, 0): 227, (10, 3): 227}  # KiB on request; others 99


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
    in_shared: bool = False

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
        """Return the words of weights that a thread keeps."""
        return self.row_tiles * self.loads * 8

    @property
    def weight_bytes(self) -> int:
        """Return the bytes of shared memory for weights."""
        return self.weight_words * self.threads * 4 if self.in_shared else 0

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

    @property
    def groups(self) -> int:
        """Return the most groups of sentences that a block takes turns at: their states, two a cell at most, lie in
        shared memory behind the sums."""
        room = STATIC_SHARED // 4 - self.sums * self.threads
        return max(1, min(MOST_GROUPS, room // (2 * self.cells * self.threads + 1)))

    @property
    def _states(self) -> int:
        """Return the bytes of the sums and of all groups' states."""
        return 4 * (self.sums * self.threads + self.groups * (2 * self.cells * self.threads + 1))

    def fits(self, capability: Capability) -> bool:
        """Return whether registers and shared memory suffice, by an estimate that the tests check on examples."""
        kept = 0 if self.in_shared else self.weight_words
        states = self.column_tiles * self.loads * 4  # that a thread loads in a step
        registers = kept + states + self.sums + self.cells * (self.gates + 4) + OTHER_REGISTERS
        if capability < (9, 0):
            # A tensor core's first operand uses every other group of four registers there and wastes some of the rest:
            # in code compiled for 8.0, layers that fit by the sum alone spill their weights.
            registers += kept
            if self.cells > 1:  # every address of a second cell takes a register, too
                return False
        if self.in_shared and self.cells > MOST_SHARED_CELLS:
            return False
        # A multiprocessor allocates registers for four warps at a time.
        allowed = min(255, REGISTERS // (-(-self.warps // 4) * 4 * WARP) // 8 * 8)
        if allowed < 255 and self.row_tiles > 1:  # with the last register taken, such code spilled 112 bytes
            allowed -= 8
        optional = (_OPTIONAL_SHARED.get(capability, 99) - 1) * 1024  # less what the GPU keeps for itself
        fixed = self.sums * self.threads * 4
        shared_suffices = fixed <= STATIC_SHARED and (
            not self.in_shared or self._states + self.weight_bytes <= optional
        )
        return registers <= allowed and shared_suffices

    def slices(self, batch: int) -> int:
        """Return the number of groups of `columns` sentences."""
        return -(-batch // self.columns)

    def together(self, multiprocessors: int) -> int:
        """Return the number of groups in one launch, with one block per multiprocessor."""
        return max(1, multiprocessors // self.blocks)

    def turns(self, batch: int, multiprocessors: int) -> int:
        """Return the most groups that a block of a launch takes turns at: one where all groups run at once."""
        return self.groups if self.slices(batch) > self.together(multiprocessors) else 1

    def rounds(self, batch: int, multiprocessors: int) -> int:
        """Return how many groups a block runs in each step."""
        return -(-self.slices(batch) // self.together(multiprocessors))

    def cycles(self, batch: int, multiprocessors: int) -> float:
        """Return a step's estimated time: the states' way between blocks; and in each round waiting, loading states,
        multiplying, adding the warps' sums, the cells.

        The factors are fitted to the times of 150 tiles on an H100 (results/gpu.md), which they meet within 7 % on
        average, 28 % at most; that of weights in shared memory to 106 more (8 % and 32 %), and on the way back of a GRU
        to what 30 layers took on an H200.
        """
        loading = self.columns * self.inner * (4 if self.exact else 2) / 64
        chain = self.loads * 2 * (3 if self.exact else 1)  # instructions that wait for one another
        instructions = self.row_tiles * self.column_tiles * chain * -(-self.warps // 4)  # four warps multiply at once
        adding = self.cells * self.warps * (1 if self.backward else self.gates)
        once = (
            2750
            + (8.5 if self.backward and self.gates == 3 else 6) * self.weight_words * self.in_shared
            + 1.5 * loading
            + 6 * instructions
            + 8 * chain
            + 45 * adding
            + 110 * self.cells * self.gates
        )
        return 1100 + self.rounds(batch, multiprocessors) * once


@lru_cache(maxsize=1024)
def choose_tile(
    hidden: int, gates: int, batch: int, multiprocessors: int, capability: Capability, *, backward: bool, exact: bool
) -> Tile | None:
    """Return the division with the shortest estimated step, or None if no division fits the GPU. Weights in shared
    memory were timed on a GPU of 9.0; on older ones they lie there only where no division has them in registers."""
    fitting = fitting_tiles(hidden, gates, multiprocessors, capability, backward=backward, exact=exact)
    if capability < (9, 0):
        fitting = [tile for tile in fitting if not tile.in_shared] or fitting
    return shortest(fitting, batch, multiprocessors)


def fitting_tiles(
    hidden: int, gates: int, multiprocessors: int, capability: Capability, *, backward: bool, exact: bool
) -> list[Tile]:
    """Return every division of a layer that fits the GPU."""
    found = []
    for units in (8, 16, 32, 48, 64):
        if hidden % units or hidden // units > multiprocessors or units * (1 if backward else gates) % 16:
            continue
        for columns, warps, in_shared in product(range(8, 72, 8), range(1, 17), (False, True)):
            tile = Tile(hidden, gates, backward, units, columns, warps, exact, in_shared)
            if tile.share * warps == tile.inner and tile.fits(capability):
                found.append(tile)
    return found


def shortest(tiles: list[Tile], batch: int, multiprocessors: int) -> Tile | None:
    """Return the division with the shortest estimated step, or None if there is none."""
    return min(tiles, key=lambda tile: (tile.cycles(batch, multiprocessors), tile.threads), default=None)
