"""The loops of one row on a CPU: over source positions and features, and softmax."""

from __future__ import annotations

from nmt.rnn.compiler.program import Nest, Place, PlaceKind
from nmt.rnn.graph import Value
from nmt.rnn.kernels.loops.axis_loops import AxisLoops, groups_of
from nmt.rnn.kernels.loops.row_writer import Lines, Variable


class CPURowWriter(AxisLoops):
    """Write the loops of a CPU: source positions outside, features inside, in sequence.

    Adjacent source positions of a row are B numbers apart in most places. LLVM compiles a loop over them twice, and
    takes the vectorised version if B is 1. That version adds in another order, so a row would have other bits alone
    than in a batch. Therefore these sums are added in order.
    """

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
        for line in self.s_end:
            loops.add(line)
        if nest.source_axis:
            self.row.add("for s in range(ls):")
            self.row.lines += self.s_block.lines
        for line in self.row_end:
            self.row.add(line)

    def _keep(self, v: Value, place: Place, name: str, lines: list[str]) -> None:
        if place.kind is PlaceKind.LOCAL:
            self.locals[v.id] = name
        else:
            lines.append(self.w.store(place, self.at(place, 0, False), name))

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
        for line in (
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
        ):
            self.row.add(line)
