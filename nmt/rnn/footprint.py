"""How much memory a scan takes, from its plan alone: nothing is compiled or run.

`scan_bytes` follows `Scan.forward` and `Scan.backward` piece by piece: what they take from `allocate` is what is
counted here, tested against the `Workspace` of real batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from nmt.rnn.compiler.plan import Pass
from nmt.rnn.compiler.program import Place, Product
from nmt.rnn.device import Executable
from nmt.rnn.kernels.products import packed_size
from nmt.rnn.kernels.row_writer import weight_key
from nmt.rnn.kernels.run_cpu import Rows
from nmt.rnn.scan import PIECE_BYTES, Scan

STATES, KEPT, MASKS = "states", "kept for the way back", "dropout masks"
CONSTANTS, CARRIED, BLOCKS = "constant over time", "gradients of activations", "blocks of time"


def piece_bytes(dtype: np.dtype, *shape: int) -> int:
    """Bytes a `Workspace` hands out for an array: whole cache lines."""
    size = int(np.prod(shape)) * dtype.itemsize
    return -(-size // PIECE_BYTES) * PIECE_BYTES


def scan_bytes(scan: Scan, T: int, B: int, S: int = 1) -> Counter[str]:
    """Bytes by purpose of one run and its way back in training: T steps, B rows, S source positions."""
    compiled, dtype = scan.compiled(training=True), scan.dtype
    plan = compiled.step.plan
    sizes: Counter[str] = Counter()
    for mask in plan.trace.masks:
        shape = (B, mask.width) if mask.variational else (T, B, mask.width)
        sizes[MASKS] += piece_bytes(dtype, *shape)
    for width in scan.states.values():
        sizes[STATES] += piece_bytes(dtype, T + 1, B, width)
        sizes[CARRIED] += piece_bytes(dtype, 2, B, width)
    sizes[CARRIED] += sum(_bytes(place, dtype, 1, B, S) for place in plan.d_captured.values())
    block_rows = scan.device.block_rows
    sizes += _executable_bytes(compiled.step, dtype, T, B, S, block_rows)
    if compiled.constant is not None:
        sizes[CONSTANTS] += _executable_bytes(compiled.constant, dtype, 1, B, S, block_rows).total()
    return sizes


def packed_bytes(scan: Scan) -> int:
    """Bytes of the packed weights that training with one set of parameters keeps."""
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
        total += packed_size(K, N, scan.dtype) * scan.dtype.itemsize
    return total


def _products(one: Pass) -> Iterable[Product]:
    for program in (one.before, one.loop, one.after):
        yield from (step for step in program.steps if isinstance(step, Product))


def _executable_bytes(
    executable: Executable, dtype: np.dtype, T: int, B: int, S: int, block_rows: int | None
) -> Counter[str]:
    """What `Executable.forward` and `backward` take."""
    plan = executable.plan
    whole = np.full(B, T, np.int64)
    rows = Rows(T, B, S, whole, whole, whole, np.array([0, B]), reverse=False, block_rows=block_rows)
    given = {*plan.trace.inputs}
    sizes: Counter[str] = Counter()
    for one, purpose in ((plan.forward, KEPT), (plan.backward, CARRIED)):
        if one is None:
            continue
        for name, place in one.arrays.items():
            if name not in given:
                is_block = place.kind == "block"
                steps = rows.block_steps if is_block else T
                sizes[BLOCKS if is_block else purpose] += _bytes(place, dtype, steps, B, S)
        scratch = executable.scratch(rows, backward=one is plan.backward)
        sizes[BLOCKS] += sum(piece_bytes(dtype, *shape) for shape in scratch)
        given |= {*one.arrays, *(f"d_{name}" for name in plan.outputs)}
    return sizes


def _bytes(place: Place, dtype: np.dtype, T: int, B: int, S: int) -> int:
    return piece_bytes(dtype, T, S if place.source_axis else 1, B, 1 if place.width is None else place.width)
