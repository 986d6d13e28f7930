"""Running an LSTM or GRU over time by one launch per direction, if the plan is that cell and the GPU can hold it.

A plan is recognised by the structure of its traced step: that of `LSTMCell` or of `GRUCell` with the reset after the
product, both with biases, alone or with dropout on its input. The products outside the time loop and the dropout run
around the launch, as in `run_cuda`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np

from nmt.rnn.arrays.array_names import ArrayKind
from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.arrays.workspace import Allocate, Fresh
from nmt.rnn.cell import Cell
from nmt.rnn.cells import DropoutCell, GRUCell, LSTMCell
from nmt.rnn.compiler.identity import computed
from nmt.rnn.compiler.plan import Plan
from nmt.rnn.compiler.trace import Trace, trace
from nmt.rnn.graph import topological
from nmt.rnn.kernels.cuda.blas import Matrix
from nmt.rnn.kernels.cuda.gpu_base import GPUBase
from nmt.rnn.kernels.cuda.matrices import Matrices
from nmt.rnn.kernels.cuda.persistent.layer import PersistentLayer, plan_layer
from nmt.rnn.kernels.cuda.row_numbers import active_rows, row_numbers, sum_memory, taking_part
from nmt.rnn.kernels.cuda.rows import row_kernels
from nmt.rnn.rows import Rows

Arrays = dict[str, Array]
TAPE = "persistent run"
"""The name under which a forward run keeps what its backward run needs."""
SUMS = "persistent sums"
"""The name under which a backward run keeps the operands of the weights' gradients."""


_numbers = count()
_CELLS: dict[str, Callable[[int, int], Cell]] = {"lstm": LSTMCell, "gru": GRUCell}


def recognise(plan: Plan) -> str | None:
    """Return `lstm` or `gru` if the plan's step is that of the cell, with dropout on its input or not, else None."""
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
        self.number = next(_numbers)
        self.read_whole = ["W_h", "b", *(["b_h"] if cell == "gru" else [])]
        self.dtype = np.dtype(np.float32)

    def layer(self, rows: Rows) -> PersistentLayer | None:
        """Return how the GPU can run these rows; None if it cannot."""
        if not rows.B or rows.T < 2:
            return None
        kind, exact, training = self.cell, not self.in_bfloat16, self.training
        return plan_layer(self.device.runtime, kind, self.hidden, rows.B, exact=exact, training=training)

    # ------------------------------------------------------------ forward

    def forward(self, layer: PersistentLayer, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate) -> None:
        """Fill the stacks of states; keep the rest for the backward pass."""
        row_numbers(self.device, rows, allocate)  # these last as long as `rows`
        with nullcontext() if self.training else allocate.temporary():
            call = _Call(self, weights, rows, allocate)
            x, mask = arrays["x"], arrays[self.mask] if self.mask else None
            given, x = x, x if mask is None else call.empty(x.shape, self.dtype)
            a = call.empty((rows.T, rows.B, weights["b"].shape[0]), self.dtype)
            stacks = [arrays[ArrayKind.STATE.of(name)] for name in self.states]
            states = call.empty((len(stacks), rows.B, self.hidden), self.dtype)
            y = stacks[self.states.index("h")][: rows.T] if rows.reverse else stacks[self.states.index("h")][1:]
            b_h = weights["b_h"] if self.cell == "gru" else None
            given_to_loop = weights["W_h"], a, call.numbers.lengths, states, y
            how: dict[str, Any] = {"reverse": rows.reverse, "allocate": call.empty}
            run, launch_loop = layer.forward(*given_to_loop, b_h=b_h, **how)
            # The last h is among y already, except of a row without steps.
            missing = [name != "h" or not rows.lengths.all() for name in self.states]
            taking = None if call.numbers.dense else taking_part(self.device, rows, "steps", rows.lengths, 0, rows.T)

            def launch() -> None:
                if mask is not None:
                    call.each(row_kernels.times_repeated, x, mask, given)
                call.matrices.multiply(Matrix.whole(x), ("W_x", 0, self.inputs, False), Matrix.whole(a), taking)
                call.each(row_kernels.add_repeated, a, weights["b"])
                for stack, state in zip(stacks, states, strict=True):
                    self.device.slots_of(stack, call.numbers.lengths, (0, int(rows.reverse), rows.T + 1), state)
                launch_loop()
                for stack, last, is_missing in zip(stacks, run.last, missing, strict=True):
                    if is_missing:
                        call.put_slots(stack, last, at_end=not rows.reverse)

            memory = [given, *([] if mask is None else [mask]), *stacks]
            call.run("forward", tuple(missing), memory, launch)
        if self.training:
            arrays[TAPE] = layer, run, states, x

    # ------------------------------------------------------------ backward

    def backward(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate, gradients: Arrays) -> None:
        """Compute gradients of input and initial states, and add to those of parameters; if none, `add` may follow."""
        layer, run, states, x = arrays.pop(TAPE)
        if self.wants_inputs and "d_x" not in arrays:
            arrays["d_x"] = allocate((rows.T, rows.B, self.inputs), self.dtype)
        with allocate.temporary() if gradients else nullcontext():
            call = _Call(self, weights, rows, allocate)
            carries = [arrays[ArrayKind.STATE_GRADIENT.of(name)] for name in self.states]
            d_last = call.empty((len(carries), rows.B, self.hidden), self.dtype)
            given_to_loop = weights["W_h"], run, call.numbers.lengths, states, arrays["d_y"], d_last
            found, launch_loop = layer.backward(*given_to_loop, reverse=rows.reverse, allocate=call.empty)
            active = sum_memory(rows, call.numbers, rows.T, call.empty)
            taking = active if call.numbers.dense else taking_part(self.device, rows, "steps", rows.lengths, 0, rows.T)
            d_a, d_product = Matrix.whole(found.d_a), Matrix.whole(found.d_product)
            # An LSTM's are the same numbers, rounded already.
            of_input = d_a if found.d_inner is not None else d_product
            sums = x, d_a, of_input, Matrix.whole(run.before), d_product, found.d_inner, call.matrices, taking

            def launch() -> None:
                for carry, last in zip(carries, d_last, strict=True):
                    call.each(row_kernels.repeat, last, carry[0])
                launch_loop()
                for carry, first in zip(carries, found.first, strict=True):
                    call.each(row_kernels.repeat, carry, first)  # into both slots, since either may be read
                if self.wants_inputs:
                    self._input_gradient(call, arrays, of_input, None if call.numbers.dense else taking)
                if active is not None:
                    active_rows(self.device, rows, call.numbers, active, 0, rows.T)

            memory = [array for array in arrays.values() if not isinstance(array, tuple)]
            memory += [states, x, run.gates, run.inner, run.before, run.y]
            call.run("backward", (), memory, launch)
            if gradients:  # another recording, since callers often have new memory for gradients alone
                memory += gradients.values()
                call.run("sums", tuple(gradients), memory, lambda: self.add(sums, gradients))
        if not gradients:
            arrays[SUMS] = sums

    def _input_gradient(self, call: _Call, arrays: Arrays, d: Matrix, taking: Array | None) -> None:
        """Compute the gradient of x, zero where a row has ended."""
        d_x = arrays["d_x"]
        call.matrices.multiply(d, ("W_x", 0, self.inputs, True), Matrix.whole(d_x), taking)
        if self.mask is not None:
            call.each(row_kernels.times_repeated, d_x, arrays[self.mask], d_x)
        if not call.rows.whole:
            self.device.clear_from(d_x, call.numbers.lengths)

    def add(self, sums: Any, gradients: Arrays) -> None:
        """Add to the gradients of the parameters, after `backward`, which keeps `sums` as arrays[SUMS]."""
        x, d_a, of_input, before, d_product, d_inner, matrices, taking = sums
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


