"""Run plans on the CPU: allocate memory, fill the tables that generated functions read, launch, and sum gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache, partial

import numpy as np

from nmt.rnn import tuning
from nmt.rnn.arrays.array_names import Arrays
from nmt.rnn.arrays.weights import PAIRS, Weights
from nmt.rnn.arrays.workspace import Allocate
from nmt.rnn.compiler.plan import Pass, PlacedSink, Plan
from nmt.rnn.compiler.program import Place, PlaceKind, Product, Program
from nmt.rnn.device import Executable, PlanRun
from nmt.rnn.kernels.loops.emit_cpu import INTEGERS, NUMBERS, emit
from nmt.rnn.kernels.loops.row_loops import row_segments
from nmt.rnn.kernels.loops.row_writer import Function, weight_key
from nmt.rnn.kernels.machine_code.jit import inner_kernel
from nmt.rnn.kernels.machine_code.recipes import generated_loop
from nmt.rnn.kernels.memory.arrays import array_at, zero_inactive
from nmt.rnn.kernels.memory.moves import clear_all
from nmt.rnn.kernels.memory.table_layout import COUNTER_WORDS
from nmt.rnn.kernels.products.gradients import weight_gradient, weight_gradient_bf16
from nmt.rnn.kernels.products.packing import packed_weight
from nmt.rnn.kernels.products.product import run_product, sum_rows
from nmt.rnn.kernels.threads.atomics import WORD
from nmt.rnn.kernels.threads.pool import address_of, run_parallel, run_team, start_of, task_table
from nmt.rnn.rows import Rows, Sharing, TimeBlock, shape_of_step, steps_of


def divisions(sharing: Sharing, most: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return how threads share a single step of 0, 1, ... `most` rows: int64 [most + 1, 3], with 1 if they divide units
    (else 0), the number of threads that have a part, and the address of their bounds; and the arrays at these
    addresses."""
    return _divisions(sharing, most, tuning.ALONE_BELOW, tuning.ALONE_A_STEP)


