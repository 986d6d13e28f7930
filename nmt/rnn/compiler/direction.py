"""One direction of a plan: its roots split into the three phases, each phase a program.

A value that one phase computes and a later one reads must be stored in between: it crosses. Phases run one after the
other over all steps, so a crossing value is an array with one entry per step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nmt.rnn.arrays.array_names import ArrayKind, Numbered
from nmt.rnn.compiler.fuse import build_program
from nmt.rnn.compiler.phases import Phase, assign_phases, hoist
from nmt.rnn.compiler.program import Place, PlaceKind, Product, Program, StoredValue
from nmt.rnn.compiler.trace import Trace
from nmt.rnn.graph import Value, topological
from nmt.rnn.ops import OpKind


@dataclass(frozen=True)
class Carried:
    """Kinds of places in which a step reads and writes what is passed from step to step.

    `apart`: the names of the arrays of states that have a time loop of their own, in the row work of another `phase`
    (see `apart.py`).
    """

    read: frozenset[PlaceKind]
    written: frozenset[PlaceKind]
    phase: Phase
    apart: frozenset[str] = frozenset()

    def is_apart(self, place: Place) -> bool:
        """Return whether a place is of a state with a loop of its own."""
        return place.name in self.apart and place.kind in self.read | self.written


# States with named axes may be in two slots, as gradients always are, instead of a stack.
STATES = Carried(
    frozenset({PlaceKind.BEFORE, PlaceKind.CARRY}), frozenset({PlaceKind.AFTER, PlaceKind.CARRY_OUT}), Phase.BEFORE
)
# States that are computed again exist in the loop alone, as if they were carried.
_IN_THE_LOOP = frozenset({PlaceKind.CARRY, PlaceKind.AGAIN, PlaceKind.AGAIN_NEXT})
GRADIENTS = Carried(_IN_THE_LOOP, frozenset({PlaceKind.CARRY_OUT}), Phase.AFTER)


def carried_apart(names: Iterable[str]) -> tuple[Carried, Carried]:
    """Return STATES and GRADIENTS with these states apart."""
    of = {STATES: ArrayKind.STATE, GRADIENTS: ArrayKind.STATE_GRADIENT}
    states, gradients = (replace(one, apart=frozenset(map(kind.of, names))) for one, kind in of.items())
    return states, gradients


@dataclass
class Pass:
    """One direction: programs before, inside and after the time loop. `arrays` are the `seq`, `block` and `checkpoint`
    arrays this pass fills.

    `by_rows`: the loop has no product, so each row may run from its first step to its last before the next row begins,
    and its states stay in the cache. `checkpoints`: the states kept before every few steps; `again` computes those in
    between once more, step by step, for a backward pass.
    """

    before: Program
    loop: Program
    after: Program
    arrays: dict[str, Place]
    by_rows: bool = False
    checkpoints: tuple[Place, ...] = ()
    again: Program | None = None

    @property
    def programs(self) -> dict[Phase, Program]:
        """Return the programs in order."""
        return {Phase.BEFORE: self.before, Phase.LOOP: self.loop, Phase.AFTER: self.after}


def phases_of(
    roots: list[StoredValue], known: dict[int, Place], carried: Carried, *, leave_loop: bool = True
) -> dict[int, Phase]:
    """Return the phase of every value that the roots need; arguments as those of `make_pass`."""
    apart = {i for i, place in known.items() if carried.is_apart(place)}
    carried_in = {i for i, place in known.items() if place.kind in carried.read} - apart
    carried_out = [e.value for e in roots if e.place.kind in carried.written and not carried.is_apart(e.place)]
    late = apart if carried.phase is Phase.AFTER else frozenset[int]()
    values, there = [e.value for e in roots], set(known)
    phases = assign_phases(values, carried_in, carried_out, there, late=late, leave_loop=leave_loop)
    for v in (e.value for e in roots if carried.is_apart(e.place)):
        if carried.phase is Phase.BEFORE:
            hoist(v, phases, there)
        elif v.id in phases:
            phases[v.id] = Phase.AFTER
    return phases


def make_pass(
    roots: list[StoredValue], known: dict[int, Place], trace: Trace, carried: Carried, *, leave_loop: bool = True
) -> Pass:
    """Split roots into the three phases and build their programs.

    known: places of values that are in memory before the pass. carried: what is passed from step to step, STATES or
    GRADIENTS. leave_loop: see `assign_phases`.
    """
    phases = phases_of(roots, known, carried, leave_loop=leave_loop)
    by_phase: dict[Phase, list[StoredValue]] = {phase: [] for phase in Phase}
    for e in roots:  # what has two slots only is written in its loop, whenever it was computed
        phase = Phase.LOOP if e.place.kind is PlaceKind.CARRY_OUT else phases.get(e.value.id, Phase.LOOP)
        by_phase[carried.phase if carried.is_apart(e.place) else phase].append(e)
    by_phase[Phase.AFTER] += _copies_apart(roots, known, carried) if carried.phase is Phase.AFTER else []
    for v in _crossing(roots, by_phase, phases, known):
        by_phase[phases[v.id]].append(
            StoredValue(v, Place(PlaceKind.SEQUENCE, Numbered.CROSSING.of(v.id), "S" in v.axes, v.width))
        )
    places = dict(known)
    programs: dict[Phase, Program] = {}
    for phase in Phase:
        scratch = PlaceKind.ROWS if phase is Phase.LOOP else PlaceKind.SEQUENCE
        own = _own_loops(by_phase[phase], known, carried) if phase is carried.phase else {}
        program = build_program(by_phase[phase], places, scratch, allow_wide=not trace.states, own_loops=own)
        programs[phase] = program
        places |= {i: p for i, p in program.places.items() if p.kind in (PlaceKind.SEQUENCE, PlaceKind.AFTER)}
    arrays = {p.name: p for program in programs.values() for p in _written(program) if p.kind is PlaceKind.SEQUENCE}
    return Pass(programs[Phase.BEFORE], programs[Phase.LOOP], programs[Phase.AFTER], arrays)


def _own_loops(roots: list[StoredValue], known: dict[int, Place], carried: Carried) -> dict[int, Value]:
    """Return, by the ids of the leaves that are states apart, the values they have in the next step."""
    new = {e.place.name: e.value for e in roots if carried.is_apart(e.place)}
    return {i: new[place.name] for i, place in known.items() if place.name in new and place.kind in carried.read}


def _copies_apart(roots: list[StoredValue], known: dict[int, Place], carried: Carried) -> list[StoredValue]:
    """Return the copies of gradients of states apart as roots: their slots are overwritten, and work after theirs may
    read them too."""
    order = topological([e.value for e in roots], stop=set(known))
    leaves = {i for i, place in known.items() if carried.is_apart(place)}
    there = known.keys() | {e.value.id for e in roots if e.place.kind is PlaceKind.SEQUENCE}
    copies = [v for v in order if v.op == "expand" and v.args[0].span[0].id in leaves and v.id not in there]
    return [StoredValue(v, Place(PlaceKind.SEQUENCE, Numbered.CROSSING.of(v.id), False, v.width)) for v in copies]


def _crossing(
    roots: list[StoredValue],
    by_phase: dict[Phase, list[StoredValue]],
    phases: dict[int, Phase],
    known: dict[int, Place],
) -> list[Value]:
    """Return values that a phase reads and an earlier one computes, except roots, which are stored anyway."""
    rooted = {e.value.id for e in roots if not e.add and e.place.kind is not PlaceKind.CARRY_OUT}
    crossing: dict[int, Value] = {}

    def cross(values: list[Value]) -> None:
        for v in values:
            if v.id not in rooted:
                crossing.setdefault(v.id, v)

    for phase, entries in by_phase.items():
        early = [e.value for e in entries if phases.get(e.value.id, phase) != phase]
        cross([b for v in early for b in _solid(v, phases, known)])
        cross(_borrowed([e.value for e in entries], phase, phases, known))
    for phase in (Phase.AFTER, Phase.LOOP):  # a crossing value may itself read another one
        cross(_borrowed([v for v in crossing.values() if phases[v.id] is phase], phase, phases, known))
    return list(crossing.values())


def _written(program: Program) -> list[Place]:
    """Return the places that a program fills."""
    places = []
    for step in program.steps:
        if isinstance(step, Product):
            places.append(program.places[step.out.id])
        else:
            places += [e.place for nest in step.nests for e in nest.entries]
    return places


def _borrowed(roots: list[Value], phase: Phase, phases: dict[int, Phase], known: dict[int, Place]) -> list[Value]:
    """Return values of an earlier phase that `roots` read and that must therefore be in memory."""
    found: dict[int, Value] = {}
    for v in topological(roots, stop=set(known)):
        if v.id in known or phases.get(v.id) != phase:
            continue
        for a in v.args:
            if a.id in known or a.kind is OpKind.LEAF or phases[a.id] == phase:
                continue
            for b in _solid(a, phases, known):
                found[b.id] = b
    return list(found.values())


def _solid(v: Value, phases: dict[int, Phase], known: dict[int, Place]) -> list[Value]:
    """Return `v`, or its base where it is only a view: a view needs no buffer of its own."""
    base, _ = v.span
    return [] if v.is_view and (base.id in known or base.kind is OpKind.LEAF) else [base]