class _Call:
    """The memory of one pass over one batch, and its launches: a recording where sizes and memory come again."""

    def __init__(self, owner: PersistentRun, weights: Weights, rows: Rows, allocate: Allocate) -> None:
        self.owner, self.device, self.rows, self.weights = owner, owner.device, rows, weights
        self.taken: list[Array] = []
        self._allocate = self.device.xp.empty if isinstance(allocate, Fresh) else allocate
        self.numbers = row_numbers(self.device, rows, allocate)
        self.matrices = Matrices(self.device, owner.dtype, owner.in_bfloat16, weights)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return memory for the pass."""
        self.taken.append(self._allocate(shape, dtype))
        return self.taken[-1]

    def run(self, what: str, key: tuple[Any, ...], memory: list[Array], launch: Callable[[], None]) -> None:
        """Do what `launch` does to this memory, that of `empty`, and the weights."""
        rows, names = self.rows, self.owner.read_whole
        weights = [self.matrices.weight("W_x"), *(self.weights[name] for name in names)]
        if self.numbers.dense:
            sizes = rows.T, rows.B, rows.reverse, rows.whole
            arrays = [*self.numbers[:3], *memory, *self.taken, *weights]
            self.device.replay((self.owner.number, what, *sizes, *key), arrays, launch)
        else:
            launch()

    def each(self, make: Any, out: Array, given: Array, *more: Array) -> None:
        """Launch a kernel of all numbers of `out` and a repeated array."""
        numbers = out, out.size, given, given.size, *more
        row_kernels.launch(self.device.runtime, make, self.owner.dtype, out.size, *numbers)

    def put_slots(self, stack: Array, rows: Array, *, at_end: bool) -> None:
        """Write rows [B, n] to the slots of a stack after each row's last step, or to the first ones."""
        given = stack, *rows.shape, self.numbers.lengths, int(at_end), rows
        row_kernels.launch(self.device.runtime, row_kernels.put_slots, self.owner.dtype, rows.size, *given)
