"""Run plans on a card: find memory, launch kernels and products in turn, sum gradients.

Nothing here waits for the card. Which rows take part in a step, and with it the size of every launch, is known from
the lengths on the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.rnn.compiler.plan import Pass, PlacedSink, Plan
from nmt.rnn.compiler.program import Place, Product, Program
from nmt.rnn.device import Allocate, Array
from nmt.rnn.kernels.cuda.emit_cuda import CudaModule, RowKernel, emit_cuda
from nmt.rnn.kernels.cuda.matrices import Matrices, Matrix
from nmt.rnn.kernels.row_writer import INDEX, weight_key
from nmt.rnn.kernels.run_cpu import Block, Rows
from nmt.rnn.profile import operation
from nmt.rnn.weights import PAIRS, Weights

if TYPE_CHECKING:
    from nmt.rnn.kernels.cuda.device_cuda import CudaDevice

Arrays = dict[str, Array]


class CudaExecutable:
    """A plan compiled for one dtype; products in bfloat16 where `packed` is pairs of it (see weights.packed_dtype)."""

    def __init__(self, device: CudaDevice, plan: Plan, dtype: np.dtype, packed: np.dtype) -> None:
        self.device, self.plan, self.dtype = device, plan, dtype
        self.in_bfloat16 = packed == PAIRS
        self.forward_module = emit_cuda(plan.forward, dtype, "forward")
        self.backward_module = emit_cuda(plan.backward, dtype, "backward") if plan.backward else None

    def forward(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate) -> None:
        """Fill the forward arrays; see `device.Executable`."""
        run = _Run(self, self.plan.forward, self.forward_module, arrays, weights, rows, allocate)
        for block in rows.blocks(turned=False):
            run.block(block)

    def backward(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate, gradients: Arrays) -> None:
        """Fill the backward arrays and add to the parameters' `gradients`."""
        if self.plan.backward is None or self.backward_module is None:
            raise RuntimeError("a plan for inference has no backward pass")
        run = _Run(self, self.plan.backward, self.backward_module, arrays, weights, rows, allocate, turned=True)
        for block in rows.blocks(turned=True):
            run.block(block)
            for placed in self.plan.sinks:
                if placed.sink.name in gradients:
                    run.add_gradient(placed, gradients[placed.sink.name], block)

    def scratch(self, *, backward: bool) -> list[Place]:
        """Places with memory of one step, or one row, that a pass takes besides its arrays."""
        module = self.backward_module if backward else self.forward_module
        return [place for kernel in (module.kernels if module else ()) for place in kernel.scratch.values()]


