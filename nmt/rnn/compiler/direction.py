"""One direction of a plan: its roots split into the three phases, each phase a program.

A root is a value and the place it is written to. Everything else is computed only because a root needs it.
A value that one phase computes and a later one reads must be stored in between: it crosses. Phases run one after the
other over all steps, so a crossing value is an array with one entry per step.

Pass 3b, loops apart: states whose recurrence has no product and reads no other state, as a short convolution's.

If a product reads such a state and what it computes is carried, the product would be in the time loop, one step at a
time, although the state is known for all steps before the loop begins. So the state gets a time loop of its own, in
row work before the main loop; in the backward pass its gradient gets one after the main loop. The product is computed
for all steps at once. This is loop distribution by the strongly connected parts of a step's states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from nmt.rnn.arrays.array_names import ArrayKind, Numbered, parse
from nmt.rnn.compiler.differentiate import Sink, differentiate
from nmt.rnn.compiler.fuse import build_program
from nmt.rnn.compiler.phases import Phase, assign_phases, hoist
from nmt.rnn.compiler.program import Place, PlaceKind, Product, Program, StoredValue
from nmt.rnn.compiler.trace import Trace
from nmt.rnn.graph import Value, reached, topological
from nmt.rnn.named_axes import attribute
from nmt.rnn.ops import OpKind


@dataclass(frozen=True)
class Carried:
    """Kinds of places in which a step reads and writes what is passed from step to step. `apart`: the names of the
    arrays of states that have a time loop of their own, in the row work of another `phase` (see `loops_apart`)."""

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
    arrays this pass fills. `by_rows`: the loop has no product, so each row may run from its first step to its last
    before the next row begins, and its states stay in the cache. `checkpoints`: the states kept before every few steps;
    `again` computes those in between once more, step by step, for a backward pass."""

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
    """Split roots into the three phases and build their programs. known: places of values that are in memory before the
    pass. carried: what is passed from step to step, STATES or GRADIENTS. leave_loop: see `assign_phases`."""
    phases = phases_of(roots, known, carried, leave_loop=leave_loop)
    by_phase: dict[Phase, list[StoredValue]] = {phase: [] for phase in Phase}
    for e in roots:  # what has two slots only is written in its loop, whenever it was computed
        phase = Phase.LOOP if e.place.kind is PlaceKind.CARRY_OUT else phases.get(e.value.id, Phase.LOOP)
        by_phase[carried.phase if carried.is_apart(e.place) else phase].append(e)
    by_phase[Phase.AFTER] += _copies_apart(roots, known, carried) if carried.phase is Phase.AFTER else []
    for v in _crossing(roots, by_phase, phases, known):
        place = Place(PlaceKind.SEQUENCE, Numbered.CROSSING.of(v.id), "S" in v.axes, v.width)
        by_phase[phases[v.id]].append(StoredValue(v, place))
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
    """Return copies of gradients of states apart as roots: later work may read them after their slots change."""
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
        cross([b for v in early for b in _solid(v, known)])
        cross(_borrowed([e.value for e in entries], phase, phases, known))
    for phase in (Phase.AFTER, Phase.LOOP):  # a crossing value may itself read another one
        cross(_borrowed([v for v in crossing.values() if phases[v.id] is phase], phase, phases, known))
    return list(crossing.values())


def _written(program: Program) -> list[Place]:
    places = []
    for step in program.steps:
        if isinstance(step, Product):
            places.append(program.places[step.out.id])
        else:
            places += [e.place for nest in step.nests for e in nest.entries]
    return places


def _borrowed(roots: list[Value], phase: Phase, phases: dict[int, Phase], known: dict[int, Place]) -> list[Value]:
    """Return values of an earlier phase that `roots` read and that must therefore be in memory."""
    own = [v for v in topological(roots, stop=set(known)) if v.id not in known and phases.get(v.id) == phase]
    read = [a for v in own for a in v.args if a.id not in known and a.kind is not OpKind.LEAF]
    return list({b.id: b for a in read if phases[a.id] != phase for b in _solid(a, known)}.values())


def _solid(v: Value, known: dict[int, Place]) -> list[Value]:
    """Return `v`, or its base where it is only a view: a view needs no buffer of its own."""
    base, _ = v.span
    return [] if v.is_view and (base.id in known or base.kind is OpKind.LEAF) else [base]


