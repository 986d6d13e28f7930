"""Running an LSTM or GRU over time by one launch per direction, if the plan is that cell and the GPU can hold it.

A plan is recognised by the structure of its traced step: that of `LSTMCell` or of `GRUCell` with the reset after the
product, both with biases, alone or with dropout on its input. The products outside the time loop and the dropout run
around the launch, as in `run_cuda`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from nmt.rnn.arrays.array_names import ArrayKind
from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.cell import Cell
from nmt.rnn.cells import DropoutCell, GRUCell, LSTMCell
from nmt.rnn.compiler.identity import computed
from nmt.rnn.compiler.plan import Plan
from nmt.rnn.compiler.trace import Trace, trace
from nmt.rnn.graph import topological
from nmt.rnn.kernels.cuda.blas import Matrix
from nmt.rnn.kernels.cuda.gpu_base import GPUBase
from nmt.rnn.kernels.cuda.matrices import Matrices, taking_part
from nmt.rnn.kernels.cuda.persistent.layer import PersistentLayer, plan_layer
from nmt.rnn.kernels.cuda.rows import row_operations
from nmt.rnn.kernels.memory.arrays import identity
from nmt.rnn.rows import Rows

Arrays = dict[str, Array]
TAPE = "persistent run"
"""The name under which a forward run keeps what its backward run needs."""
SUMS = "persistent sums"
"""The name under which a backward run keeps the operands of the weights' gradients."""


_CELLS: dict[str, Callable[[int, int], Cell]] = {"lstm": LSTMCell, "gru": GRUCell}


def recognise(plan: Plan) -> str | None:
    """Return `lstm` or `gru` if the plan's step is that of the cell, with dropout on its input or without, else
    None."""
    found = plan.trace
    if set(found.inputs) != {"x"} or "h" not in found.states or len(found.masks) > 1:
        return None
    if plan.backward is not None and "y" not in plan.receives:
        return None
    D, H = found.inputs["x"].width or 0, found.states["h"].width or 0
    dropped = tuple(mask.variational for mask in found.masks)
    return next((name for name in _CELLS if _structure(found) == _structure_of(name, D, H, dropped)), None)


@lru_cache(maxsize=64)
def _structure_of(name: str, D: int, H: int, dropped: tuple[bool, ...]) -> tuple[Any, ...]:
    cell = _CELLS[name](D, H)
    for variational in dropped:
        cell = DropoutCell(cell, 0.5, variational)  # the rate is in the mask alone
    return _structure(trace(cell, training=True))


def _structure(step: Trace) -> tuple[Any, ...]:
    """Return everything that a step computes, and which values are outputs and states, as a comparable value."""
    results = {**step.outputs, **{f"new {k}": v for k, v in step.new.items()}}
    return computed(topological(results.values())), tuple((name, v.id) for name, v in results.items())


