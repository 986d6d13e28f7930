"""How much memory a scan takes, from its plan alone: nothing is compiled or run.

`scan_bytes` follows `Scan.forward` and `Scan.backward` piece by piece; what they take from `allocate` and what is
counted here is the same, tested against the `Workspace` of real batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from nmt.rnn.compiler.plan import Pass, Plan
from nmt.rnn.compiler.program import Place, Product
from nmt.rnn.kernels.emit_cpu import weight_key
from nmt.rnn.kernels.products import packed_size
from nmt.rnn.scan import PIECE_BYTES, Scan

STATES, KEPT, MASKS = "states", "kept for the way back", "dropout masks"
CONSTANTS, CARRIED = "constant over time", "gradients of activations"


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
    forward, backward = _plan_bytes(plan, dtype, T, B, S)
    sizes[KEPT] += forward
    sizes[CARRIED] += backward + sum(_bytes(place, dtype, 1, B, S) for place in plan.d_captured.values())
    if compiled.constant is not None:
        sizes[CONSTANTS] += sum(_plan_bytes(compiled.constant.plan, dtype, 1, B, S))
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


def _plan_bytes(plan: Plan, dtype: np.dtype, T: int, B: int, S: int) -> tuple[int, int]:
    """Bytes of the arrays that the forward and the backward pass fill."""
    forward, backward = plan.forward.arrays, plan.backward.arrays if plan.backward else {}
    given = {*forward, *plan.trace.inputs, *(f"d_{name}" for name in plan.outputs)}
    return (
        sum(_bytes(place, dtype, T, B, S) for place in forward.values()),
        sum(_bytes(place, dtype, T, B, S) for name, place in backward.items() if name not in given),
    )


def _bytes(place: Place, dtype: np.dtype, T: int, B: int, S: int) -> int:
    return piece_bytes(dtype, T, S if place.source_axis else 1, B, 1 if place.width is None else place.width)