def leaf_places(trace: Trace, *, slots: bool = False) -> dict[int, Place]:
    """Return the places of a step's leaves, by value. Matrices have no place: only products read them, packed. slots:
    states with named axes are in two slots instead of a stack."""
    places: dict[int, Place] = {}
    for name, v in trace.leaves.items():
        wide = "S" in v.axes
        if v.op == "input":
            places[v.id] = Place(PlaceKind.SEQUENCE, name, wide, v.width)
        elif v.op == "state":
            places[v.id] = Place(PlaceKind.CARRY if slots and v.dims else PlaceKind.BEFORE, name, False, v.width)
        elif v.op == "captured":
            places[v.id] = Place(PlaceKind.CONSTANT, name, wide, v.width)
        elif v.op == "param" and "rows" not in v.attrs:
            places[v.id] = Place(PlaceKind.PARAMETER, name, False, v.width)
    return places


def cotangent_places(trace: Trace) -> dict[int, Place]:
    """Return the places of incoming gradients, by value: an entry per step for outputs, two slots for states."""
    places: dict[int, Place] = {}
    for v in trace.graph.values:
        if v.op == "cotangent":
            name = v.attrs["name"]
            kind = PlaceKind.CARRY if parse(name).kind is ArrayKind.STATE_GRADIENT else PlaceKind.SEQUENCE
            places[v.id] = Place(kind, name, "S" in v.axes, v.width)
    return places


def forward_roots(trace: Trace, *, slots: bool = False) -> tuple[list[StoredValue], dict[str, Place]]:
    """Return the roots of a step, and the places of its outputs by name; slots: see `leaf_places`. New states go into
    the slot after the step, outputs into separate arrays; an output that is a state has its place."""
    roots = []
    for name, v in trace.new.items():
        kind = PlaceKind.CARRY_OUT if slots and v.dims else PlaceKind.AFTER
        roots.append(StoredValue(_written_by_row(v), Place(kind, ArrayKind.STATE.of(name), False, v.width)))
    stacks = [e for e in roots if e.value.kind is not OpKind.LEAF and e.place.kind is PlaceKind.AFTER]
    stacked = {e.value.id: e.place for e in reversed(stacks)}
    outputs = {
        k: stacked.get(v.id) or Place(PlaceKind.SEQUENCE, k, "S" in v.axes, v.width) for k, v in trace.outputs.items()
    }
    return roots + [StoredValue(v, outputs[k]) for k, v in trace.outputs.items() if v.id not in stacked], outputs


def _written_by_row(v: Value) -> Value:
    """Return the value, copied if it is a product. A product writes all rows up to the last active one, but a state's
    slot may be written for active rows only."""
    return v.graph._make("expand", (v,), v.axes, v.width, {}) if v.kind is OpKind.PRODUCT else v


@dataclass
class BackwardRoots:
    """The roots of the backward direction, the sums that are gradients of parameters, and the places of gradients of
    inputs and captured arrays by the arrays' names. `gradients` maps the id of a value to its gradient."""

    roots: list[StoredValue]
    sinks: list[Sink]
    d_inputs: dict[str, Place]
    d_captured: dict[str, Place]
    gradients: dict[int, Value]


def _cotangent(trace: Trace, name: str, v: Value) -> Value:
    """Return the incoming gradient of `v`, through a copy, so that it is stored for readers outside the loop."""
    leaf = trace.graph.leaf("cotangent", name, v.axes or ("B",), v.width, dims=v.dims)
    return trace.graph._make("expand", (leaf,), leaf.axes, leaf.width, attribute(leaf.dims))