class _Run:
    """One pass over one batch."""

    def __init__(
        self,
        executable: CudaExecutable,
        one: Pass,
        module: CudaModule,
        arrays: Arrays,
        weights: Weights,
        rows: Rows,
        allocate: Allocate,
        turned: bool = False,
    ) -> None:
        self.device, self.dtype = executable.device, executable.dtype
        self.runtime = executable.device.runtime
        self.one, self.module = one, module
        self.arrays, self.weights, self.rows, self.allocate, self.turned = arrays, weights, rows, allocate, turned
        self.label = f"{rows.label} gradients" if turned else rows.label
        self.matrices = Matrices(self.device, self.dtype, executable.in_bfloat16, weights)
        index = self.device.index
        self.row_numbers = index(rows.lengths), index(rows.source_lengths), index(rows.owner)
        self.prefix = _prefixes(rows)
        self.scratch: Arrays = {}
        self.local = {name for name, place in one.arrays.items() if place.kind == "block"}
        for name, place in one.arrays.items():
            if name not in arrays:
                arrays[name] = allocate(
                    (rows.block_steps if name in self.local else rows.T, *self._shape(place)), self.dtype
                )
                if self._cleared(place) and name not in self.local:
                    self.device.clear_ended(arrays[name], rows.lengths, 1)

    def _cleared(self, place: Place) -> bool:
        return self.turned and not place.source_axis

    def _shape(self, place: Place) -> tuple[int, ...]:
        """Of one step."""
        source = (self.rows.S,) if place.source_axis else ()
        width = (place.width,) if place.width is not None else ()
        return (*source, self.rows.B, *width)

    # ------------------------------------------------------------ a block of time

    def block(self, block: Block) -> None:
        """Run the programs for one block of time."""
        for name in self.local:
            if self._cleared(self.one.arrays[name]):
                left = np.clip(self.rows.lengths - block.low, 0, None)
                self.device.clear_ended(self.arrays[name][: block.high - block.low], left, 1)
        rows, B = self.rows, self.rows.B
        whole = block.low * B, block.high * B
        self._outside(self.module.before, self.one.before, block, whole, "before the loop")
        if self.module.loop:
            with operation(self.label, ": time loop"):
                for step in range(block.start, block.stop):
                    t = rows.T - 1 - step if rows.reverse != self.turned else step
                    if self.prefix[t]:
                        self._step(t, step % 2, block)
        self._outside(self.module.after, self.one.after, block, whole, "after the loop")

    def _outside(
        self, steps: list[RowKernel | Product], program: Program, block: Block, span: tuple[int, int], phase: str
    ) -> None:
        for step in steps:
            if isinstance(step, RowKernel):
                with operation(self.label, ": row work ", phase):
                    self._launch(step, *span, 0, block)
            else:
                with operation(self.label, ": products ", phase):
                    self._product_of_all(step, program, block)

    def _step(self, t: int, old: int, block: Block) -> None:
        """One step of the time loop, over the fewest first rows that hold all that take part."""
        count, B = self.prefix[t], self.rows.B
        for step in self.module.loop:
            if isinstance(step, RowKernel):
                self._launch(step, t * B, t * B + count, old, block)
            else:
                self._product_of_step(step, t, old, count, block)

    # ------------------------------------------------------------ row work

    def _launch(self, step: RowKernel, first: int, last: int, old: int, block: Block) -> None:
        rows = self.rows
        kernel = step.kernel
        blocks = rows.B if step.serial else last - first
        if step.scratch:
            blocks = min(blocks, max(rows.B, 4 * self.runtime.multiprocessors))
        grid = (blocks, -(-step.width // kernel.block_threads)) if step.spread else blocks
        C = 1 if rows.ragged else len(rows.source_lengths)
        fixed = first, last, old, rows.B, C, rows.S, block.low, int(rows.reverse)
        arrays = [self._argument(name) for name in step.arrays]
        scratch = [self._scratch(place, blocks) for place in step.scratch.values()]
        self.runtime.launch(kernel, grid, *fixed, *self.row_numbers, *step.dims, *arrays, *scratch)

    def _argument(self, name: str) -> Array:
        if name in self.arrays:
            return self.arrays[name]
        if name.startswith(INDEX):
            return self.row_numbers[2]
        if name.startswith("P_"):
            return self.weights[name[2:]]
        raise RuntimeError(f"no memory for {name}")

    def _scratch(self, place: Place, blocks: int) -> Array:
        """Memory of one step for all rows, or a piece for each block of threads. Stale: rows that take part write
        before they read, and what others hold goes nowhere."""
        if place.kind == "row":
            source, width = (self.rows.S if place.source_axis else 1), (1 if place.width is None else place.width)
            shape: tuple[int, ...] = (max(blocks, self.rows.B), source, width)
        else:
            shape = self._shape(place)
        held = self.scratch.get(place.name)
        if held is None or held.shape[0] < shape[0]:
            held = self.scratch[place.name] = self.allocate(shape, self.dtype)
        return held

    # ------------------------------------------------------------ products

    def _product_of_all(self, step: Product, program: Program, block: Block) -> None:
        x, offset = _operand(step)
        source, target = program.places[x.id], program.places[step.out.id]
        left, right = self._rows_of(source, block), self._rows_of(target, block)
        columns = (offset, step.x.width or 0)
        self.matrices.multiply(left.columns(*columns), weight_key(step), right)

    def _product_of_step(self, step: Product, t: int, old: int, count: int, block: Block) -> None:
        x, offset = _operand(step)
        places = self.module_places
        source, target = places[x.id], places[step.out.id]
        left = Matrix(self._memory(source), self._first_row(source, t, old, block), count)
        out = Matrix(self._memory(target), self._first_row(target, t, old, block), count)
        self.matrices.multiply(left.columns(offset, step.x.width or 0), weight_key(step), out)
        if target.kind == "carry_out" and self._some_have_ended(t, count):
            # The product also ran over rows of the prefix that do not take part: theirs stays.
            self.matrices.keep(self._memory(target), old, t, self.row_numbers[0], count)

    @property
    def module_places(self) -> dict[int, Place]:
        """Of the values of the time loop."""
        return self.one.loop.places

    def _some_have_ended(self, t: int, count: int) -> bool:
        return bool((self.rows.lengths[:count] <= t).any())

    def _memory(self, place: Place) -> Array:
        return self._scratch(place, 0) if place.kind == "rows" else self.arrays[place.name]

    def _first_row(self, place: Place, t: int, old: int, block: Block) -> int:
        flip = int(self.rows.reverse)
        slot = {"seq": t, "block": t - block.low, "before": t + flip, "after": t + 1 - flip, "carry": old}
        return {"carry_out": 1 - old, "rows": 0, **slot}[place.kind] * self.rows.B

    def _rows_of(self, place: Place, block: Block) -> Matrix:
        """The rows of all steps of a block."""
        array, steps = self.arrays[place.name], block.high - block.low
        if place.source_axis:
            return Matrix(array, 0, steps * self.rows.S * self.rows.B)
        return Matrix(array, self._first_row(place, block.low, 0, block), steps * self.rows.B)

    # ------------------------------------------------------------ gradients

    def add_gradient(self, placed: PlacedSink, target: Array, block: Block) -> None:
        """Add one sink's share of a parameter's gradient for one block of time. Only rows that take part are summed:
        what lies in padding may be no number."""
        sink = placed.sink
        index = self._taking_part(placed.right.source_axis, block)
        right = self._rows_of(placed.right, block).columns(placed.right_offset, sink.right.width or 0)
        if placed.left is None:
            with operation(self.label, ": sums for ", sink.name):
                self.matrices.add_sum(right, index, target)
            return
        left = self._rows_of(placed.left, block).columns(placed.left_offset, (sink.left.width if sink.left else 0) or 0)
        part = target[sink.start : sink.start + (sink.rows or 0)]
        with operation(self.label, ": weights ", sink.name):
            self.matrices.add_outer(left, right, index, part)

    def _taking_part(self, wide: bool, block: Block) -> np.ndarray | None:
        """Numbers of the rows of a block that take part; None for all."""
        rows = self.rows
        steps = np.arange(rows.S) if wide else np.arange(block.low, block.high)
        there = steps[:, None] < (rows.source_lengths if wide else rows.lengths)
        return None if there.all() else np.flatnonzero(there)


def _operand(step: Product) -> tuple[Any, int]:
    """The value in memory that a product reads, and the first column of it."""
    return (step.x.args[0], step.x.attrs["start"]) if step.x.op == "slice" else (step.x, 0)


def _prefixes(rows: Rows) -> list[int]:
    """For every step the fewest first rows that hold all that take part."""
    there = np.arange(rows.T)[:, None] < rows.lengths
    return (there * np.arange(1, rows.B + 1)).max(axis=1, initial=0).tolist()
