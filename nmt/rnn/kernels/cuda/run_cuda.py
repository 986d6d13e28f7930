"""Running plans on a GPU: allocate memory, launch kernels and products in order, sum gradients.

Nothing here waits for the GPU. A pass whose sizes and memory come again is one recording, or its loop is, where few
rows are active (see `row_numbers`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nmt.rnn.arrays.array_names import Arrays
from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.arrays.weights import PAIRS, Weights
from nmt.rnn.arrays.workspace import Allocate
from nmt.rnn.compiler.phases import Phase
from nmt.rnn.compiler.plan import PlacedSink, Plan
from nmt.rnn.compiler.program import Place, PlaceKind, Product, Program
from nmt.rnn.device import Executable, PlanRun
from nmt.rnn.kernels.cuda.blas import Matrix
from nmt.rnn.kernels.cuda.emit_cuda import RowKernel, emit_cuda
from nmt.rnn.kernels.cuda.gpu_base import GPUBase
from nmt.rnn.kernels.cuda.matrices import Matrices
from nmt.rnn.kernels.cuda.row_numbers import active_rows, row_numbers, sum_memory, taking_part
from nmt.rnn.kernels.cuda.run_persistent import SUMS, TAPE, PersistentRun, recognise
from nmt.rnn.kernels.loops.row_writer import weight_key
from nmt.rnn.rows import Rows, TimeBlock, shape_of_step


class CudaExecutable(Executable):
    """A plan compiled for one dtype; products in bfloat16 where `packed` is pairs of it (see weights.packed_dtype)."""

    def __init__(self, device: GPUBase, plan: Plan, dtype: np.dtype, packed: np.dtype) -> None:
        self.device, self.plan, self.dtype = device, plan, dtype
        self.in_bfloat16 = packed == PAIRS
        self.forward_module = emit_cuda(plan.forward, dtype, "forward")
        self.backward_module = emit_cuda(plan.backward, dtype, "backward") if plan.backward else None
        cell = recognise(plan) if dtype == np.float32 else None
        self.persistent = PersistentRun(device, cell, plan, self.in_bfloat16) if cell else None

    def forward(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate) -> None:
        """Fill the forward arrays; see `device.Executable`."""
        layer = self.persistent.layer(rows) if self.persistent else None
        if self.persistent and layer:
            self.persistent.forward(layer, arrays, weights, rows, allocate)
            return
        self.run(arrays, weights, rows, allocate, backward=False).whole(self.plan, {})

    def backward(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate, gradients: Arrays) -> None:
        """Fill the backward arrays and add to the parameters' `gradients`."""
        if self.persistent and TAPE in arrays:
            self.persistent.backward(arrays, weights, rows, allocate, gradients)
            return
        self.run(arrays, weights, rows, allocate, backward=True).whole(self.plan, gradients)

    def weight_gradients(
        self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate, gradients: Arrays
    ) -> None:
        """Add to the parameters' `gradients` after a `backward`; see `Executable.weight_gradients`."""
        if self.persistent and SUMS in arrays:
            self.persistent.add(arrays[SUMS], gradients)
            return
        super().weight_gradients(arrays, weights, rows, allocate, gradients)

    def run(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate, *, backward: bool) -> _GPURun:
        """Return a pass over a batch; see `Executable.run`."""
        return _GPURun(self, arrays, weights, rows, allocate, backward)