@lru_cache(maxsize=32)
def _divisions(sharing: Sharing, most: int, *limits: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Compute and cache `divisions`; the limits that `Sharing` reads are part of the key."""
    if sharing.threads == 1 and sharing.division != "units":  # the same formula for every number of rows
        rows = np.arange(most + 1, dtype=np.int64)
        bounds = np.stack([np.zeros_like(rows), rows], axis=1)
        addresses = address_of(bounds) + bounds.itemsize * 2 * rows
        return np.stack([np.zeros_like(rows), np.ones_like(rows), addresses], axis=1), [bounds]
    found = [sharing.of_step(rows) for rows in range(most + 1)]
    table = [(units, len(bounds) - 1, address_of(bounds)) for units, bounds in found]
    return np.array(table, np.int64), [bounds for _, bounds in found]


class Table:
    """The arguments of a generated function (see `emit_cpu`): numbers and addresses, and the arrays at these addresses.
    `names` are the names of the arrays in the function; one array may have several."""

    def __init__(
        self, numbers: tuple[int, ...], names: list[str], arrays: list[np.ndarray], parts: int, sharing: Sharing
    ) -> None:
        self.names, self.arrays, self.parts, self.sharing = names, arrays, parts, sharing
        self.numbers = task_table(numbers, arrays)

    def of(self, block: TimeBlock) -> Table:
        """Return a copy for one block of time; it shares the arrays."""
        found, numbers = object.__new__(Table), self.numbers[:]
        numbers[_START], numbers[_START + 1] = block.start, block.stop
        found.__dict__ = self.__dict__ | {"numbers": numbers}
        return found

    @property
    def address(self) -> int:
        """Return where it is in memory."""
        return start_of(self.numbers)

    def replace_array(self, place: int, array: np.ndarray) -> None:
        """Use another array, of the same element type, as names[place]."""
        if array is not self.arrays[place]:
            self.numbers[_ADDRESSES + place] = address_of(array)
            self.arrays[place] = array

    def word(self, place: int) -> int:
        """Return the address of the word with the address of names[place], for compiled code that changes it."""
        return self.address + WORD * (_ADDRESSES + place)

    def restore(self, place: int) -> None:
        """Set the address of names[place] again after compiled code has changed it."""
        self.numbers[_ADDRESSES + place] = address_of(self.arrays[place])

    def resize(self, rows: int) -> None:
        """Set the number of rows, all of a single step; the arrays must have room for them."""
        units, bounds = self.sharing.of_step(rows)
        self.parts = len(bounds) - 1
        self.arrays[_BOUNDS] = bounds
        self.numbers[_UNITS_WORD], self.numbers[_ROWS_WORD] = units, rows
        self.numbers[_BOUNDS_WORD] = address_of(bounds)


_START = COUNTER_WORDS + NUMBERS.index("start")
_ADDRESSES = COUNTER_WORDS + len(NUMBERS)
_BOUNDS = INTEGERS.index("bounds")
# The words of a table that `resize` changes.
_UNITS_WORD, _ROWS_WORD = COUNTER_WORDS + NUMBERS.index("units"), COUNTER_WORDS + NUMBERS.index("B")
_BOUNDS_WORD = _ADDRESSES + _BOUNDS


@inner_kernel
def resize_table(table, divisions, rows):  # type: ignore[no-untyped-def]
    """Do what `Table.resize` does, in compiled code: set the number of rows of the table at an address, and divide them
    according to `divisions`."""
    numbers = array_at(table, 1, np.int64)
    numbers[_ROWS_WORD] = rows
    numbers[_UNITS_WORD], numbers[_BOUNDS_WORD] = divisions[rows, 0], divisions[rows, 2]


def clear_ended(array: np.ndarray, lengths: np.ndarray, threads: int) -> None:
    """Zero each row of [T, B] or [T, B, n] from its length on."""
    if len(lengths) and lengths.min() < len(array):
        array = array.reshape(*array.shape[:2], -1)
        run_parallel(zero_inactive, threads if array.size >= tuning.CLEAR_ALONE_BELOW else 1, array, lengths)


class _CompiledPass:
    """One direction of a plan; its functions are compiled when first used."""

    def __init__(self, one: Pass, dtype: np.dtype, name: str, packed: np.dtype, *, backward: bool) -> None:
        self.arrays, self.backward = one.arrays, backward
        self.dtype, self.packed = dtype, packed
        self.module = emit(one, dtype, name, packed)
        self.dims = np.array(self.module.dims, np.int64)
        self.local = {name: place for name, place in one.arrays.items() if place.kind is PlaceKind.BLOCK}
        cleared = {name for name, place in one.arrays.items() if backward and not place.source_axis}
        self.cleared, self.cleared_once = cleared & self.local.keys(), cleared - self.local.keys()
        self.programs = one.programs
        self.block_multiple = tuning.CHECKPOINT_STEPS if one.again else 1

    @cached_property
    def addresses(self) -> dict[str, int]:
        """Return the addresses of the generated functions, by name."""
        return {one.name: generated_loop(one.source, one.name).address for one in self.module.functions}


class CPUExecutable(Executable):
    """A plan compiled for one dtype, and for one dtype of packed weights (see weights.packed_dtype)."""

    def __init__(self, plan: Plan, dtype: np.dtype, packed: np.dtype | None = None) -> None:
        self.plan, self.dtype = plan, dtype
        packed = dtype if packed is None else packed
        self._forward = _CompiledPass(plan.forward, dtype, "forward", packed, backward=False)
        back = plan.backward
        self._backward = None if back is None else _CompiledPass(back, dtype, "backward", packed, backward=True)
        self.forward_module = self._forward.module
        self.backward_module = None if self._backward is None else self._backward.module

    def run(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate, *, backward: bool) -> _PassRun:
        """Return a pass over a batch; see `Executable.run`."""
        side = self._backward if backward else self._forward
        if side is None:
            raise RuntimeError("a plan for inference has no backward pass")
        return _PassRun(side, arrays, weights, rows, allocate)

    def prepare(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate) -> list[partial[None]]:
        """Return launches that repeat `forward` on these arrays after their contents have changed. Raises RuntimeError:
        not every row has length T."""
        if not rows.whole:
            raise RuntimeError("a run is prepared for whole rows only")
        run = self.run(arrays, weights, rows, allocate, backward=False)
        run.take_block_memory()  # never freed, as the launches come later
        return [launch for block in run.rows.blocks(backward=False) for launch in run.launches(block)]


class _PassRun(PlanRun):
    """One pass over one batch: the memory it fills, and its launches for each block of time."""

    def __init__(self, side: _CompiledPass, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate) -> None:
        self.side, self.arrays, self.weights, self.allocate = side, arrays, weights, allocate
        self.dtype, self.local = side.dtype, side.local
        self.rows = rows = replace(rows, block_multiple=side.block_multiple) if side.block_multiple > 1 else rows
        for name, place in side.arrays.items():
            if name not in arrays and name not in side.local:
                arrays[name] = allocate((steps_of(place, rows.T), *shape_of_step(place, rows)), side.dtype)
                if name in side.cleared_once and not rows.whole:
                    clear_ended(arrays[name], rows.lengths, rows.threads)
        self.scratch: Arrays = {}
        self.tables: dict[str, Table] = {}

    def block(self, block: TimeBlock) -> None:
        """Run the programs for one block of time."""
        for launch in self.launches(block):
            launch()

    def launches(self, block: TimeBlock) -> Iterator[partial[None]]:
        """Yield the launches for one block of time, in order. Each must run before the next is taken from the iterator,
        unless all rows are whole: taking the next one clears scratch that this one still reads."""
        for name in () if self.rows.ordered else self.side.cleared:
            left = np.maximum(self.rows.lengths - block.low, 0)
            clear_ended(self.arrays[name][: block.high - block.low], left, self.rows.threads)
        for phase, step in self.side.module.steps:
            program = self.side.programs[phase]
            if isinstance(step, Product):
                yield self._product(step, program.places, block)
            else:
                yield self._function(step, program, block)

    def add_gradient(self, placed: PlacedSink, target: np.ndarray, block: TimeBlock) -> None:
        """Add one sink's share; see `PlanRun.add_gradient`."""
        sink, threads = placed.sink, self.rows.threads
        G = self._rows_of(placed.right, block)
        segments = row_segments(self.rows, placed.right.source_axis, block, exact=True)
        N = sink.right.width or 0
        if placed.left is None:
            run_parallel(sum_rows, threads, G, placed.right_offset, N, segments, target, 1)
            return
        X = self._rows_of(placed.left, block)
        K = (sink.left.width if sink.left else 0) or 0
        part = target[sink.start : sink.start + (sink.rows or 0)]
        operands = (X, placed.left_offset, K, G, placed.right_offset, N)
        sum_products = weight_gradient_bf16 if self.side.packed == PAIRS else weight_gradient
        run_parallel(sum_products, threads, *operands, segments, part, 1)

    def _rows_of(self, place: Place, block: TimeBlock) -> np.ndarray:
        """Return a [T, B, n] array, or one slot of a state stack at every step, as a matrix of the block's rows."""
        array = self.arrays[place.name]
        if place.name in self.side.local:
            array = array[: block.high - block.low]
        else:
            if place.kind in (PlaceKind.BEFORE, PlaceKind.AFTER):
                first = (place.kind is PlaceKind.AFTER) != self.rows.reverse
                array = array[1:] if first else array[:-1]
            array = array[block.low : block.high]
        return array.reshape(-1, array.shape[-1])

    def _function(self, step: Function, program: Program, block: TimeBlock) -> partial[None]:
        """Return a launch of a generated function for one block of time; the rest of its table is made once a pass."""
        rows = self.rows
        if step.name not in self.tables:
            self.tables[step.name] = self._table(step, program)
        elif not rows.ordered:
            self._clear_scratch(step)
        table = self.tables[step.name].of(block)
        return partial(run_team, self.side.addresses[step.name], table.parts, table.address, table)

    def _table(self, step: Function, program: Program) -> Table:
        """Return the table of a function, except for the block of time."""
        rows, side = self.rows, self.side
        packed = [packed_weight(self.weights, *w, threads=rows.threads, dtype=side.packed) for w in step.weights]
        sharing = Sharing(rows.threads, rows.division, sum(w.nbytes for w in packed), program.row_size)
        size = int(rows.lengths.sum()) * program.row_size if packed and rows.threads > 1 else 0
        units, bounds = sharing.of(rows.B, size, rows.T, rows.bounds)
        for place in step.scratch.values():
            if place.name not in self.scratch:
                self.scratch[place.name] = self.allocate(shape_of_step(place, rows), side.dtype)
        if not rows.ordered:
            self._clear_scratch(step)
        integers = [bounds, side.dims, rows.lengths, rows.source_lengths, rows.owner]
        operands = [self.argument(name, rows.owner) for name in step.arrays]
        operands += [self.scratch[name] for name in step.scratch]
        sizes = (rows.T, rows.B, 1 if rows.ragged else len(rows.source_lengths), rows.S)
        directions = int(rows.reverse != side.backward), int(rows.reverse)
        names = [*INTEGERS, *step.arrays, *step.scratch]
        numbers = int(units), 0, 0, *sizes, *directions
        return Table(numbers, names, [*integers, *operands, *packed], len(bounds) - 1, sharing)

    def _clear_scratch(self, step: Function) -> None:
        """Zero the scratch arrays of a function: products also run over rows that have ended, and these must be finite
        although the results are not used."""
        for name in step.scratch:
            run_parallel(clear_all, 1, self.scratch[name].reshape(-1))

    def _product(self, step: Product, places: Mapping[int, Place], block: TimeBlock) -> partial[None]:
        """Return a launch of a product outside the loop, over the rows of one block of time that take part."""
        x, offset = step.x.span
        source, target, threads = places[x.id], places[step.out.id], self.rows.threads
        A, C = self._rows_of(source, block), self._rows_of(target, block)
        packed = packed_weight(self.weights, *weight_key(step), threads=threads, dtype=self.side.packed)
        segments = row_segments(self.rows, source.source_axis, block)
        K, N = step.x.width or 0, step.out.width or 0
        parts = 1 if threads == 1 or int(segments[:, 1].sum()) * K * N < tuning.ALONE_BELOW else threads
        operands = A, packed, C, segments
        table = task_table((offset, A.shape[1], 0, C.shape[1], K, N, len(segments), 0), operands)
        return partial(run_product, parts, table, operands)
