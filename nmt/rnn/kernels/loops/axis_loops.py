"""The loops of one row over named axes, one in the other, in the order of the axes in memory.

Their sizes are constants in the code: the compiler unrolls the innermost loops, and keeps rows of sums in registers.
Such sums are added in order, so that every program gives the same bits. Nests that follow each other share the loop
over their first axis where each of its positions is independent of the others: the state of one head is then read
again while it is in the first cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nmt.errors import ShapeError
from nmt.rnn.compiler.program import Nest, Place, PlaceKind, memory_read
from nmt.rnn.graph import Value
from nmt.rnn.kernels.loops.row_writer import Lines, RowWriter, Variable, axis_index
from nmt.rnn.named_axes import Dims

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


class AxisLoops(RowWriter):
    """Write nests whose features have named axes."""

    def named_axes(self, nests: list[Nest]) -> None:
        """Write nests that share the loop over their first axis. Raises ShapeError: one is over source positions as
        well."""
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
        for line in after:
            outer.add(line)

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
        """Write a sum over the innermost axis."""
        total = Variable.SUM.of(v.id)
        self.summed.add(axis)
        self.outside[axis].add(f"{total} = ZERO")
        self.block(v.args[0]).add(f"{total} += {self.name(v.args[0])}")
        if place.kind is PlaceKind.LOCAL:
            self.locals[v.id] = total
        else:
            at = self.at(place, 0, v.width is not None, v.dims)
            self.axis_ends[axis].append(self.w.store(place, at, total))
