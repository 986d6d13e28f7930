"""Run plans on the CPU: find memory, launch products and generated functions, sum gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np

from nmt.rnn.compiler.plan import Pass, PlacedSink, Plan
from nmt.rnn.compiler.program import Place, Product, Program
from nmt.rnn.kernels.barrier import COUNTER_WORDS
from nmt.rnn.kernels.emit_cpu import INTEGERS, NUMBERS, Module, emit
from nmt.rnn.kernels.memory import active_rows, prefix_rows, zero_inactive
from nmt.rnn.kernels.modules import load_module
from nmt.rnn.kernels.pool import run_parallel, run_team
from nmt.rnn.kernels.products import product_table, run_product, sum_rows, weight_gradient, weight_gradient_bf16
from nmt.rnn.kernels.row_writer import INDEX, Function, weight_key
from nmt.rnn.kernels.team import address_of
from nmt.rnn.profile import operation
from nmt.rnn.weights import PAIRS, Weights
from nmt.rnn.workspace import Allocate

Division = Literal["rows", "units"]
"""What the threads divide in a time loop: each its own rows of the batch, or each its own hidden units."""

UNITS_BELOW = {False: 6, True: 16}
"""Rows a thread below which the threads divide units, by whether the weights are large; from
benchmarks/schedules.py."""

LARGE_WEIGHTS = 2 << 20
"""Bytes of a loop's weights that no longer stay in the second cache of one core."""

ALONE_BELOW = 1 << 18
"""Multiply-adds of a loop or a product that one thread has done before a sleeping second one is at work."""

ALONE_A_STEP = 3 << 14
"""Multiply-adds of a step below which meeting after every product costs more than a second thread saves."""

_SMALL = 1 << 16
"""Numbers below which one thread has written them before a second is awake."""

Arrays = dict[str, np.ndarray]


BLOCK_ROWS = 2048
"""Rows, of all steps together, of a block of time: enough for products to run at full speed over them, few enough
for what one program hands to the next to stay in the cache. Memory for that does not grow with T."""


@dataclass(frozen=True)
class Block:
    """Steps [start, stop) of a loop: steps [low, high) of the sequence, the other way round where the loop runs
    backwards."""

    start: int
    stop: int
    low: int
    high: int


