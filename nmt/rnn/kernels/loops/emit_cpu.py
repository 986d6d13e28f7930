"""Pass 7, emit for the CPU: turn a program into source in a subset of Python (see loop_code.py), one function for the
whole time loop.

Every thread runs the same function. If the work is divided by rows, each thread processes its own rows (`bounds`) from
the first step to the last, without waiting inside the loop. If it is divided by `units`, each thread computes its share
of the columns of every product for all rows, so that only one thread reads a given weight; row work is divided by rows
there, too, and threads meet at the barriers of `_steps_before_barriers`. Sizes are arguments, never part of the source:
one compiled function serves all batch sizes, lengths and widths of the same structure, and both divisions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nmt.rnn import tuning
from nmt.rnn.arrays.array_names import ArrayKind, parse
from nmt.rnn.arrays.weights import PAIRS, QUADS
from nmt.rnn.compiler.phases import Phase
from nmt.rnn.compiler.plan import Pass
from nmt.rnn.compiler.program import Place, PlaceKind, Product, Program, RowWork
from nmt.rnn.kernels.loops import row_loops
from nmt.rnn.kernels.loops.row_writer import Function, Names, Variable, weight_key
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.products.int8 import TAIL
from nmt.rnn.kernels.products.microkernel import PRODUCT_ROWS
from nmt.rnn.kernels.products.packing import words_of

# The functions that round rows for a product, and the words of a rounded row of n numbers (see packing.words_of).
_PAIRS = TARGET.pairs_at_a_time
_PAIR_WORDS = f"(({{n}} + {2 * _PAIRS - 1}) // {2 * _PAIRS} * {_PAIRS})"
ROUNDING = {PAIRS: ("to_pairs", _PAIR_WORDS), QUADS: ("to_quads", f"(({{n}} + 3) // 4 + {TAIL})")}

NUMBERS = ("units", "start", "stop", "T", "B", "C", "S", "backwards", "flip")
INTEGERS = ("bounds", "dims", "lengths", "source_lengths", "owner")
"""The order of a table: NUMBERS, then the addresses of the int64 arrays INTEGERS, then those of the function's arrays,
scratch and weights."""

Steps = list[RowWork | Product]


@dataclass
class Module:
    """The steps of one pass in order, each with its phase: Functions, or Products that run over all rows at once. The
    time loop is one function."""

    dims: list[int]
    steps: list[tuple[Phase, Function | Product]]

    @property
    def functions(self) -> list[Function]:
        """Return the generated functions in order."""
        return [step for _, step in self.steps if isinstance(step, Function)]

    @property
    def source(self) -> str:
        """Return the source of all functions, for reading."""
        return "\n\n".join(function.source for function in self.functions)


def emit(one: Pass, dtype: np.dtype, name: str, packed: np.dtype) -> Module:
    """Return the functions for one direction of a plan, labelled `name`; `packed`: the dtype of packed weights."""
    dims: dict[int, str] = {}

    def writer(program: Program, steps: Steps, label: str) -> _FunctionWriter:
        return _FunctionWriter(program, steps, f"{name}_{label}", dims, dtype, packed)

    def outside(phase: Phase) -> Iterator[tuple[Phase, Function | Product]]:
        program = one.programs[phase]
        for n, step in enumerate(program.steps):
            yield phase, step if isinstance(step, Product) else writer(program, [step], f"{phase}{n}").write()

    before, after = list(outside(Phase.BEFORE)), list(outside(Phase.AFTER))
    loop: list[tuple[Phase, Function | Product]] = []
    if one.loop.steps:
        of_loop = writer(one.loop, one.loop.steps, "loop")
        loop.append((Phase.LOOP, of_loop.write_by_rows(one) if one.by_rows else of_loop.write()))
    return Module(list(dims), [*before, *loop, *after])


class _FunctionWriter(Names):
    """Write one function: a loop over time, with its products and loops over rows."""

    def __init__(
        self, program: Program, steps: Steps, name: str, dims: dict[int, str], dtype: np.dtype, packed: np.dtype
    ) -> None:
        super().__init__(program, name, dims)
        self.steps, self.dtype, self.packed = steps, dtype, packed
        self.row_scratch: dict[str, str] = {}
        self.written: dict[str, str] = {}  # for the variable of an array with two slots, that of the slot being written

    # ------------------------------------------------------------ memory

    def array(self, place: Place) -> str:
        """Return the variable of a place's array. Scratch of a single row is allocated in the function; all other
        arrays are arguments. The slot that a step writes has its own variable, so that loops know that it differs from
        the slot they read."""
        if place.kind in (PlaceKind.AFTER, PlaceKind.CARRY_OUT):
            whole = super().array(place)
            return self.written.setdefault(whole, self.variable(f"{place.name} written"))
        if place.kind not in (PlaceKind.ROW, PlaceKind.AGAIN, PlaceKind.AGAIN_NEXT):
            return super().array(place)
        name = self.variable(place.name)
        size = self.dim(place.width) if place.width is not None else "1"
        count = tuning.CHECKPOINT_STEPS + 1 if place.kind is not PlaceKind.ROW else 1
        times = "S * " if place.source_axis else f"{count} * " if count > 1 else ""
        self.row_scratch[name] = f"scratch({times}{size}, F)"
        self.function.temporary[name] = count * (place.width or 1) * self.dtype.itemsize, place.source_axis, False
        return name

    def constant(self, value: float) -> str:
        return repr(value)

    # ------------------------------------------------------------ the function

    def write(self) -> Function:
        """Write the function and return it: in the time loop the steps in order, with barriers for threads that divide
        units."""
        active = [
            "        for n in range(low, min(high, first + M)):",
            "            if lengths[n] <= t:",
            "                continue",
        ]
        barrier = [
            "        if units:",
            "            goal += parts",
            "            barrier_wait(table, part, parts, goal)",
        ]
        body, ends = list[str](), self._steps_before_barriers()
        for n, step in enumerate(self.steps):
            body += self._product(step) if isinstance(step, Product) else active + self.row(step, 3)
            if n in ends:
                body += barrier
        sizes = [
            "    first = 0 if units else low",
            "    last = B if units else high",
            "    lowest = T - stop if backwards else start",
            "    goal = 0",
        ]
        loop = [
            "    for step in range(start, stop):",
            *self.step(2),
            # The shortest prefix of the rows that contains all active rows of this step.
            "        M = 0",
            "        for n in range(first, last):",
            "            M = n - first + 1 if lengths[n] > t else M",
            "        if M == 0:",
            "            continue",
            *body,
        ]
        return self._finished(sizes, loop)

    def write_by_rows(self, one: Pass) -> Function:
        """Write the function of a loop without products, with all steps of a row before the next row: a state with
        named axes stays in the cache. In a backward pass such states are computed again from checkpoints."""
        kept = [self._slot_state(place, again=one.again is not None) for place in one.checkpoints]
        once, lines = self._once_and_by_row(self.steps)
        if one.again is None:
            lines = row_loops.steps_of_row(self.step(0), lines, kept)
        else:
            program, self.program = self.program, one.again
            more, again = self._once_and_by_row(one.again.steps)
            self.program, once = program, once + more
            lines = row_loops.replayed_steps(self.step(0), again, lines, kept)
        loop = [*once, "for n in range(low, high):", *(f"    {line}" for line in lines)]
        return self._finished(["    lowest = T - stop if backwards else start"], [f"    {line}" for line in loop])

    def _once_and_by_row(self, steps: Steps) -> tuple[list[str], list[str]]:
        """Return the work that depends on parameters alone, and the work on one row at one step."""
        once = list[str]()
        return once, [line for step in steps if isinstance(step, RowWork) for line in self.row(step, 0, once)]

    def _slot_state(self, checkpoint: Place, *, again: bool) -> row_loops.SlotState:
        """Return the names of a state that is kept in a checkpoint; again: where it is computed from it."""
        name = parse(checkpoint.name).base
        array = ArrayKind.REPLAYED if again else ArrayKind.STATE
        memory = Place(PlaceKind.AGAIN if again else PlaceKind.CARRY, array.of(name), False, checkpoint.width)
        return row_loops.SlotState(self.array(checkpoint), self.array(memory), self.dim(checkpoint.width or 0))

    def _finished(self, sizes: list[str], loop: list[str]) -> Function:
        """Return the function: its parameters, its sizes, the rows of this thread, the scratch of a row, and the loop,
        which has been written before."""
        lines = [
            f"F = {self.dtype.name}",
            "",
            "",
            f"def {self.function.name}(",
            *self._parameters(),
            "):",
            *(f"    {name} = dims[{n}]" for n, name in enumerate(self.dims.values())),
            "    low = bounds[part]",
            "    high = bounds[part + 1]",
            *sizes,
            *(f"    {name} = {size}" for name, size in self.row_scratch.items()),
            *(f"    {slot} = {whole}" for whole, slot in self.written.items()),
            *loop,
            *(f"    release({name})" for name in self.row_scratch),
        ]
        self.function.source = "\n".join(lines) + "\n"
        return self.function

    def step(self, indent: int) -> list[str]:
        """Return the lines that begin a step: its time and the slots of its states. backwards: the loop runs from T - 1
        down, for reversed rows in the forward pass and for the others in the backward pass. flip: the rows are
        reversed, so step t reads slot t + 1 and writes slot t."""
        lines = [
            "t = T - 1 - step if backwards else step",
            "before = t + flip",
            "after = t + 1 - flip",
            "old = step % 2",
            *(f"noalias({slot})" for slot in self.written.values()),
        ]
        return ["    " * indent + line for line in lines]

    def _parameters(self) -> list[str]:
        """Return the lines of the parameter list, in the order of the table."""
        function = self.function
        arrays = [
            f"{self.variable(a)}: {'int64' if parse(a).kind is ArrayKind.INDEX else 'F'}" for a in function.arrays
        ]
        arrays += [f"{self.variable(a)}: F" for a in function.scratch]
        arrays += [f"{Variable.WEIGHT.of(n)}: {self.packed.name}" for n in range(len(function.weights))]
        rows = [["part", "parts", "table"], list(NUMBERS), [f"{name}: int64" for name in INTEGERS]]
        rows += [arrays[n : n + 8] for n in range(0, len(arrays), 8)]
        return [f"    {', '.join(row)}," for row in rows]

    def _steps_before_barriers(self) -> set[int]:
        """Return the numbers of the steps after which threads that divide units must meet; all threads run the same
        steps as often, or the barriers would never open.

        A product writes its thread's columns of all rows and reads all columns; work on rows reads and writes its
        thread's rows. So there is a barrier between steps of different kinds, and before a product that reads what an
        earlier one has written since the last barrier, or writes what an earlier one reads. The last step is followed
        by the first of the next time step, so the second round finds conflicts across that border.
        """
        count = len(self.steps)
        kinds = [isinstance(step, Product) for step in self.steps]
        ends = {n for n in range(count) if kinds[n] != kinds[(n + 1) % count]}
        read, written = set[str](), set[str]()
        for n in range(2 * count):
            step = self.steps[n % count]
            if isinstance(step, Product):
                source, target = (self.program.places[v.id].name for v in (step.x.span[0], step.out))
                if source in written or target in read:
                    ends.add((n - 1) % count)
                    read, written = set[str](), set[str]()
                read.add(source)
                written.add(target)
            if n % count in ends:
                read, written = set[str](), set[str]()
        return ends

    def _product(self, step: Product) -> list[str]:
        x, offset = step.x.span
        source, target = self.program.places[x.id], self.program.places[step.out.id]
        weight = weight_key(step)
        if weight not in self.function.weights:
            self.function.weights.append(weight)
        inner, outer = self.dim(step.x.width or 0), self.dim(step.out.width or 0)
        left = f"address({self.array(source)}, {self.base(source, 'first')} + {self.dim(offset)})"
        right = f"address({self.array(target)}, {self.base(target, 'first')} + begin)"
        stride = self.dim(source.width or 0)
        lines = []
        w = Variable.WEIGHT.of(self.function.weights.index(weight))
        if self.packed in ROUNDING:
            rounded, (round_rows, words) = f"words_{inner}", ROUNDING[self.packed]
            size = words.format(n=inner)
            self.row_scratch[rounded] = f"scratch((last - first) * {size}, uint32)"
            self.function.temporary[rounded] = 4 * words_of(step.x.width or 0, self.packed), False, True
            lines = [f"        {round_rows}({left}, {stride}, M, {inner}, address({rounded}, 0))"]
            left, stride, inner = f"address({rounded}, 0)", size, size
        # The columns are shared among threads in whole panels.
        lines += [
            f"        panels = ({outer} + PANEL - 1) // PANEL",
            f"        begin = min({outer}, panels * part // parts * PANEL) if units else 0",
            f"        end = min({outer}, panels * (part + 1) // parts * PANEL) if units else {outer}",
            f"        {PRODUCT_ROWS[self.packed.name].native.label}(",
            f"            {left}, {stride}, address({w}, begin * {inner}),",
            f"            {right}, {outer}, M, end - begin, {inner}, 0,",
            "        )",
        ]
        if target.kind is PlaceKind.CARRY_OUT:
            # The product also ran over inactive rows of the prefix: restore their values.
            kept = self.store(target, (self.base(target), "j"), self.load(target, (f"(old * B + n) * {outer}", "j")))
            lines += [
                "        for n in range(first, first + M):",
                "            if lengths[n] <= t:",
                "                for j in range(begin, end):",
                f"                    {kept}",
            ]
        return lines

    def row(self, step: RowWork, indent: int, once: list[str] | None = None) -> list[str]:
        """Return the work on one row. once: receives the lines that depend on parameters alone, if it is given."""
        work = row_loops.CPURowWriter(self, indent)
        alone = set() if once is None else row_loops.parameters_alone(step, self.program)
        work.nests(row_loops.parts_of(step.nests, alone, inside=True))
        if once is not None:
            once += work.row.lines
            work.row.lines.clear()
        work.nests(row_loops.parts_of(step.nests, alone, inside=False))
        source = ["c = owner[n]", "ls = source_lengths[c]"] if work.uses_captured else []
        return ["    " * indent + line for line in source] + work.row.lines
