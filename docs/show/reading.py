"""The work of a plan as a list to read: one `Work` for each product and each piece of row work.

A program names only values that reach memory; the values computed in registers on the way are found in the same way as
the emitters find them (`kernels/loops/row_writer.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from nmt.rnn.compiler.direction import Pass
from nmt.rnn.compiler.phases import Phase
from nmt.rnn.compiler.program import Nest, Place, Product, Program, StoredValue, memory_of
from nmt.rnn.graph import Value
from nmt.rnn.named_axes import Dims


@dataclass(frozen=True)
class Loops:
    """One loop nest of a row: over source positions (`source_axis`) and features (`width`, or `dims` with names), the
    values it computes in order, and the destination of each value."""

    source_axis: bool
    width: int | None
    dims: Dims
    values: list[Value]
    entries: list[StoredValue]


@dataclass(frozen=True)
class Work:
    """One step of a program: a product over all rows, or loops over each row. `values` are computed here, in order.

    again: the work on states that are computed once more, from one checkpoint to the next.
    """

    phase: Phase
    product: Product | None
    loops: list[Loops]
    values: list[Value]
    written: dict[int, list[Place]]
    again: bool = False

    @property
    def title(self) -> str:
        """Return the kind of work."""
        if self.product is not None:
            return "product, all rows at once"
        loops = "one fused loop" if len(self.loops) == 1 else f"{len(self.loops)} loops"
        return f"row work{' from checkpoints' if self.again else ''}, {loops} for each row"


def works(one: Pass) -> list[Work]:
    """Return all steps of one direction, in order."""
    found = {phase: list(_works(phase, program)) for phase, program in one.programs.items()}
    again = _works(Phase.LOOP, one.again) if one.again else ()
    found[Phase.LOOP] = [*(replace(work, again=True) for work in again), *found[Phase.LOOP]]
    return [work for phase in found.values() for work in phase]


def _works(phase: Phase, program: Program) -> Iterator[Work]:
    for step in program.steps:
        if isinstance(step, Product):
            yield Work(phase, step, [], [step.out], {step.out.id: [program.places[step.out.id]]})
            continue
        loops = [Loops(n.source_axis, n.width, n.dims, list(_computed(program, n)), n.entries) for n in step.nests]
        written: dict[int, list[Place]] = {}
        for nest in loops:
            for entry in nest.entries:
                written.setdefault(entry.value.id, []).append(entry.place)
        values = {v.id: v for nest in loops for v in nest.values}
        for joined in _joined(program, loops):
            values[joined.id] = joined
            written[joined.id] = [program.places[joined.id]]
        yield Work(phase, None, loops, list(values.values()), written)


def _computed(program: Program, nest: Nest) -> Iterator[Value]:
    """Yield the values a nest computes: everything its entries need that is not in memory, arguments first."""
    places, done, found = program.places, set[int](), set[int]()

    def visit(v: Value, computing: bool) -> Iterator[Value]:
        base, _ = memory_of(v, places)
        if v.id in found or v.op == "const" or (base.id in places and not (computing and base is v)):
            return
        found.add(v.id)
        for a in v.args:
            yield from visit(a, False)
        yield v

    for entry in nest.entries:
        v = entry.value
        computing = not entry.add and places.get(v.id) == entry.place and v.id not in done
        done.add(v.id)
        yield from visit(v, computing)


def _joined(program: Program, loops: list[Loops]) -> list[Value]:
    """Return concatenations whose parts these loops write: they need no code, since the parts are adjacent in
    memory."""
    by_id = {v.id: v for nest in loops for e in nest.entries for v in e.value.graph.values if v.op == "concat"}
    targets = {(e.value.id, e.place.name) for nest in loops for e in nest.entries}
    found = []
    for i in sorted(by_id.keys() & program.places.keys()):
        if (by_id[i].args[-1].id, program.places[i].name) in targets:
            found.append(by_id[i])
    return found