class PersistentRun:
    """One recurrent layer on a GPU."""

    def __init__(self, device: GPUBase, cell: str, plan: Plan, in_bfloat16: bool) -> None:
        self.device, self.cell, self.in_bfloat16 = device, cell, in_bfloat16
        self.inputs, self.hidden = plan.trace.inputs["x"].width or 0, plan.trace.states["h"].width or 0
        self.wants_inputs, self.training = "x" in plan.d_inputs, plan.backward is not None
        self.states = list(plan.trace.states)
        self.mask = plan.trace.masks[0].array if plan.trace.masks else None
        self.dtype = np.dtype(np.float32)

    def layer(self, rows: Rows) -> PersistentLayer | None:
        """Return how the GPU can run these rows; None if it cannot."""
        if not rows.B or rows.T < 2:
            return None
        kind: Any = self.cell
        options = {"exact": not self.in_bfloat16, "training": self.training}
        return plan_layer(self.device.runtime, kind, self.hidden, rows.B, **options)

    # ------------------------------------------------------------ forward

    def forward(self, layer: PersistentLayer, arrays: Arrays, weights: Weights, rows: Rows) -> None:
        """Fill the stacks of states; keep the rest for the backward pass."""
        index, xp = self.device.index, self.device.xp
        T, B, H = rows.T, rows.B, self.hidden
        matrices = Matrices(self.device, self.dtype, self.in_bfloat16, weights)
        a = xp.empty((T, B, weights["b"].shape[0]), self.dtype)
        key = ("W_x", 0, self.inputs, False)
        taking, x = taking_part(self.device, rows, "steps", rows.lengths, 0, T), arrays["x"]
        if self.mask is not None:
            x = x * arrays[self.mask]
        matrices.multiply(Matrix.whole(x), key, Matrix.whole(a), taking)
        a += weights["b"]
        stacks = {name: arrays[ArrayKind.STATE.of(name)] for name in self.states}
        first = index((rows.lengths * B if rows.reverse else 0) + identity(B))
        states = xp.empty((len(stacks), B, H), self.dtype)
        for stack, state in zip(stacks.values(), states, strict=True):
            row_operations.take_rows(self.device.runtime, stack.reshape(-1, H), first, state)
        W_h, b_h = weights["W_h"], weights["b_h"] if self.cell == "gru" else None
        y = stacks["h"][:T] if rows.reverse else stacks["h"][1:]
        run = layer.forward(W_h, a, index(rows.lengths), states, y, b_h=b_h, reverse=rows.reverse)
        for name, last in zip(stacks, run.last, strict=True):
            # The last h is among y already, except of a row without steps.
            if name != "h" or not rows.lengths.all():
                ends = index((0 if rows.reverse else rows.lengths * B) + identity(B))
                matrices.put_rows(last, ends, Matrix.whole(stacks[name]))
        arrays[TAPE] = (layer, run, states, matrices, taking, x)

    # ------------------------------------------------------------ backward

    def backward(self, arrays: Arrays, weights: Weights, rows: Rows) -> None:
        """Compute gradients of input and initial states; `add_gradients` may follow."""
        layer, run, states, matrices, taking, x = arrays.pop(TAPE)
        d_last = self.device.xp.stack([arrays[ArrayKind.STATE_GRADIENT.of(name)][0] for name in self.states])
        lengths = self.device.index(rows.lengths)
        found = layer.backward(weights["W_h"], run, lengths, states, arrays["d_y"], d_last, reverse=rows.reverse)
        for name, first in zip(self.states, found.first, strict=True):
            arrays[ArrayKind.STATE_GRADIENT.of(name)][...] = first  # into both slots, since either may be read
        d_a, d_product = Matrix.whole(found.d_a), Matrix.whole(found.d_product)
        of_input = d_a if found.d_inner is not None else d_product  # an LSTM's are the same numbers, rounded already
        arrays[SUMS] = x, d_a, of_input, Matrix.whole(run.before), d_product, found.d_inner, matrices, taking
        if self.wants_inputs:
            arrays["d_x"] = self.device.xp.empty((rows.T, rows.B, self.inputs), self.dtype)
            matrices.multiply(of_input, ("W_x", 0, self.inputs, True), Matrix.whole(arrays["d_x"]), taking)
            if self.mask is not None:
                arrays["d_x"] *= arrays[self.mask]
            self.device.clear_ended(arrays["d_x"], rows.lengths, 1)

    def add_gradients(self, arrays: Arrays, gradients: Arrays) -> None:
        """Add to the gradients of the parameters, after `backward`."""
        x, d_a, of_input, before, d_product, d_inner, matrices, taking = arrays[SUMS]
        with matrices.keeping_factors():
            if "W_x" in gradients:
                matrices.add_outer(Matrix.whole(x), of_input, taking, Matrix.whole(gradients["W_x"]))
            if "W_h" in gradients:
                matrices.add_outer(before, d_product, taking, Matrix.whole(gradients["W_h"]))
            if "b" in gradients:
                matrices.add_sum(d_a if self.in_bfloat16 else of_input, taking, gradients["b"])
            if "b_h" in gradients:
                shared = len(gradients["b_h"]) - self.hidden  # r and z; for n the gradient after the reset
                matrices.add_sum(d_a.columns(0, shared), taking, gradients["b_h"][:shared])
                matrices.add_sum(Matrix.whole(d_inner), taking, gradients["b_h"][shared:])
