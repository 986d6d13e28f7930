"""The loops of one row over named axes, one in the other, in the order of the axes in memory.

Their sizes are constants in the code: the compiler unrolls the innermost loops, and keeps rows of sums in registers.
Such sums are added in order, so that every program gives the same bits. Nests that follow each other share the loop
over their first axis where each of its positions is independent of the others: the state of one head is then read
again while it is in the first cache.
"""

from __future__ import annotations

import math

from nmt.errors import ShapeError
from nmt.rnn.compiler.program import Nest, Place, PlaceKind
from nmt.rnn.graph import Value
from nmt.rnn.kernels.loops.row_writer import Lines, RowWriter, Variable, axis_index


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