class _GPURun(PlanRun):
    """One pass over one batch."""

    def __init__(
        self, owner: CudaExecutable, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate, backward: bool
    ) -> None:
        one = owner.plan.backward if backward else owner.plan.forward
        module = owner.backward_module if backward else owner.forward_module
        if one is None or module is None:
            raise RuntimeError("a plan for inference has no backward pass")
        self.device, self.dtype = owner.device, owner.dtype
        self.runtime = owner.device.runtime
        self.one, self.module, self.loop = one, module, module.steps[Phase.LOOP]
        self.arrays, self.weights, self.rows, self.allocate, self.backward = arrays, weights, rows, allocate, backward
        self.matrices = Matrices(self.device, self.dtype, owner.in_bfloat16, weights)
        self.numbers = row_numbers(self.device, rows, allocate)
        wide = backward and any(one.right.source_axis for one in owner.plan.sinks)
        self.active = sum_memory(rows, self.numbers, rows.block_steps, allocate, wide=wide) if backward else None
        self.taking: Array | None = None
        self.is_one = False
        self.scratch: Arrays = {}
        self.tails: dict[str, tuple[Any, ...]] = {}
        self.packed: dict[str, Any] = {}
        self.local = {name: place for name, place in one.arrays.items() if place.kind is PlaceKind.BLOCK}
        self.unwritten = []  # arrays whose ended steps no kernel writes
        for name, place in one.arrays.items():
            if name not in arrays and name not in self.local:
                arrays[name] = allocate((rows.T, *shape_of_step(place, rows)), self.dtype)
                if self._cleared(place):
                    self.unwritten.append(arrays[name])

    def _cleared(self, place: Place) -> bool:
        return self.backward and not place.source_axis and not self.rows.whole

    # ------------------------------------------------------------ the whole pass

    def whole(self, plan: Plan, gradients: Arrays) -> None:
        """Run all blocks of time, and add to `gradients` where they are present. Where sizes and memory come again,
        a block is one recording and its sums are another, since callers often have new memory for gradients alone."""
        with self.block_memory():
            self.is_one = self.numbers.dense and self.rows.T > 1
            arrays = self._reserve() if self.is_one else []
            for block in self.rows.blocks(backward=self.backward):
                self._replay("block", block, arrays, partial(self.block, block))
                if gradients:
                    sums = partial(self.add_gradients, plan, gradients, block)
                    self._replay(("sums", *gradients), block, [*arrays, *gradients.values()], sums)

    def _replay(self, what: Any, block: TimeBlock, arrays: list[Array], launch: Callable[[], None]) -> None:
        if self.is_one:
            self.device.replay((*self._sizes(), block, what), arrays, launch)
        else:
            launch()

    def _sizes(self) -> tuple[Any, ...]:
        """Return what decides about launches of these steps, where all rows are computed."""
        rows = self.rows
        sizes = rows.T, rows.B, rows.S, len(rows.source_lengths), rows.block_steps, rows.ragged, rows.reverse
        return self.module.number, *sizes, rows.whole

    # ------------------------------------------------------------ a block of time

    def block(self, block: TimeBlock) -> None:
        """Run the programs for one block of time."""
        for array in self.unwritten if not block.start else ():
            self.device.clear_from(array, self.numbers.lengths)
        for name, place in self.local.items():
            if self._cleared(place):
                self.device.clear_from(self.arrays[name][: block.high - block.low], self.numbers.lengths, block.low)
        B = self.rows.B
        whole = block.low * B, block.high * B
        self._outside(Phase.BEFORE, block, whole)
        if self.loop:
            self._loop(block)
        self._outside(Phase.AFTER, block, whole)

    def _outside(self, phase: Phase, block: TimeBlock, span: tuple[int, int]) -> None:
        for step in self.module.steps[phase]:
            if isinstance(step, RowKernel):
                self._launch(step, *span, 0, block)
            else:
                self._product_of_all(step, self.one.programs[phase], block)

    def _loop(self, block: TimeBlock) -> None:
        """Run the steps of a block, as a recording where the same sizes and memory occur again."""
        rows = self.rows

        def launch() -> None:
            for step in range(block.start, block.stop):
                t = rows.T - 1 - step if rows.reverse != self.backward else step  # of the sequence
                if self.numbers.prefix[t]:
                    self._step(t, step % 2, block)

        if self.is_one:
            launch()
            return
        lengths = rows.whole if self.numbers.dense else rows.lengths.tobytes()
        self.device.replay((*self._sizes(), block, lengths), self._reserve(Phase.LOOP), launch)

    def _reserve(self, *phases: Phase) -> list[Array]:
        """Allocate and return all memory of these phases, or of the pass, since a recording must not allocate."""
        arrays = list(self.numbers[:3])
        if not phases:
            arrays += [array for array in self.arrays.values() if not isinstance(array, tuple)]
            arrays += [] if self.active is None else [self.active]
        for phase in phases or Phase:
            places = self.one.programs[phase].places
            for step in self.module.steps[phase]:
                if isinstance(step, RowKernel):
                    arrays += self._tail(step)[-len(step.arrays) - len(step.scratch) :]
                    continue
                x, _ = step.x.span
                arrays += [self._memory(places[x.id]), self._memory(places[step.out.id])]
                arrays += self.matrices.reserve(self.rows.B, step.x.width or 0, weight_key(step))
        return arrays

    def _step(self, t: int, old: int, block: TimeBlock) -> None:
        """Run one step of the time loop, over all rows, or the shortest prefix that contains all active ones."""
        count, B = self.numbers.prefix[t], self.rows.B
        for step in self.loop:
            if isinstance(step, RowKernel):
                self._launch(step, t * B, t * B + count, old, block)
            else:
                self._product_of_step(step, t, old, count, block)

    # ------------------------------------------------------------ row work

    def _launch(self, step: RowKernel, first: int, last: int, old: int, block: TimeBlock) -> None:
        blocks = self.rows.B if step.serial else last - first
        if step.scratch:
            blocks = min(blocks, self._most_blocks())
        grid = (blocks, -(-step.width // step.kernel.block_threads)) if step.spread else blocks
        if step.name not in self.packed:
            self.packed[step.name] = self.runtime.packed(step.kernel, 4, *self._tail(step))
        self.runtime.launch(step.kernel, grid, first, last, old, block.low, self.packed[step.name])

    def _tail(self, step: RowKernel) -> tuple[Any, ...]:
        """Return the arguments that are the same for every step and block of time."""
        if step.name not in self.tails:
            rows = self.rows
            sizes = rows.B, 1 if rows.ragged else len(rows.source_lengths), rows.S, int(rows.reverse)
            arrays = [self.argument(name, self.numbers.owner) for name in step.arrays]
            scratch = [self._scratch(place) for place in step.scratch.values()]
            self.tails[step.name] = (*sizes, *self.numbers[:3], *step.dims, *arrays, *scratch)
        return self.tails[step.name]

    def _scratch(self, place: Place) -> Array:
        """Return stale memory: active rows write before they read, and the contents of other rows are not used."""
        if place.name not in self.scratch:
            shape = shape_of_step(place, self.rows)
            if place.kind is PlaceKind.ROW:  # a piece for each block of threads
                shape = self._most_blocks(), *(self.rows.S,) * place.source_axis, place.width or 1
            self.scratch[place.name] = self.allocate(shape, self.dtype)
        return self.scratch[place.name]

    def _most_blocks(self) -> int:
        """Return the maximum number of thread blocks in a launch where each block has separate scratch."""
        return max(self.rows.B, 4 * self.runtime.multiprocessors)

    # ------------------------------------------------------------ products

    def _product_of_all(self, step: Product, program: Program, block: TimeBlock) -> None:
        x, offset = step.x.span
        source, target = program.places[x.id], program.places[step.out.id]
        left, right = self._rows_of(source, block), self._rows_of(target, block)
        index = self._taking_part(source.source_axis, block)
        self.matrices.multiply(left.columns(offset, step.x.width or 0), weight_key(step), right, index)

    def _product_of_step(self, step: Product, t: int, old: int, count: int, block: TimeBlock) -> None:
        x, offset = step.x.span
        places, rows = self.one.loop.places, self.rows
        source, target = places[x.id], places[step.out.id]
        left = Matrix(self._memory(source), self._first_row(source, t, old, block), count)
        out = Matrix(self._memory(target), self._first_row(target, t, old, block), count)
        self.matrices.multiply(left.columns(offset, step.x.width or 0), weight_key(step), out)
        if target.kind is PlaceKind.CARRY_OUT:
            some_have_ended = not rows.whole if self.numbers.dense else (rows.lengths[:count] <= t).any()
            if some_have_ended:  # the product also ran over their rows, whose values must not change
                self.matrices.keep(self._memory(target), old, t, self.numbers.lengths, count)

    def _memory(self, place: Place) -> Array:
        return self._scratch(place) if place.kind is PlaceKind.ROWS else self.arrays[place.name]

    def _first_row(self, place: Place, t: int, old: int, block: TimeBlock) -> int:
        flip = int(self.rows.reverse)
        slots = {
            PlaceKind.SEQUENCE: t,
            PlaceKind.BLOCK: t - block.low,
            PlaceKind.BEFORE: t + flip,
            PlaceKind.AFTER: t + 1 - flip,
            PlaceKind.CARRY: old,
            PlaceKind.CARRY_OUT: 1 - old,
            PlaceKind.ROWS: 0,
        }
        return slots[place.kind] * self.rows.B

    def _rows_of(self, place: Place, block: TimeBlock) -> Matrix:
        """Return the rows of all steps of a block."""
        array, steps = self._memory(place), block.high - block.low
        if place.source_axis:
            return Matrix(array, 0, steps * self.rows.S * self.rows.B)
        return Matrix(array, self._first_row(place, block.low, 0, block), steps * self.rows.B)

    # ------------------------------------------------------------ gradients

    def add_gradients(self, plan: Plan, gradients: Arrays, block: TimeBlock) -> None:
        """Add to all gradients that are present, for one block of time."""
        if self.active is not None:
            steps = (block.low, block.high) if self.rows.T > 1 else (0, self.rows.S)
            self.taking = active_rows(self.device, self.rows, self.numbers, self.active, *steps)
        with self.matrices.keeping_factors():
            super().add_gradients(plan, gradients, block)

    def add_gradient(self, placed: PlacedSink, target: Array, block: TimeBlock) -> None:
        """Add one sink's share; see `PlanRun.add_gradient`."""
        sink = placed.sink
        index = self.taking
        if index is None or (self.rows.T == 1 and not placed.right.source_axis):
            index = self._taking_part(placed.right.source_axis, block)
        right = self._rows_of(placed.right, block).columns(placed.right_offset, sink.right.width or 0)
        if placed.left is None:
            self.matrices.add_sum(right, index, target)
            return
        left = self._rows_of(placed.left, block).columns(placed.left_offset, (sink.left.width if sink.left else 0) or 0)
        part = Matrix(target, sink.start, sink.rows or 0)
        self.matrices.add_outer(left, right, index, part)

    def _taking_part(self, wide: bool, block: TimeBlock) -> Array | None:
        """Return the indices of the active rows of a block, on the GPU; None for all."""
        rows, low, high = self.rows, block.low, block.high
        if wide and self.numbers.sources_dense:
            return None
        if wide:
            return taking_part(self.device, rows, "source positions", rows.source_lengths, 0, rows.S)
        if self.numbers.dense and rows.T > 1:  # few have ended, and sums have `taking`
            return None
        return taking_part(self.device, rows, "steps", rows.lengths, low, high)
