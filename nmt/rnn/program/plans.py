"""Write the plans of the processor as steps of a program: their functions, products and packed weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nmt.rnn import tuning
from nmt.rnn.arrays.array_names import ArrayKind, parse
from nmt.rnn.arrays.weights import QUADS, Weights, quantise
from nmt.rnn.compiler.program import Place, PlaceKind, Product
from nmt.rnn.kernels.loops.row_writer import Function, Weight, weight_key
from nmt.rnn.kernels.loops.run_cpu import CPUExecutable
from nmt.rnn.kernels.machine_code.recipes import generated_loop
from nmt.rnn.kernels.memory.moves import copy_columns, fill_slots
from nmt.rnn.kernels.products.microkernel import ROW_BLOCK
from nmt.rnn.kernels.products.packing import PACKING, PANEL_BYTES, packed_size, words_of
from nmt.rnn.kernels.products.product import product_task
from nmt.rnn.kernels.program.run_program import Section, Step, divide
from nmt.rnn.program.program import Array, Number, Program, Value, Word, pieces, product
from nmt.rnn.rows import Sharing
from nmt.rnn.scan.scan import Scan

FLOAT = np.dtype(np.float32)
Named = dict[str, Word]


@dataclass
class RowsOf:
    """The rows of a run, all of T steps: B rows, S source positions. shared: by the name of an array, the index by
    which rows read it; and the arrays `owner` and `source_lengths` if rows read one of `captured` sources of any
    lengths."""

    T: Number
    B: Number
    S: Number = 1
    reverse: bool = False
    captured: Number | None = None
    shared: Mapping[str, Word] | None = None


class Plans(Program):
    """A program with the weights of a model, packed once, for a number of threads. arrays_by_name: what it reads of the
    model; packed: the words of packed weights."""

    def __init__(self, weights: Weights, packed_kind: np.dtype, threads: int) -> None:
        super().__init__()
        self.weights, self.packed_kind, self.threads = weights, packed_kind, threads
        self.arrays_by_name: dict[str, np.ndarray] = {}
        self.packed: dict[Weight, Word] = {}

    # ------------------------------------------------------------ weights

    def model_array(self, name: str, array: np.ndarray) -> Word:
        """Return an array of the model."""
        self.arrays_by_name.setdefault(name, np.ascontiguousarray(array))
        return self.array(name)

    def matrix(self, name: str, *, by_rows: bool) -> list[Word]:
        """Return a matrix, in int8 with scales if products are computed so."""
        held = self.weights.quantised(name)
        if self.packed_kind != QUADS:
            return [self.model_array(name, self.weights[name])]
        if held is None or held.by_rows != by_rows:
            held, name = quantise(self.weights[name], by_rows=by_rows), f"{name}.other"
        return [self.model_array(name, held.numbers), self.model_array(f"{name}.scales", held.scales)]

    def weight(self, name: str, start: int, rows: int, transposed: bool) -> Word:
        """Return a packed weight: rows of a matrix, or their transpose."""
        key = name, start, rows, transposed
        if key not in self.packed:
            self.packed[key] = self.new_word()
        return self.packed[key]

    def pack(self) -> None:
        """Write the section that packs all weights."""
        self.begin(Section.PACK)
        for (name, start, rows, transposed), word in self.packed.items():
            extents = self.weights.shape(name)
            own, *scales = self.matrix(name, by_rows=transposed)
            given: list[Array] = [("int8" if scales else "float32", own, *extents)]
            given += [("float32", one, extents[0 if transposed else 1]) for one in scales]
            size, K = self._packed_bytes(name, rows, transposed), extents[1] if transposed else rows
            out = str(self.packed_kind), self.buffer(size, into=word), size // 4
            packing = PACKING[self.packed_kind, transposed]
            self.kernel(packing, *given, start, start + rows, out, temporary=pieces(4 * K + PANEL_BYTES))

    # ------------------------------------------------------------ plans

    def plan(self, executable: Any, prefix: str, at: Named, rows: RowsOf) -> None:
        """Run a plan for inference with the parameters below a prefix; its arrays by name are added to `at`."""
        plan = on_processor(executable)
        self._make_arrays(plan, at, rows)
        for phase, step in plan.forward_module.steps:
            program = plan.plan.forward.programs[phase]
            if isinstance(step, Product):
                self._product(step, program.places, prefix, at, rows)
                continue
            found = self._divisions(step, program.row_size, prefix, rows.B, 1, rows.T) if self.threads > 1 else None
            shared: list[Any] = (
                [0, 1, self.words([0, rows.B])] if found is None else [self.load(found, n) for n in range(3)]
            )
            units, parts, bounds = shared
            table = self._table_of(plan, step, prefix, at, rows, [units, bounds])
            self.call(self.function(generated_loop(step.source, step.name)), table, _temporary(step, rows), parts)

    def _make_arrays(self, plan: CPUExecutable, at: Named, rows: RowsOf, *, zeros: bool = False) -> None:
        """Make those arrays of a plan that are not given."""
        for name, place in plan.plan.forward.arrays.items():
            if name not in at:
                at[name] = self._array_at(place, rows, rows.T, zeros=zeros)

    def _array_at(self, place: Place, rows: RowsOf, T: Number = 1, *, zeros: bool = False) -> Word:
        return self.floats(T, rows.S if place.source_axis else 1, rows.B, place.width or 1, zeros=zeros)

    def single(self, executable: Any, prefix: str, at: Named, rows: RowsOf) -> Named:
        """Return the code and the table of a plan that is one function, for another function that calls it, and how
        threads share it for up to B rows."""
        plan = on_processor(executable)
        self._make_arrays(plan, at, rows, zeros=True)
        ((phase, step),) = plan.forward_module.steps
        if isinstance(step, Product):
            raise RuntimeError("a part of a step must be one function")
        self.note_temporary(_temporary(step, rows))
        row_size, code = plan.plan.forward.programs[phase].row_size, generated_loop(step.source, step.name)
        divisions = self._divisions(step, row_size, prefix, 0, rows.B + 1)
        table = self._table_of(plan, step, prefix, at, rows, [0, divisions])
        return {"code": self.function(code), "table": table, "divisions": divisions}

    def _divisions(
        self, step: Function, row_size: int, prefix: str, first: Number, count: Number, T: Number = 1
    ) -> Word:
        """Return how threads share a function for `first` rows, and one more each time: see `divide`."""
        size = sum(self._packed_bytes(f"{prefix}{name}", rows, end) for name, _, rows, end in step.weights)
        sharing, width = Sharing(self.threads, None, size, row_size if size else 0), self.threads + 1
        out, bounds = self.buffer(24 * count), self.buffer(product(8, count, width))
        arrays = ("int64", out, count, 3), ("int64", bounds, count, width)
        self.kernel(divide, *arrays, bounds, first, T, sharing.row_size, self.threads, *sharing.rules)
        return out

    def _packed_bytes(self, name: str, rows: int, transposed: bool) -> int:
        columns = self.weights.shape(name)[1]
        return 4 * packed_size(*((columns, rows) if transposed else (rows, columns)), self.packed_kind)

    def _table_of(
        self, plan: CPUExecutable, step: Function, prefix: str, at: Named, rows: RowsOf, shared_by: Sequence[Any]
    ) -> Word:
        """Return the table of a generated function: see `emit_cpu.NUMBERS` and `INTEGERS`. shared_by: whether threads
        divide units, and their bounds."""
        T, B, S, flag, shared = rows.T, rows.B, rows.S, int(rows.reverse), rows.shared or {}
        owner = shared.get("owner") or self.filled(B, 0, 1)
        lengths, source_lengths = self.filled(B, T), shared.get("source_lengths") or self.filled(B, S)
        units, bounds = shared_by
        captured = B if rows.captured is None else rows.captured
        values: list[Value] = [*[0] * 8, units, 0, T, T, B, captured, S, flag, flag]
        values += [bounds, self.words(plan.forward_module.dims), lengths, source_lengths, owner]
        for name in step.arrays:
            kind, base = parse(name)
            if name in at:
                values.append(at[name])
            elif kind is ArrayKind.PARAMETER:
                values.append(self.model_array(f"{prefix}{base}", self.weights[f"{prefix}{base}"]))
            elif kind is ArrayKind.INDEX:
                values.append(shared.get(base, owner))
            else:
                raise RuntimeError(f"{step.name}: no memory for {name}")
        values += [self._array_at(place, rows) for place in step.scratch.values()]
        return self.words(values + [self._weight(weight, prefix) for weight in step.weights])

    def _weight(self, weight: Weight, prefix: str) -> Word:
        name, start, rows, transposed = weight
        return self.weight(f"{prefix}{name}", start, rows, transposed)

    def _product(self, step: Product, places: Mapping[int, Place], prefix: str, at: Named, rows: RowsOf) -> None:
        x, offset = step.x.span
        source, target, K = places[x.id], places[step.out.id], step.x.width or 0
        count, width = product(rows.S if source.source_axis else rows.T, rows.B), source.width or 0
        left = at[source.name]
        if source.kind in _STACKS and (source.kind is PlaceKind.AFTER) != rows.reverse:
            left = left + product(4, width, rows.B)
        values = [offset, width, 0, target.width, K, step.out.width, 1, 0]
        operands = [left, self._weight(weight_key(step), prefix), at[target.name], self.words([0, count])]
        room = pieces(
            4 * ROW_BLOCK * words_of(K, self.packed_kind), 16 * (2 + self.computed(Step.QUOTIENT, count, ROW_BLOCK))
        )
        table = self.words([*[0] * 8, *values, *operands])
        parts: Number = 1
        if self.threads > 1:
            size = product(count, K * (step.out.width or 0)) + 1
            is_large = self.computed(Step.QUOTIENT, size, max(1, tuning.ALONE_BELOW)) + -1
            parts = product(self.computed(Step.LEAST, is_large, 1), self.threads - 1) + 1
        self.call(self.function(product_task(FLOAT, self.packed_kind)), table, room, parts)

    def scan(
        self,
        scan: Scan,
        prefix: str,
        x: Word,
        rows: RowsOf,
        *,
        given: Mapping[str, Word] | None = None,
        initial: Mapping[str, Word] | None = None,
        single_step: bool = False,
    ) -> tuple[Word, Named]:
        """Run a cell over x [T, B, n]; return y [T, B, n] and the final states [B, n]. given: captured arrays, and what
        is constant over time, by the names of the arrays. initial: states [B, n], those of the cell where there are
        none."""
        compiled = scan.compiled(training=False, single_step=single_step)
        at, final, learned = {"x": x, **(given or {})}, Named(), scan.cell.learned()
        for name, width in scan.states.items():
            slot = product(4, rows.B, width)
            stack = at[ArrayKind.STATE.of(name)] = self.buffer(product(rows.T + 1, slot))
            end = stack + product(rows.T, slot)
            first, final[name] = (end, stack) if rows.reverse else (stack, end)
            start = (initial or {}).get(name)
            if start is not None:
                self.beside([(start, width)], rows.B, into=first)
                continue
            parameter = f"{prefix}{learned[name]}" if name in learned else None
            start = first if parameter is None else self.model_array(parameter, self.weights[parameter])
            slots, is_given = ("float32", first, rows.B, 1, width), parameter is not None
            self.kernel(fill_slots, slots, ("float32", start, 1, width), is_given)
        self.plan(compiled.step, prefix, at, rows)
        y, size = on_processor(compiled.step).plan.outputs["y"], scan.cell.output_size
        is_later = y.kind is PlaceKind.AFTER and not rows.reverse
        return at[y.name] + (product(4, rows.B, size) if is_later else 0), final

    def constants(self, scan: Scan, prefix: str, captured: Named, rows: RowsOf) -> Named:
        """Return captured arrays, by the names of the arrays, with what a scan computes of them alone."""
        compiled = scan.compiled(training=False)
        found = {ArrayKind.CAPTURED.of(name): array for name, array in captured.items()}
        if compiled.constant is not None:
            at = dict(found)
            self.plan(compiled.constant, prefix, at, rows)
            found |= {name: at[place.name] for name, place in on_processor(compiled.constant).plan.outputs.items()}
        return found

    def beside(self, parts: Sequence[tuple[Word, int]], rows: Number, into: Word | None = None) -> Word:
        """Return arrays [rows, n] of these widths side by side; one alone is not copied, unless into `into`."""
        if len(parts) == 1 and into is None:
            return parts[0][0]
        width, first = sum(n for _, n in parts), 0
        out = into or self.floats(rows, width)
        for part, n in parts:
            self.kernel(copy_columns, ("float32", part, rows, n), 0, ("float32", out, rows, width), first, n)
            first += n
        return out


_STACKS = PlaceKind.BEFORE, PlaceKind.AFTER


def _temporary(step: Function, rows: RowsOf) -> Number:
    """Return the bytes that a generated function takes for itself."""
    every = [
        product(size, rows.S if by_source else 1, rows.B if by_row else 1)
        for size, by_source, by_row in step.temporary.values()
    ]
    return pieces(*every) if every else 0


def on_processor(executable: Any) -> CPUExecutable:
    """Return a plan. Raises TypeError: it is not the processor's."""
    if not isinstance(executable, CPUExecutable):
        raise TypeError(f"a program has plans of the processor, got {type(executable).__name__}")
    return executable
