"""Forecast of a scan's memory, from its plan alone: nothing is compiled or run.

`scan_phases` follows `Scan.forward` and `Scan.backward` allocation by allocation; tests compare it with the
`Workspace` of real batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from nmt.rnn import tuning
from nmt.rnn.arrays.array_names import ArrayKind
from nmt.rnn.arrays.workspace import LINE_BYTES
from nmt.rnn.compiler.plan import Pass
from nmt.rnn.compiler.program import Place, PlaceKind, Product
from nmt.rnn.device import Executable
from nmt.rnn.kernels.loops.row_writer import weight_key
from nmt.rnn.kernels.products.packing import packed_size
from nmt.rnn.rows import Rows, steps_of
from nmt.rnn.scan.scan import Scan

STATES, KEPT, MASKS = "states", "kept for the backward pass", "dropout masks"
CONSTANTS, CARRIED, BLOCKS = "constant over time", "gradients of activations", "blocks of time"


def piece_bytes(dtype: np.dtype, *shape: int) -> int:
    """Return the bytes a `Workspace` uses for an array: whole cache lines."""
    size = int(np.prod(shape)) * dtype.itemsize
    return -(-size // LINE_BYTES) * LINE_BYTES


@dataclass
class PassMemory:
    """One pass: bytes that stay in use until the end of the update, by purpose, and bytes of its blocks of time, which
    it frees."""

    kept: Counter[str] = field(default_factory=Counter)
    block: int = 0


def scan_phases(scan: Scan, T: int, B: int, S: int = 1) -> tuple[list[PassMemory], list[PassMemory]]:
    """Return the memory of one run and its backward pass in training: T steps, B rows, S source positions."""
    compiled, dtype = scan.compiled(training=True), scan.dtype
    plan = compiled.step.plan
    block_rows = scan.device.block_rows
    forward, backward = _executable_phases(compiled.step, dtype, T, B, S, (KEPT, CARRIED), block_rows)
    for mask in plan.trace.masks:
        shape = (B, mask.width) if mask.variational else (T, B, mask.width)
        forward.kept[MASKS] += piece_bytes(dtype, *shape)
    for name, width in scan.states.items():
        forward.kept[STATES] += piece_bytes(dtype, 2 if name in plan.slots else T + 1, B, width)
        backward.kept[CARRIED] += piece_bytes(dtype, 2, B, width)
    backward.kept[CARRIED] += sum(_bytes(place, dtype, 1, B, S) for place in plan.d_captured.values())
    if compiled.constant is None:
        return [forward], [backward]
    first, last = _executable_phases(compiled.constant, dtype, 1, B, S, (CONSTANTS, CONSTANTS), block_rows)
    return [first, forward], [backward, last]


def peak_bytes(phases: Iterable[PassMemory]) -> Counter[str]:
    """Return the peak bytes by purpose of passes one after another.

    Blocks of time count with what they need at the worst moment beyond what is kept at the end anyway.
    """
    kept: Counter[str] = Counter()
    most = 0
    for phase in phases:
        kept += phase.kept
        most = max(most, kept.total() + phase.block)
    return kept + Counter({BLOCKS: most - kept.total()})


def packed_bytes(scan: Scan) -> int:
    """Return the bytes of packed weights that training keeps for one set of parameters."""
    compiled, shapes = scan.compiled(training=True), scan.params
    keys = set()
    for executable in (compiled.step, compiled.constant):
        if executable is None:
            continue
        for one in filter(None, (executable.plan.forward, executable.plan.backward)):
            keys |= {weight_key(step) for step in _products(one)}
    total = 0
    for name, _, rows, transposed in keys:
        columns = shapes[name].shape[1]
        K, N = (columns, rows) if transposed else (rows, columns)
        total += packed_size(K, N, scan.packed) * scan.packed.itemsize
    return total


def _products(one: Pass) -> Iterable[Product]:
    for program in one.programs.values():
        yield from (step for step in program.steps if isinstance(step, Product))


def _executable_phases(
    executable: Executable, dtype: np.dtype, T: int, B: int, S: int, purposes: tuple[str, str], block_rows: int | None
) -> tuple[PassMemory, PassMemory]:
    """Return the memory of `Executable.forward` and `backward`."""
    plan = executable.plan
    whole = np.full(B, T, np.int64)
    rows = Rows(T, B, S, whole, whole, whole, np.array([0, B]), reverse=False, block_rows=block_rows)
    given = {*plan.trace.inputs}
    phases = PassMemory(), PassMemory()
    for phase, one, purpose in zip(phases, (plan.forward, plan.backward), purposes, strict=True):
        if one is None:
            continue
        rows.block_multiple = tuning.CHECKPOINT_STEPS if one.again else 1
        for name, place in one.arrays.items():
            if place.kind is PlaceKind.BLOCK:
                phase.block += _bytes(place, dtype, rows.block_steps, B, S)
            elif name not in given:
                phase.kept[purpose] += _bytes(place, dtype, steps_of(place, T), B, S)
        scratch = executable.scratch(rows, backward=one is plan.backward)
        phase.block += sum(piece_bytes(dtype, *shape) for shape in scratch)
        given |= {*one.arrays, *(ArrayKind.GRADIENT.of(name) for name in plan.outputs)}
    return phases


def _bytes(place: Place, dtype: np.dtype, T: int, B: int, S: int) -> int:
    return piece_bytes(dtype, T, S if place.source_axis else 1, B, 1 if place.width is None else place.width)
