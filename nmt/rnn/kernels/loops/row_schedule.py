"""The lines of a time loop that runs each row from its first step to its last before the next row begins.

A loop without products allows it. States with named axes are large: those of one row stay in the cache, those of all
rows would not. A forward pass in training keeps them before every few steps; the backward pass computes those in
between once more, in memory of one row, and goes through them in the opposite order (Chen et al. 2016, Training Deep
Nets with Sublinear Memory Cost, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nmt.rnn import tuning
from nmt.rnn.compiler.program import Nest, PlaceKind, Program, RowWork, memory_read
from nmt.rnn.kernels.memory.active_rows import active_rows, prefix_rows
from nmt.rnn.rows import Rows, TimeBlock


def row_segments(rows: Rows, wide: bool, block: TimeBlock, *, exact: bool = False) -> np.ndarray:
    """Return the runs of rows that take part in a block of a [T, B, n] array, or with `wide` of a [1, S, B, n] array:
    int64 [runs, 2], the first row and the number of rows of each.

    A product may also run over inactive rows within a prefix. A sum over rows must be `exact`: padding might be NaN or
    infinite, and additional rows would move the others to different blocks of the sum.
    """
    if rows.ordered and rows.threads == 1 and not wide:
        exact = False  # the prefixes are the active rows
    key = ("segments", wide, exact, block.low, block.high)
    return rows.derived(key, lambda: _find(rows, wide, block, exact))


def _find(rows: Rows, wide: bool, block: TimeBlock, exact: bool) -> np.ndarray:
    """Compute `row_segments`."""
    steps = rows.S if wide else block.high - block.low
    if rows.whole and not wide:
        return np.array([[0, steps * rows.B]], np.int64)
    lengths = rows.source_lengths if wide else rows.lengths - block.low
    if not wide and (block.low or block.high < rows.T):
        lengths = np.minimum(np.maximum(lengths, 0), steps)
    if exact:
        return np.asarray(active_rows(lengths, steps))
    bounds = np.array([0, len(lengths)], np.int64) if wide else rows.bounds
    return np.asarray(prefix_rows(lengths, bounds, steps))


_ENDED = ["if lengths[n] <= t:", "    continue"]
EVERY = tuning.CHECKPOINT_STEPS
"""Steps from checkpoint to checkpoint."""


@dataclass(frozen=True)
class SlotState:
    """A state without a stack: the variables of its checkpoints, of its memory and of its size."""

    checkpoint: str
    memory: str
    size: str


def steps_of_row(step: list[str], body: list[str], kept: list[SlotState]) -> list[str]:
    """Return the loop of one row `n`: `step` begins a step, `body` is its work.

    kept: states to be kept before the first step, and before every step that has a multiple of EVERY steps to go.
    """
    save = []
    for one in kept:
        target = f"((T - 1 - step) // {EVERY} * B + n) * {one.size}"
        save += _copy(one, f"{one.checkpoint}[{target} + j]", f"{one.memory}[(old * B + n) * {one.size} + j]")
    if save:
        save = [f"if min((T - step) % {EVERY}, step) == 0:", *_indented(save)]
    return ["for step in range(start, stop):", *_indented([*step, *save, *_ENDED, *body])]


def replayed_steps(step: list[str], again: list[str], body: list[str], kept: list[SlotState]) -> list[str]:
    """Return the loop of one row `n` over its steps in the opposite order; a block of time has whole checkpoints.

    again: the work that computes the states after a step from those before it, from slot to slot.
    """
    load, stay = [], []
    for one in kept:
        load += _copy(one, f"{one.memory}[j]", f"{one.checkpoint}[(chunk * B + n) * {one.size} + j]")
        stay += _copy(one, f"{one.memory}[(slot + 1) * {one.size} + j]", f"{one.memory}[slot * {one.size} + j]")
    replay = [f"step = chunk * {EVERY} + count - 1 - slot", *step]
    replay += ["if lengths[n] <= t:", *_indented([*stay, "continue"]), *again]
    back = [f"step = chunk * {EVERY} + place", "slot = count - 1 - place", *step, *_ENDED, *body]
    chunk = [
        f"count = min({EVERY}, T - chunk * {EVERY})",
        *load,
        "for slot in range(count):",
        *_indented(replay),
        "for place in range(count):",
        *_indented(back),
    ]
    return [f"for chunk in range(start // {EVERY}, (stop + {EVERY - 1}) // {EVERY}):", *_indented(chunk)]


def parameters_alone(step: RowWork, program: Program) -> set[int]:
    """Return the ids of the values in scratch of a row that depend on parameters alone: they are the same for all rows
    and steps."""
    found = set[int]()
    for entry in (entry for nest in step.nests for entry in nest.entries):
        if entry.value.axes or entry.add or entry.place.kind not in (PlaceKind.ROW, PlaceKind.LOCAL):
            continue
        reads = (base.id for _, base, _ in memory_read(entry.value.args, program.places))
        if all(i in found or program.places[i].kind is PlaceKind.PARAMETER for i in reads):
            found.add(entry.value.id)
    return found


def parts_of(nests: list[Nest], ids: set[int], *, inside: bool) -> list[Nest]:
    """Return the nests with those of their entries alone whose values have these ids; or with the others."""
    parts = (replace(nest, entries=[e for e in nest.entries if (e.value.id in ids) == inside]) for nest in nests)
    return [nest for nest in parts if nest.entries]


def _copy(one: SlotState, target: str, source: str) -> list[str]:
    return [f"for j in range({one.size}):", f"    {target} = {source}"]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