@dataclass
class Rows:
    """Which rows take part: lengths per row [B] and per captured row [C], which captured row belongs to each row,
    who does what.

    With `ragged` captured arrays are [positions, n]: `owner` gives each row's first position, and `source_lengths` is
    read there. Other captured arrays may be read by other numbers: `I_` and their name among the arrays.
    """

    T: int
    B: int
    S: int
    lengths: np.ndarray  # int64 [B]
    source_lengths: np.ndarray  # int64 [C]
    owner: np.ndarray  # int64 [B]
    bounds: np.ndarray  # int64 [threads + 1]: rows of each thread
    reverse: bool
    division: Division | None = None  # None: what suits each loop
    block_rows: int | None = None  # None: BLOCK_ROWS
    ragged: bool = False
    label: str = "scan"  # what a profile calls the run
    _segments: dict[tuple[bool, bool, int, int], np.ndarray] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """How many threads share the rows."""
        return len(self.bounds) - 1

    @cached_property
    def whole(self) -> bool:
        """Whether every row runs to the end."""
        return not len(self.lengths) or int(self.lengths.min()) == self.T

    @cached_property
    def ordered(self) -> bool:
        """Whether the rows still running at any step are the first ones: products then meet none that has ended."""
        return self.whole or bool((self.lengths[:-1] >= self.lengths[1:]).all())

    @property
    def block_steps(self) -> int:
        """Steps in a block of time, of nearly equal blocks."""
        count = -(-self.T * self.B // (self.block_rows or BLOCK_ROWS))
        return -(-self.T // max(1, count))

    def blocks(self, *, turned: bool) -> list[Block]:
        """The blocks of a pass in the order it takes them; `turned`: against the direction of the rows."""
        backwards, size = self.reverse != turned, self.block_steps
        found = []
        for start in range(0, self.T, max(1, size)):
            stop = min(self.T, start + size)
            low, high = (self.T - stop, self.T - start) if backwards else (start, stop)
            found.append(Block(start, stop, low, high))
        return found

    def segments(self, wide: bool, block: Block, *, exact: bool = False) -> np.ndarray:
        """Runs of rows of a block of a [T, B, n] array that take part; with `wide`, of a [1, S, B, n] array.

        A product may run over a prefix of rows that holds some that have ended. A sum over rows is `exact`: what
        lies in padding might be no number, and a row more or less would move the others to other blocks of the sum.
        """
        key = (wide, exact, block.low, block.high)
        if key not in self._segments:
            steps = self.S if wide else block.high - block.low
            if self.whole and not wide:
                self._segments[key] = np.array([[0, steps * self.B]], np.int64)
                return self._segments[key]
            lengths = self.source_lengths if wide else np.clip(self.lengths - block.low, 0, steps)
            if len(lengths) and (lengths == steps).all():
                runs = np.array([[0, steps * len(lengths)]], np.int64)
            elif exact:
                runs = active_rows(lengths, steps)
            else:
                runs = prefix_rows(lengths, np.array([0, len(lengths)], np.int64) if wide else self.bounds, steps)
            self._segments[key] = runs
        return self._segments[key]


def choose_division(rows: int, threads: int, weight_bytes: int) -> Division:
    """How the threads share a loop whose products read `weight_bytes` of weights at every step.

    With few rows a step lasts as long as its weights take to arrive from the cache, and divided by rows every thread
    fetches all of them. With many, meeting after every product costs more than that.
    """
    limit = UNITS_BELOW[weight_bytes >= LARGE_WEIGHTS] * threads
    return "units" if threads > 1 and rows < limit else "rows"


def meeting_threads(size: int, threads: int) -> int:
    """How many of the threads it pays to divide a step of so many multiply-adds between, if they meet after every
    product. Two must have ALONE_A_STEP together; with more the share of each must grow as the meeting does, which is by
    one turn of a cache line whenever their number doubles (reasoned, not measured: see docs/threads.md)."""
    while threads > 1 and 2 * size < ALONE_A_STEP * threads * (threads - 1).bit_length():
        threads -= 1
    return threads


def split_rows(lengths: np.ndarray, threads: int) -> np.ndarray:
    """Bounds that give each thread about as many steps to do; with fewer rows than threads some have none."""
    B = len(lengths)
    work = np.concatenate([[0], np.cumsum(lengths + 1)])
    inner = np.searchsorted(work, work[-1] * np.arange(1, threads) / threads, side="left")
    return np.maximum.accumulate(np.concatenate([[0], np.clip(inner, 0, B), [B]])).astype(np.int64)


@lru_cache(maxsize=1024)
def single_steps(rows: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of rows that all take one step, and the bounds that divide them between threads; not to be written
    into."""
    ones = np.ones(rows, np.int64)
    return ones, split_rows(ones, threads)


def clear_ended(array: np.ndarray, lengths: np.ndarray, threads: int) -> None:
    """Zero each row of [T, B, n] from its length on."""
    if len(lengths) and lengths.min() < len(array):
        with operation("zeroing ended rows"):
            run_parallel(zero_inactive, threads if array.size >= _SMALL else 1, array, lengths)


@dataclass(frozen=True)
class Launch:
    """A compiled function with all it needs; calling it runs it, once or again and again."""

    name: tuple[str, ...]  # what a profile calls it
    multiply_adds: int | Callable[[], int]
    run: Callable[..., None]
    args: tuple[Any, ...]

    def __call__(self) -> None:
        """Run the function."""
        with operation(*self.name, multiply_adds=self.multiply_adds):
            self.run(*self.args)


class _Side:
    """One direction of a plan, compiled at first use."""

    def __init__(self, one: Pass, dtype: np.dtype, name: str, packed: np.dtype, *, turned: bool) -> None:
        self.arrays, self.turned = one.arrays, turned
        self.dtype, self.packed = dtype, packed
        self._addresses: dict[str, int] | None = None
        self.module = emit(one, dtype, name, packed)
        self.dims = np.array(self.module.dims, np.int64)
        self.local = {name for name, place in one.arrays.items() if place.kind == "block"}
        cleared = {name for name, place in one.arrays.items() if turned and not place.source_axis}
        self.cleared, self.cleared_once = cleared & self.local, cleared - self.local
        loop = [(self.module.loop, one.loop, "time loop")] if self.module.loop else []
        self.steps: list[tuple[Function | Product, Program, str]] = [
            *((step, one.before, "before the loop") for step in self.module.before),
            *loop,
            *((step, one.after, "after the loop") for step in self.module.after),
        ]

    @property
    def addresses(self) -> dict[str, int]:
        """Where the machine code of each generated function begins."""
        if self._addresses is None:
            code = load_module(self.module.source, self.module.key)
            names = [step.name for step, _, _ in self.steps if isinstance(step, Function)]
            self._addresses = {name: getattr(code, name).address for name in names}
        return self._addresses


class Executable:
    """A plan compiled for one dtype, and one of the elements of packed weights (see weights.packed_dtype)."""

    def __init__(self, plan: Plan, dtype: np.dtype, packed: np.dtype | None = None) -> None:
        self.plan, self.dtype = plan, dtype
        packed = dtype if packed is None else packed
        self._forward = _Side(plan.forward, dtype, "forward", packed, turned=False)
        back = plan.backward
        self._backward = None if back is None else _Side(back, dtype, "backward", packed, turned=True)

    @property
    def forward_module(self) -> Module:
        """The generated code of the forward pass."""
        return self._forward.module

    @property
    def backward_module(self) -> Module | None:
        """That of the backward pass; None in a plan for inference."""
        return None if self._backward is None else self._backward.module

    def forward(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate) -> None:
        """Fill the forward arrays. `arrays` holds inputs, state stacks, captured arrays, masks and parameter
        vectors."""
        run = _Run(self._forward, arrays, weights, rows, allocate)
        with run.block_memory():
            for block in rows.blocks(turned=False):
                for launch in run.launches(block):
                    launch()

    def prepare(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate) -> list[Launch]:
        """What `forward` would run, to be run again whenever the numbers in `arrays` have changed; all rows whole."""
        if not rows.whole:
            raise RuntimeError("a run is prepared for whole rows only")
        run = _Run(self._forward, arrays, weights, rows, allocate)
        run.take_block_memory()  # for good: the launches come later
        return [launch for block in rows.blocks(turned=False) for launch in run.launches(block)]

    def backward(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate, gradients: Arrays) -> None:
        """Fill the backward arrays and add to the parameters' `gradients`."""
        if self._backward is None:
            raise RuntimeError("a plan for inference has no backward pass")
        run = _Run(self._backward, arrays, weights, rows, allocate)
        with run.block_memory():
            for block in rows.blocks(turned=True):
                for launch in run.launches(block):
                    launch()
                run.add_gradients(self.plan, gradients, block)

    def weight_gradients(
        self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate, gradients: Arrays
    ) -> None:
        """Add to the parameters' `gradients` after a `backward`; the plan is one `with_operands`."""
        if self._backward is None:
            raise RuntimeError("a plan for inference has no backward pass")
        run = _Run(self._backward, arrays, weights, rows, allocate)
        for block in rows.blocks(turned=True):
            run.add_gradients(self.plan, gradients, block)

    def scratch(self, rows: Rows, *, backward: bool) -> list[tuple[int, ...]]:
        """Shapes of the memory of one step that a pass takes besides its arrays."""
        module = self.backward_module if backward else self.forward_module
        steps = (*module.before, module.loop, *module.after) if module else ()
        return [shape_of_step(place, rows) for s in steps if isinstance(s, Function) for place in s.scratch.values()]


@dataclass(frozen=True)
class Sharing:
    """What decides how threads share the rows of a function."""

    threads: int
    division: Division | None
    weight_bytes: int  # of its products, 0 where it has none
    row_size: int  # multiply-adds of a row's step

    def of(self, B: int, size: int, T: int, bounds: np.ndarray) -> tuple[bool, np.ndarray]:
        """Whether they divide units, and the bounds of each one's rows, of B with `size` multiply-adds in T steps."""
        division = self.division or choose_division(B, self.threads, self.weight_bytes)
        units = self.weight_bytes > 0 and division == "units"
        meeting = meeting_threads(size // max(1, T), self.threads) if units else self.threads
        if self.weight_bytes and (size < ALONE_BELOW or meeting == 1):
            return False, np.array([0, B], np.int64)
        if units and meeting < self.threads:
            if self.division is None and choose_division(B, meeting, self.weight_bytes) == "rows":
                units = False
            else:
                return True, bounds[np.arange(meeting + 1) * self.threads // meeting]
        if 0 < B < self.threads and not units:  # nobody is woken for no rows
            return False, np.unique(bounds)
        return units, bounds

    def of_step(self, rows: int) -> tuple[bool, np.ndarray]:
        """The same for rows that all take a single step."""
        return self.of(rows, rows * self.row_size, 1, single_steps(rows, self.threads)[1])


def divisions(sharing: Sharing, most: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """How threads share a single step of 0, 1, ... `most` rows: int64 [most + 1, 3], whether they divide units, how
    many have a part, and the address of their bounds; and what the addresses are of."""
    return _divisions(sharing, most, ALONE_BELOW, ALONE_A_STEP)


@lru_cache(maxsize=32)
def _divisions(sharing: Sharing, most: int, *limits: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Anew for other limits."""
    if sharing.threads == 1 and sharing.division != "units":  # no need to ask for each of many
        rows = np.arange(most + 1)
        bounds = np.stack([np.zeros_like(rows), rows], axis=1)
        addresses = address_of(bounds) + bounds.itemsize * 2 * rows
        return np.stack([np.zeros_like(rows), np.ones_like(rows), addresses], axis=1), [bounds]
    found = [sharing.of_step(rows) for rows in range(most + 1)]
    table = [(units, len(bounds) - 1, address_of(bounds)) for units, bounds in found]
    return np.array(table, np.int64), [bounds for _, bounds in found]


class Table:
    """The arguments of a generated function (see `emit_cpu`): numbers and addresses, and the arrays these are of.

    `names` are those of the arrays as the function knows them; one array may have several.
    """

    def __init__(
        self, numbers: tuple[int, ...], names: list[str], arrays: list[np.ndarray], parts: int, sharing: Sharing
    ) -> None:
        self.names, self.arrays, self.parts, self.sharing = names, arrays, parts, sharing
        addresses = [address_of(array) for array in arrays]
        self.numbers = np.array((*(0,) * COUNTER_WORDS, *numbers, *addresses), np.int64)

    def of(self, block: Block) -> Table:
        """The same for one block of time."""
        found = copy(self)
        found.arrays, found.numbers = list(self.arrays), self.numbers.copy()
        found.numbers[_START : _START + 2] = block.start, block.stop
        return found

    def exchange(self, place: int, array: np.ndarray) -> None:
        """Read another array, of the same element type, as names[place]."""
        if array is not self.arrays[place]:
            self.numbers[_ADDRESSES + place] = address_of(array)
            self.arrays[place] = array

    def resize(self, rows: int) -> None:
        """Run on so many rows, all of a single step; the arrays have room for them."""
        units, bounds = self.sharing.of_step(rows)
        self.parts = len(bounds) - 1
        self.arrays[_BOUNDS] = bounds
        self.numbers[UNITS_WORD], self.numbers[ROWS_WORD], self.numbers[BOUNDS_WORD] = units, rows, address_of(bounds)


_START = COUNTER_WORDS + NUMBERS.index("start")
_ADDRESSES = COUNTER_WORDS + len(NUMBERS)
_BOUNDS = INTEGERS.index("bounds")
# Where in a table's numbers what `resize` changes lies.
UNITS_WORD, ROWS_WORD = COUNTER_WORDS + NUMBERS.index("units"), COUNTER_WORDS + NUMBERS.index("B")
BOUNDS_WORD = _ADDRESSES + _BOUNDS


class _Run:
    """One pass over one batch: the memory it fills, and what to call with it, block of time by block."""

    def __init__(self, side: _Side, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate) -> None:
        self.side, self.arrays, self.weights, self.rows, self.allocate = side, arrays, weights, rows, allocate
        self.label = f"{rows.label} gradients" if side.turned else rows.label
        for name, place in side.arrays.items():
            if name not in arrays and name not in side.local:
                arrays[name] = allocate((rows.T, *shape_of_step(place, rows)), side.dtype)
                if name in side.cleared_once and not rows.whole:
                    clear_ended(arrays[name], rows.lengths, rows.threads)
        self.scratch: Arrays = {}
        self.tables: dict[str, Table] = {}

    @contextmanager
    def block_memory(self) -> Iterator[None]:
        """Memory for what lives in a block of time, as long as the pass lasts: the next one takes the same again."""
        with self.allocate.temporary():
            self.take_block_memory()
            yield
        for name in self.side.local:
            del self.arrays[name]

    def take_block_memory(self) -> None:
        """Memory for what lives in a block of time."""
        for name in self.side.local:
            shape = self.rows.block_steps, *shape_of_step(self.side.arrays[name], self.rows)
            self.arrays[name] = self.allocate(shape, self.side.dtype)

    def launches(self, block: Block) -> Iterator[Launch]:
        """The programs for one block of time, in order; each is to be run before the next is asked for, or all of them
        where rows are whole."""
        for name in () if self.rows.ordered else self.side.cleared:
            left = np.clip(self.rows.lengths - block.low, 0, None)
            clear_ended(self.arrays[name][: block.high - block.low], left, self.rows.threads)
        for step, program, phase in self.side.steps:
            if isinstance(step, Product):
                yield self._product(step, program.places, block, phase)
            else:
                yield self._function(step, program, block, phase)

    def add_gradients(self, plan: Plan, gradients: Arrays, block: Block) -> None:
        """Add to all gradients that are there, for one block of time."""
        for placed in plan.sinks:
            if placed.sink.name in gradients:
                self._add_gradient(placed, gradients[placed.sink.name], block)

    def _add_gradient(self, placed: PlacedSink, target: np.ndarray, block: Block) -> None:
        """Add one sink's share of a parameter's gradient for one block of time."""
        sink, threads = placed.sink, self.rows.threads
        G = self._rows_of(placed.right, block)
        segments = self.rows.segments(placed.right.source_axis, block, exact=True)
        N = sink.right.width or 0
        if placed.left is None:
            with operation(self.label, ": sums for ", sink.name):
                run_parallel(sum_rows, threads, G, placed.right_offset, N, segments, target, 1)
            return
        X = self._rows_of(placed.left, block)
        K = (sink.left.width if sink.left else 0) or 0
        part = target[sink.start : sink.start + (sink.rows or 0)]
        operands = (X, placed.left_offset, K, G, placed.right_offset, N)
        sum_products = weight_gradient_bf16 if self.side.packed == PAIRS else weight_gradient
        with operation(self.label, ": weights ", sink.name, multiply_adds=_product_size(segments, K, N)):
            run_parallel(sum_products, threads, *operands, segments, part, 1)

    def _rows_of(self, place: Place, block: Block) -> np.ndarray:
        """A [T, B, n] array, or one slot of a state stack for every step, as a matrix of the block's rows."""
        array = self.arrays[place.name]
        if place.name in self.side.local:
            array = array[: block.high - block.low]
        else:
            if place.kind in ("before", "after"):
                first = (place.kind == "after") != self.rows.reverse
                array = array[1:] if first else array[:-1]
            array = array[block.low : block.high]
        return array.reshape(-1, array.shape[-1])

    def _function(self, step: Function, program: Program, block: Block, phase: str) -> Launch:
        rows = self.rows
        if step.name not in self.tables:
            self.tables[step.name] = self._table(step, program)
        elif not rows.ordered:
            self._clear_scratch(step)
        table = self.tables[step.name].of(block)
        is_loop = phase == "time loop"
        work: Any = (lambda: _loop_size(program, rows, block)) if is_loop else 0
        name = (self.label, ": " if is_loop else ": row work ", phase)
        args = (self.side.addresses[step.name], table.parts, address_of(table.numbers), table)
        return Launch(name, work, run_team, args)

    def _table(self, step: Function, program: Program) -> Table:
        """All a function reads, but the block of time."""
        rows, side = self.rows, self.side
        packed = [self.weights.packed(*w, rows.threads, side.packed) for w in step.weights]
        sharing = Sharing(rows.threads, rows.division, sum(w.nbytes for w in packed), _row_size(program))
        size = _loop_size(program, rows, Block(0, rows.T, 0, rows.T)) if packed else 0
        units, bounds = sharing.of(rows.B, size, rows.T, rows.bounds)
        for place in step.scratch.values():
            if place.name not in self.scratch:
                self.scratch[place.name] = self.allocate(shape_of_step(place, rows), side.dtype)
        if not rows.ordered:
            self._clear_scratch(step)
        integers = [bounds, side.dims, rows.lengths, rows.source_lengths, rows.owner]
        operands = [_argument(self.arrays, self.weights, rows, a) for a in step.arrays]
        operands += [self.scratch[name] for name in step.scratch]
        sizes = (rows.T, rows.B, 1 if rows.ragged else len(rows.source_lengths), rows.S)
        directions = int(rows.reverse != side.turned), int(rows.reverse)
        names = [*INTEGERS, *step.arrays, *step.scratch]
        numbers = int(units), 0, 0, *sizes, *directions
        return Table(numbers, names, [*integers, *operands, *packed], len(bounds) - 1, sharing)

    def _clear_scratch(self, step: Function) -> None:
        """Products also run over rows that have ended: their results are dropped, but must be numbers."""
        for name in step.scratch:
            self.scratch[name][...] = 0

    def _product(self, step: Product, places: Mapping[int, Place], block: Block, phase: str) -> Launch:
        x, offset = (step.x.args[0], step.x.attrs["start"]) if step.x.op == "slice" else (step.x, 0)
        source, target, threads = places[x.id], places[step.out.id], self.rows.threads
        A, C = self._rows_of(source, block), self._rows_of(target, block)
        packed = self.weights.packed(*weight_key(step), threads, self.side.packed)
        segments = self.rows.segments(source.source_axis, block)
        K, N = step.x.width or 0, step.out.width or 0
        size = _product_size(segments, K, N)
        parts = 1 if size() < ALONE_BELOW else threads
        operands = A, packed, C, segments
        table = product_table(operands, offset, 0, K, N, 0)
        return Launch((self.label, ": products ", phase), size, run_product, (parts, table, operands))


def _product_size(segments: np.ndarray, K: int, N: int) -> Callable[[], int]:
    """Counts the multiply-adds of a product over the rows in `segments`."""
    return lambda: int(segments[:, 1].sum()) * K * N


def _loop_size(program: Program, rows: Rows, block: Block) -> int:
    """The multiply-adds of a time loop's products in a block of time."""
    steps = np.clip(rows.lengths - block.low, 0, block.high - block.low).sum()
    return int(steps) * _row_size(program)


def _row_size(program: Program) -> int:
    """The multiply-adds of its products for one row."""
    products = (step for step in program.steps if isinstance(step, Product))
    return sum((step.x.width or 0) * (step.out.width or 0) for step in products)


def _argument(arrays: Arrays, weights: Weights, rows: Rows, name: str) -> np.ndarray:
    if name in arrays:
        return arrays[name]
    if name.startswith(INDEX):
        return rows.owner
    if name.startswith("P_"):
        return weights[name[2:]]
    raise RuntimeError(f"no memory for {name}")


def shape_of_step(place: Place, rows: Rows) -> tuple[int, ...]:
    """Of one step."""
    source = (rows.S,) if place.source_axis else ()
    width = (place.width,) if place.width is not None else ()
    return (*source, rows.B, *width)
