"""Are a layer's recurrent weights better in registers or in shared memory of a GPU?

For each cell, hidden size and number of rows: the best division of either kind by the estimate that chooses, compiled
by all processors, its results compared with the other kind's, then microseconds a step forward, and back. Behind them
the kind that the estimate prefers, its cycles, and units, columns, warps and words of weights a thread of both.

Run: python benchmarks/gpu_weights.py [--cells gru lstm] [--hidden 256 ...] [--rows 20 ...] [--steps 60]
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import gpu
import numpy as np

from nmt.rnn.kernels.cuda.machine_code.compile import compile_kernel
from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime
from nmt.rnn.kernels.cuda.persistent.cell_steps import CELLS
from nmt.rnn.kernels.cuda.persistent.layer import PersistentLayer
from nmt.rnn.kernels.cuda.persistent.tiles import Tile, fitting_tiles, shortest
from nmt.rnn.kernels.cuda.persistent.time_loop import backward_kernel, forward_kernel

HIDDEN, ROWS = (256, 384, 512, 640, 800, 1024), (20, 64, 128)
TOLERANCE = {True: 2e-4, False: 2e-2}
"""Of float32 and bfloat16 products: relative difference of the two kinds."""


@dataclass(frozen=True)
class Question:
    """A layer whose divisions are compared."""

    cell: str
    exact: bool
    hidden: int
    rows: int

    @property
    def name(self) -> str:
        """Return its name in the table."""
        return f"{self.cell.upper()} {self.hidden}, {self.rows}{', float32' * self.exact}"

    def best(self, gpu: tuple[int, tuple[int, int]], *, backward: bool, in_shared: bool) -> Tile | None:
        """Return the division of a kind with the shortest estimated step, or None if none fits."""
        tiles = fitting_tiles(self.hidden, CELLS[self.cell], *gpu, backward=backward, exact=self.exact)
        return shortest([tile for tile in tiles if tile.in_shared == in_shared], self.rows, gpu[0])


def compiled(cell: str, tile: Tile, turns: int, capability: tuple[int, int]) -> None:
    """Compile a division into the cache."""
    make: Any = backward_kernel if tile.backward else forward_kernel
    compile_kernel(make(cell, tile, turns), capability)


def times(runtime: Any, question: Question, steps: int) -> list[str]:
    """Return a row: microseconds forward in registers, in shared memory, and what the estimate prefers; then back."""
    machine = runtime.multiprocessors, runtime.capability
    kinds = {
        (backward, in_shared): question.best(machine, backward=backward, in_shared=in_shared)
        for backward in (False, True)
        for in_shared in (False, True)
    }
    fallback = {way: kinds[way, False] or kinds[way, True] for way in (False, True)}
    if None in fallback.values():
        return [question.name, "does not fit"]
    H, N, G = question.hidden, question.rows, CELLS[question.cell]
    rng = np.random.default_rng(0)

    def draw(*size: int) -> Any:
        return runtime.upload(rng.standard_normal(size).astype("f4") / np.float32(H**0.5))

    W, b, a, d_y = draw(H, G * H), draw(3 * H), draw(steps, N, G * H), draw(steps, N, H)
    states, d_last = (draw(2 if question.cell == "lstm" else 1, N, H) for _ in range(2))
    lengths = runtime.upload(np.full(N, steps, np.int64))
    taken: dict[tuple[bool, bool], float] = {}
    results: dict[bool, list[np.ndarray]] = {False: [], True: []}
    for in_shared in (False, True):
        tiles = [kinds[way, in_shared] or fallback[way] for way in (False, True)]
        layer = PersistentLayer(runtime, question.cell, *tiles)  # type: ignore[arg-type]
        run = layer.forward(W, a.copy(), lengths, states, b_h=b)
        back = layer.backward(W, run, lengths, states, d_y, d_last.copy())
        results[in_shared] = [runtime.download(run.y), runtime.download(back.d_a)]
        overwritten, of_last = a.copy(), d_last.copy()
        run = layer.forward(W, overwritten, lengths, states, b_h=b)
        calls = {
            False: lambda layer=layer, a=overwritten: layer.forward(W, a, lengths, states, b_h=b),
            True: lambda layer=layer, run=run, last=of_last: layer.backward(W, run, lengths, states, d_y, last),
        }
        for backward, call in calls.items():
            if kinds[backward, in_shared]:
                taken[backward, in_shared] = gpu.milliseconds(call, runtime.synchronize) * 1e3 / steps
    for one, other in zip(*results.values(), strict=True):
        difference = float(np.linalg.norm(one - other) / np.linalg.norm(other))
        if not difference <= TOLERANCE[question.exact]:
            raise SystemExit(f"{question.name}: the two kinds must agree, they differ by {difference:.1e}")
    row = [question.name]
    for backward in (False, True):
        both = [kinds[backward, in_shared] for in_shared in (False, True)]
        row += [f"{taken[backward, kind]:.2f}" if both[kind] else "does not fit" for kind in (False, True)]
        cycles = [tile.cycles(question.rows, machine[0]) if tile else float("inf") for tile in both]
        row += ["shared" if cycles[1] < cycles[0] else "registers", *(f"{value:.0f}" for value in cycles)]
        row += [repr((t.units, t.columns, t.warps, t.weight_words)) if t else "-" for t in both]
    return row


def main() -> None:
    """Compile all divisions, then print a row for each layer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", choices=list(CELLS), default=["gru", "lstm"])
    parser.add_argument("--hidden", type=int, nargs="+", default=HIDDEN)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    runtime = CupyRuntime()
    machine = runtime.multiprocessors, runtime.capability
    questions = [
        Question(cell, exact, hidden, rows)
        for cell in options.cells
        for exact in (False, True)
        for hidden in options.hidden
        for rows in options.rows
    ]
    wanted = {}
    for question in questions:
        for backward in (False, True):
            for in_shared in (False, True):
                tile = question.best(machine, backward=backward, in_shared=in_shared)
                if tile:
                    turns = tile.turns(question.rows, runtime.multiprocessors)
                    wanted[question.cell, tile, turns, runtime.capability] = tile.weight_words
    longest = sorted(wanted, key=lambda key: -wanted[key])
    with get_context("spawn").Pool(min(16, os.cpu_count() or 1)) as pool:
        pool.starmap(compiled, longest, chunksize=1)
    print(f"{runtime.gpu_name}: microseconds a step of {options.steps}; {len(longest)} kernels compiled", flush=True)
    gpu.TURN_SECONDS, gpu.TURNS = 0.01, 3
    for question in questions:
        print(" | ".join(times(runtime, question, options.steps)), flush=True)


if __name__ == "__main__":
    main()
