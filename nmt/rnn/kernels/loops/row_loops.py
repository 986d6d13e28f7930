"""The loops of one row: over source positions, features and named axes, and softmax.

Loops over named axes are one in the other, in the order of the axes in memory. Their sizes are constants in the code:
the compiler unrolls the innermost loops, and keeps rows of sums in registers. Such sums are added in order, so that
every program gives the same bits. Nests that follow each other share the loop over their first axis where each of its
positions is independent of the others: the state of one head is then read again while it is in the first cache.

A time loop without products may run each row from its first step to its last before the next row begins. States with
named axes are large: those of one row stay in the cache, those of all rows would not. A forward pass in training keeps
them before every few steps; the backward pass computes those in between once more, in memory of one row, and goes
through them in the opposite order (Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from nmt.errors import ShapeError
from nmt.rnn import tuning
from nmt.rnn.compiler.program import Nest, Place, PlaceKind, Program, RowWork, memory_read
from nmt.rnn.graph import Value
from nmt.rnn.kernels.loops.row_writer import Lines, RowWriter, Variable, axis_index
from nmt.rnn.kernels.memory.arrays import identity, prefix_rows
from nmt.rnn.named_axes import Dims
from nmt.rnn.rows import Rows, TimeBlock

_SLOTS = {PlaceKind.BEFORE: 0, PlaceKind.CARRY: 0, PlaceKind.AGAIN: 0}
_SLOTS |= {PlaceKind.AFTER: 1, PlaceKind.CARRY_OUT: 1, PlaceKind.AGAIN_NEXT: 1}
"""Kinds of places in the two slots of an array: a step reads the one and writes the other."""


@dataclass(frozen=True)
class _Access:
    """Numbers of a place, from `start` to `stop`, that a nest reads or writes, by its axes."""

    place: Place
    start: int
    stop: int
    dims: Dims
    is_write: bool

    def conflicts(self, other: _Access, axis: Dims) -> bool:
        """Return whether a position of the axis may meet numbers of another position, and one of both writes them."""
        if not (self.is_write or other.is_write) or self.place.name != other.place.name:
            return False
        if {_SLOTS.get(one.place.kind) for one in (self, other)} == {0, 1}:
            return False
        if self.stop <= other.start or other.stop <= self.start:
            return False
        alike = (self.start, self.stop) == (other.start, other.stop)
        return not (alike and self.dims[:1] == axis and other.dims[:1] == axis)


def groups_of(nests: Iterable[Nest], places: Mapping[int, Place]) -> list[list[Nest]]:
    """Return the nests in order, in groups that may share the loop over their first axis. Others are alone."""
    groups, found = list[list[Nest]](), list[_Access]()
    for nest in nests:
        axis, more = nest.dims[:1], list(_accesses(nest, places))
        follows = bool(groups) and bool(axis) and groups[-1][0].dims[:1] == axis
        if follows and not any(one.conflicts(other, axis) for one in found for other in more):
            groups[-1].append(nest)
            found += more
        else:
            groups.append([nest])
            found = more
    return groups


def _accesses(nest: Nest, places: Mapping[int, Place]) -> Iterator[_Access]:
    for entry in nest.entries:
        yield _access(entry.value, entry.place, entry.offset, is_write=True)
        computes = not entry.add and places.get(entry.value.id) == entry.place
        for v, base, start in memory_read(entry.value.args if computes else [entry.value], places):
            yield _access(v, places[base.id], start, is_write=False)


def _access(v: Value, place: Place, start: int, *, is_write: bool) -> _Access:
    return _Access(place, start, start + (v.width or 1), v.dims, is_write)


class CPURowWriter(RowWriter):
    """Write the loops of a CPU: source positions outside, features inside, in sequence. Adjacent source positions of a
    row are B numbers apart in most places. LLVM compiles a loop over them twice, and takes the vectorised version if B
    is 1. That version adds in another order, so a row would have other bits alone than in a batch. Therefore these sums
    are added in order."""

    def named_axes(self, nests: list[Nest]) -> None:
        """Write nests that share the loop over their first axis. Raises ShapeError: one has source positions too."""
        (first, length), *_ = nests[0].dims
        shared, after = Lines(self.row.indent + 1), list[str]()
        self.summed: set[str] = set()
        """Axes whose loops have a sum in a register; `first` for all nests, others for one."""
        for nest in nests:
            if nest.source_axis:
                raise ShapeError("step: a value must have source positions or named axes, got both; sum over one first")
            self.begin(nest)
            self.summed &= {first}
            names = [axis for axis, _ in nest.dims]
            self.axis_blocks = {axis: Lines(shared.indent + n) for n, axis in enumerate(names)} | {first: shared}
            self.outside = dict(zip(names, [self.row, *self.axis_blocks.values()], strict=False))
            """For each axis the block around its loop."""
            self.axis_ends: dict[str, list[str]] = {axis: [] for axis in names} | {first: after}
            for entry in nest.entries:
                self.entry(entry)
            for axis, size in reversed(nest.dims[1:]):
                self._loop(self.outside[axis], axis, size, self.axis_blocks[axis].lines, self.axis_ends[axis])
        self._loop(self.row, first, length, shared.lines, after)

    def _loop(self, outer: Lines, axis: str, size: int, body: list[str], after: list[str]) -> None:
        # A sum in a register has the same bits in every program only if the compiler does not know how long it is.
        outer.add(f"for {axis_index(axis)} in range({self.w.dim(size) if axis in self.summed else size}):")
        outer.lines += body
        outer.add(*after)

    def total(self, v: Value, place: Place) -> None:
        """Write a sum over a named axis: in a register if that is the innermost, else in memory."""
        source, axis = v.args[0], v.attrs["axis"]
        names = [name for name, _ in source.dims]
        inner = math.prod(size for _, size in source.dims[names.index(axis) + 1 :])
        if inner == 1 and names[-1] == axis:
            self._in_register(v, place, axis)
            return
        # Loops over further axes lie inside: the sums are in memory, and begin with zero before the loop over `axis`.
        before = "0"
        for name, size in source.dims[: names.index(axis)]:
            before = axis_index(name) if before == "0" else f"({before} * {size} + {axis_index(name)})"
        start = self.at(place, 0, False)
        first = (*(one for one in start if one != "0"), *([f"{before} * {inner}"] if before != "0" else []))
        self.outside[axis].add(f"for j in range({inner}):")
        self.outside[axis].add("    " + self.w.store(place, (*first, "j"), "ZERO"))
        at = self.at(place, 0, True, v.dims)
        self.block(source).add(self.w.store(place, at, f"in_turn({self.w.load(place, at)}, {self.name(source)})"))

    def _in_register(self, v: Value, place: Place, axis: str) -> None:
        total = Variable.SUM.of(v.id)
        self.summed.add(axis)
        self.outside[axis].add(f"{total} = ZERO")
        self.block(v.args[0]).add(f"{total} += {self.name(v.args[0])}")
        self._keep(v, place, total, self.axis_ends[axis])

    def nests(self, nests: list[Nest]) -> None:
        """Write nests in order."""
        for group in groups_of(nests, self.places):
            if group[0].dims:
                self.named_axes(group)
            else:
                self.nest(group[0])

    def nest(self, nest: Nest) -> None:
        """Write one nest without named axes."""
        self.begin(nest)
        first = nest.entries[0].value
        if first.op == "softmax" and self.computes(nest.entries[0]):
            self._softmax(first, nest.entries[0].place)
            return
        depth = self.row.indent
        self.s_block = Lines(depth + 1) if nest.source_axis else self.row
        self.j_block = self.inner = Lines(depth + 1 + nest.source_axis)
        self.s_end: list[str] = []
        self.row_end: list[str] = []
        for entry in nest.entries:
            self.entry(entry)
        loops = self.s_block if nest.source_axis else self.row
        if self.j_block.lines:
            loops.add(f"for j in range({self.w.dim(nest.width or 0)}):")
            loops.lines += self.j_block.lines
        loops.add(*self.s_end)
        if nest.source_axis:
            self.row.add("for s in range(ls):")
            self.row.lines += self.s_block.lines
        self.row.add(*self.row_end)

    def _keep(self, v: Value, place: Place, name: str, lines: list[str]) -> None:
        if place.kind is PlaceKind.LOCAL:
            self.locals[v.id] = name
        else:
            lines.append(self.w.store(place, self.at(place, 0, v.width is not None, v.dims), name))

    def sum_last(self, v: Value, place: Place) -> None:
        """Write a sum over features."""
        total = Variable.SUM.of(v.id)
        outer = self.s_block if "S" in v.axes else self.row
        outer.add(f"{total} = ZERO")
        self.j_block.add(f"{total} += {self.name(v.args[0])}")
        self._keep(v, place, total, self.s_end)

    def sum_s(self, v: Value, place: Place) -> None:
        """Write a sum over source positions."""
        if v.width is None:
            total = Variable.SUM.of(v.id)
            self.row.add(f"{total} = ZERO")
            self.s_block.add(f"{total} = in_turn({total}, {self.name(v.args[0])})")
            self._keep(v, place, total, self.row_end)
            return
        at = self.at(place, 0, True)
        self.row.add(f"for j in range({self.w.dim(v.width)}):")
        self.row.add(f"    {self.w.store(place, at, 'ZERO')}")
        self.j_block.add(self.w.store(place, at, f"{self.w.load(place, at)} + {self.name(v.args[0])}"))

    def _softmax(self, v: Value, place: Place) -> None:
        source = self.places[v.args[0].id]
        self.s_block = Lines(self.row.indent + 1)
        x, at = self.w.load(source, (self.w.base(source),)), (self.w.base(place),)
        together = all(one.kind in (PlaceKind.ROWS, PlaceKind.ROW) for one in (source, place))
        self.row.add(
            "top = LOWEST",
            "for s in range(ls):",
            f"    top = max(top, {x})",
            "total = ZERO",
            "for s in range(ls):",
            f"    e = exp({x} - top)",
            f"    {self.w.store(place, at, 'e')}",
            "    total += e" if together else "    total = in_turn(total, e)",
            "for s in range(ls):",
            f"    {self.w.store(place, at, f'{self.w.load(place, at)} / total')}",
        )


def row_segments(rows: Rows, wide: bool, block: TimeBlock, *, exact: bool = False) -> np.ndarray:
    """Return the runs of rows that take part in a block of a [T, B, n] array, or with `wide` of a [1, S, B, n] array:
    int64 [runs, 2], the first row and the number of rows of each. A product may also run over inactive rows within a
    prefix. A sum over rows must be `exact`: padding might be NaN or infinite, and additional rows would move the others
    to different blocks of the sum."""
    if rows.ordered and rows.threads == 1 and not wide:
        exact = False  # the prefixes are the active rows

    def find() -> np.ndarray:
        steps = rows.S if wide else block.high - block.low
        if rows.whole and not wide:
            return np.array([[0, steps * rows.B]], np.int64)
        lengths = rows.source_lengths if wide else rows.lengths - block.low
        if not wide and (block.low or block.high < rows.T):
            lengths = np.minimum(np.maximum(lengths, 0), steps)
        bounds = np.array([0, len(lengths)], np.int64) if wide else rows.bounds
        return prefix_rows(lengths, identity(len(lengths) + 1) if exact else bounds, steps)

    return rows.derived(("segments", wide, exact, block.low, block.high), find)


_ENDED = ["if lengths[n] <= t:", "    continue"]
EVERY = tuning.CHECKPOINT_STEPS
"""Steps from checkpoint to checkpoint."""


@dataclass(frozen=True)
class SlotState:
    """A state without a stack: the variables of its checkpoints, of its memory and of its size."""

    checkpoint: str
    memory: str
    size: str


def steps_of_row(step: list[str], body: list[str], kept: list[SlotState]) -> list[str]:
    """Return the loop of one row `n`: `step` begins a step, `body` is its work. kept: states to be kept before the
    first step, and before every step that has a multiple of EVERY steps to go."""
    save = []
    for one in kept:
        target = f"((T - 1 - step) // {EVERY} * B + n) * {one.size}"
        save += _copy(one, f"{one.checkpoint}[{target} + j]", f"{one.memory}[(old * B + n) * {one.size} + j]")
    if save:
        save = [f"if min((T - step) % {EVERY}, step) == 0:", *_indented(save)]
    return ["for step in range(start, stop):", *_indented([*step, *save, *_ENDED, *body])]


def replayed_steps(step: list[str], again: list[str], body: list[str], kept: list[SlotState]) -> list[str]:
    """Return the loop of one row `n` over its steps in the opposite order; a block of time has whole checkpoints.
    again: the work that computes the states after a step from those before it, from slot to slot."""
    load, stay = [], []
    for one in kept:
        load += _copy(one, f"{one.memory}[j]", f"{one.checkpoint}[(chunk * B + n) * {one.size} + j]")
        stay += _copy(one, f"{one.memory}[(slot + 1) * {one.size} + j]", f"{one.memory}[slot * {one.size} + j]")
    replay = [f"step = chunk * {EVERY} + count - 1 - slot", *step]
    replay += ["if lengths[n] <= t:", *_indented([*stay, "continue"]), *again]
    back = [f"step = chunk * {EVERY} + place", "slot = count - 1 - place", *step, *_ENDED, *body]
    chunk = [
        f"count = min({EVERY}, T - chunk * {EVERY})",
        *load,
        "for slot in range(count):",
        *_indented(replay),
        "for place in range(count):",
        *_indented(back),
    ]
    return [f"for chunk in range(start // {EVERY}, (stop + {EVERY - 1}) // {EVERY}):", *_indented(chunk)]


def parameters_alone(step: RowWork, program: Program) -> set[int]:
    """Return the ids of values in scratch of a row that depend on parameters alone: the same for all rows and steps."""
    found = set[int]()
    for entry in (entry for nest in step.nests for entry in nest.entries):
        if entry.value.axes or entry.add or entry.place.kind not in (PlaceKind.ROW, PlaceKind.LOCAL):
            continue
        reads = (base.id for _, base, _ in memory_read(entry.value.args, program.places))
        if all(i in found or program.places[i].kind is PlaceKind.PARAMETER for i in reads):
            found.add(entry.value.id)
    return found


def parts_of(nests: list[Nest], ids: set[int], *, inside: bool) -> list[Nest]:
    """Return the nests with those of their entries alone whose values have these ids; or with the others."""
    parts = (replace(nest, entries=[e for e in nest.entries if (e.value.id in ids) == inside]) for nest in nests)
    return [nest for nest in parts if nest.entries]


def _copy(one: SlotState, target: str, source: str) -> list[str]:
    return [f"for j in range({one.size}):", f"    {target} = {source}"]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