def backward_roots(
    trace: Trace, needs: Collection[str] | None, receives: Collection[str], apart: Collection[str] = ()
) -> BackwardRoots:
    """Differentiate a step, in its own graph. Gradients of the states before it, and of the leaves named in `needs`
    (None: all but masks), from the outputs named in `receives` and all new states. apart: states with a loop of their
    own, whose gradients row work writes."""
    graph = trace.graph
    masks = {m.array for m in trace.masks}
    outputs = [(v, _cotangent(trace, ArrayKind.GRADIENT.of(k), v)) for k, v in trace.outputs.items() if k in receives]
    outputs += [(v, _cotangent(trace, ArrayKind.STATE_GRADIENT.of(name), v)) for name, v in trace.new.items()]
    needed = {k: v for k, v in trace.leaves.items() if k not in masks and (needs is None or k in needs)}
    captured = {k: v for k, v in needed.items() if v.op == "captured"}
    gradients, sinks = differentiate(outputs, {v.id for v in (*trace.states.values(), *needed.values())})
    back = BackwardRoots([], sinks, {}, {}, gradients)
    for name, v in trace.states.items():
        zero = graph.apply("expand", graph.const(0.0), axes=("B",), width=v.width, dims=v.dims)
        g = gradients.get(v.id, zero)
        g = _written_by_row(g) if name in apart else g
        back.roots.append(StoredValue(g, Place(PlaceKind.CARRY_OUT, ArrayKind.STATE_GRADIENT.of(name), False, v.width)))
    for name, v in trace.inputs.items():
        if name in needed and v.id in gradients:
            back.d_inputs[name] = Place(PlaceKind.SEQUENCE, ArrayKind.GRADIENT.of(name), "S" in v.axes, v.width)
            back.roots.append(StoredValue(gradients[v.id], back.d_inputs[name]))
    for name, v in captured.items():
        if v.id in gradients:
            back.d_captured[name] = Place(
                PlaceKind.CONSTANT, ArrayKind.CONSTANT_GRADIENT.of(name), "S" in v.axes, v.width
            )
            back.roots += [StoredValue(term, back.d_captured[name], add=True) for term in _terms(gradients[v.id])]
    return back


def _terms(v: Value) -> list[Value]:
    """Return the terms of a sum; each may be computed at another time, and memory accumulates them. A sum within it
    that is added more than once remains one term."""
    sums = [one for one in reached([v], lambda one: one.op == "add").values() if one.op == "add"]
    times = Counter(a.id for one in sums for a in one.args)

    def divided(one: Value) -> list[Value]:
        return [t for a in one.args for t in divided(a)] if one.op == "add" and times[one.id] <= 1 else [one]

    return divided(v)


def states_apart(trace: Trace) -> frozenset[str]:
    """Return the states with loops of their own; none where that takes no product out of the main loop."""
    reads, multiplied = _dependencies(trace)
    apart = {name for name, v in trace.states.items() if not v.dims and not _multiplies(name, reads, multiplied)}
    while left := {name for name in apart if not reads[name] <= apart}:
        apart -= left
    if not apart or not _looped_products(trace, frozenset()):
        return frozenset()
    names = frozenset(apart)
    return names if _looped_products(trace, names) < _looped_products(trace, frozenset()) else frozenset()


def _dependencies(trace: Trace) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return, for each state, the states its next value reads, and those it reads through a product."""
    reads: dict[int, set[str]] = {v.id: {name} for name, v in trace.states.items()}
    multiplied: dict[int, set[str]] = {}
    for v in topological(list(trace.new.values())):
        reads[v.id] = reads.get(v.id, set()).union(*(reads[a.id] for a in v.args))
        through = set[str]().union(*(multiplied[a.id] for a in v.args))
        multiplied[v.id] = reads[v.id] if v.kind is OpKind.PRODUCT else through
    new = trace.new.items()
    return {name: reads[v.id] for name, v in new}, {name: multiplied[v.id] for name, v in new}


def _multiplies(name: str, reads: dict[str, set[str]], multiplied: dict[str, set[str]]) -> bool:
    """Return whether a state comes back to itself through a product."""

    def reached(of: set[str]) -> set[str]:
        found = set(of)
        while more := set[str]().union(*(reads[one] for one in found)) - found:
            found |= more
        return found

    around = {one for one in reached({name}) if name in reached({one})} | {name}
    return any(multiplied[one] & around for one in around)


def _looped_products(trace: Trace, apart: frozenset[str]) -> int:
    """Return how many products the main loop has if these states have loops of their own."""
    states, _ = carried_apart(apart)
    phases = phases_of(forward_roots(trace)[0], leaf_places(trace), states)
    return sum(phase is Phase.LOOP and trace.graph.values[i].kind is OpKind.PRODUCT for i, phase in phases.items())
