"""The loops of one row over named axes, one in the other, in the order of the axes in memory."""

from __future__ import annotations

import math

from nmt.errors import ShapeError
from nmt.rnn.compiler.program import Nest, Place, PlaceKind
from nmt.rnn.graph import Value
from nmt.rnn.kernels.loops.row_writer import Lines, RowWriter, Variable, axis_index


class AxisLoops(RowWriter):
    """Write nests whose features have named axes."""

    def named_axes(self, nest: Nest) -> None:
        """Write one nest. Raises ShapeError: it is over source positions as well."""
        if nest.source_axis:
            raise ShapeError("step: a value must have source positions or named axes, got both; sum over one first")
        depth, names = self.row.indent, [axis for axis, _ in nest.dims]
        self.axis_blocks = {axis: Lines(depth + n) for n, axis in enumerate(names, 1)}
        self.outside = dict(zip(names, [self.row, *self.axis_blocks.values()], strict=False))
        """For each axis the block around its loop."""
        self.axis_ends: dict[str, list[str]] = {axis: [] for axis in names}
        for entry in nest.entries:
            self.entry(entry)
        for axis, size in reversed(nest.dims):
            outer = self.outside[axis]
            outer.add(f"for {axis_index(axis)} in range({self.w.dim(size)}):")
            outer.lines += self.axis_blocks[axis].lines
            for line in self.axis_ends[axis]:
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
            before = axis_index(name) if before == "0" else f"({before} * {self.w.dim(size)} + {axis_index(name)})"
        start = self.at(place, 0, False)
        first = (*(one for one in start if one != "0"), *([f"{before} * {self.w.dim(inner)}"] if before != "0" else []))
        self.outside[axis].add(f"for j in range({self.w.dim(inner)}):")
        self.outside[axis].add("    " + self.w.store(place, (*first, "j"), "ZERO"))
        at = self.at(place, 0, True, v.dims)
        self.block(source).add(self.w.store(place, at, f"{self.w.load(place, at)} + {self.name(source)}"))

    def _in_register(self, v: Value, place: Place, axis: str) -> None:
        """Write a sum over the innermost axis."""
        total = Variable.SUM.of(v.id)
        self.outside[axis].add(f"{total} = ZERO")
        self.block(v.args[0]).add(f"{total} += {self.name(v.args[0])}")
        if place.kind is PlaceKind.LOCAL:
            self.locals[v.id] = total
        else:
            at = self.at(place, 0, v.width is not None, v.dims)
            self.axis_ends[axis].append(self.w.store(place, at, total))
