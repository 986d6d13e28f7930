"""The loops of a row on a GPU: a block of threads per row, or several blocks where its features are independent.

| nest over | threads process | positions |
|---|---|---|
| features | features | |
| source positions | positions | |
| both | features | one after the other, in each thread |
| both, sums over features | features, by a warp's lanes | one per warp |

There is a barrier between nests, since a thread may read what another has written.
"""

from __future__ import annotations

from nmt.rnn.compiler.program import Nest, Place, PlaceKind, RowWork, StoredValue
from nmt.rnn.graph import Value
from nmt.rnn.kernels.loops.row_writer import Lines, RowWriter, Terms, Variable

SYNC_BLOCK = "cuda.syncthreads()"


def features_are_independent(step: RowWork) -> bool:
    """Return whether no feature of a row depends on another, so that several blocks may share a row."""
    (nest, *more) = step.nests
    entries = nest.entries
    plain = nest.width is not None and not nest.source_axis and all(e.value.width is not None for e in entries)
    return plain and not more


class CudaRows(RowWriter):
    """A writer of the nests of one row."""

    uses_parts = False
    """Whether a sum over the block needs shared memory."""

    def nest(self, nest: Nest) -> None:
        """Write one nest, after a barrier if it is not the first."""
        if self.row.lines:
            self.row.add(SYNC_BLOCK)
        self.begin(nest)
        first = nest.entries[0]
        if first.value.op == "softmax" and self.computes(first):
            self._softmax(first.value, first.place)
            return
        if not (nest.source_axis and nest.width is not None):
            self._loops(nest, nest.entries)
            return
        # Sums over features come last: the other entries have stored their operands by then.
        sums = [e for e in nest.entries if e.value.op == "sum_last" and self.computes(e)]
        rest = [e for e in nest.entries if e not in sums]
        if rest:
            self._features_outside(nest, rest)
        if rest and sums:
            self.row.add(SYNC_BLOCK)
        if sums:
            self._positions_outside(nest, sums)

    # ------------------------------------------------------------ forms

    def _loops(self, nest: Nest, entries: list[StoredValue]) -> None:
        """Write loops in which threads process features or positions; without either, all do the same."""
        self.begin(nest)
        looped = nest.source_axis or nest.width is not None
        self.inner = Lines(self.row.indent + 1) if looped else self.row
        self.s_block = self.inner if nest.source_axis else self.row
        self.j_block = self.inner if nest.width is not None else self.row
        self.end: list[str] = []
        for entry in entries:
            self.entry(entry)
        if looped and self.inner.lines:
            index, size = ("s", "ls") if nest.source_axis else ("j", self.w.dim(nest.width or 0))
            self.row.add(f"for {index} in range(thread, {size}, threads):")
            self.row.lines += self.inner.lines
        for line in self.end:
            self.row.add(line)

    def _features_outside(self, nest: Nest, entries: list[StoredValue]) -> None:
        self.begin(nest)
        self.j_block = Lines(self.row.indent + 1)
        self.s_block = self.inner = Lines(self.row.indent + 2)
        self.end = []
        for entry in entries:
            self.entry(entry)
        self.row.add(f"for j in range(thread, {self.w.dim(nest.width or 0)}, threads):")
        self.row.lines += self.j_block.lines
        self.row.add("    for s in range(ls):")
        self.row.lines += self.inner.lines
        for line in self.end:
            self.row.add(f"    {line}")

    def _positions_outside(self, nest: Nest, entries: list[StoredValue]) -> None:
        self.begin(nest)
        self.s_block = Lines(self.row.indent + 1)
        self.j_block = self.inner = Lines(self.row.indent + 2)
        self.end = []
        for entry in entries:
            self.entry(entry)
        self.row.add("for s in range(thread // 32, ls, threads // 32):")
        self.row.lines += self.s_block.lines
        self.row.add(f"    for j in range(thread % 32, {self.w.dim(nest.width or 0)}, 32):")
        self.row.lines += self.inner.lines
        for line in self.end:
            self.row.add(f"    {line}")

    # ------------------------------------------------------------ numbers and sums

    def put(self, block: Lines, place: Place, at: Terms, value: str) -> None:
        """Write a number at the loops' present position; only one thread writes if all compute it."""
        line = self.w.store(place, at, value)
        block.add(f"if thread == 0: {line}" if block is self.row else line)

    def sum_last(self, v: Value, place: Place) -> None:
        """Write a sum over features: by a warp for each source position, else by the block."""
        total = Variable.SUM.of(v.id)
        if "S" in v.axes:
            self.s_block.add(f"{total} = ZERO")
            self.inner.add(f"{total} += {self.name(v.args[0])}")
            # Offsets of the place belong to the position.
            at = self.at(place, 0, False)
            self.end += [f"{total} = warp_sum({total})", f"if thread % 32 == 0: {self.w.store(place, at, total)}"]
            return
        self.row.add(f"{total} = ZERO")
        self.inner.add(f"{total} += {self.name(v.args[0])}")
        self._over_block(v, place, total)

    def sum_s(self, v: Value, place: Place) -> None:
        """Write a sum over source positions: by the block, or in each thread for its features."""
        total = Variable.SUM.of(v.id)
        if v.width is None:
            self.row.add(f"{total} = ZERO")
            self.inner.add(f"{total} += {self.name(v.args[0])}")
            self._over_block(v, place, total)
            return
        self.j_block.add(f"{total} = ZERO")
        self.inner.add(f"{total} += {self.name(v.args[0])}")
        self.end.append(self.w.store(place, self.at(place, 0, True), total))

    def _over_block(self, v: Value, place: Place, total: str) -> None:
        self.uses_parts = True
        self.end.append(f"{total} = block_sum({total}, parts)")
        if place.kind is PlaceKind.LOCAL:
            self.locals[v.id] = total
        else:
            self.end.append(f"if thread == 0: {self.w.store(place, self.at(place, 0, False), total)}")

    def _softmax(self, v: Value, place: Place) -> None:
        source = self.places[v.args[0].id]
        self.uses_parts = True
        x, at = self.w.load(source, (self.w.base(source),)), (self.w.base(place),)
        for line in (
            "top = LOWEST",
            "for s in range(thread, ls, threads):",
            f"    top = max(top, {x})",
            "top = block_max(top, parts)",
            "total = ZERO",
            "for s in range(thread, ls, threads):",
            f"    e = exp({x} - top)",
            f"    {self.w.store(place, at, 'e')}",
            "    total += e",
            "total = block_sum(total, parts)",
            "for s in range(thread, ls, threads):",
            f"    {self.w.store(place, at, f'{self.w.load(place, at)} / total')}",
        ):
            self.row.add(line)
