"""All passes in order: a cell's step to programs for forward and backward.

A plan knows nothing of batch sizes or lengths; it is made once per cell and kind of run (inference; training with
the wanted gradients).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial

from nmt.rnn.compiler.differentiate import Sink, differentiate
from nmt.rnn.compiler.fuse import build_program
from nmt.rnn.compiler.keep import Keep, Recompute, choose_kept
from nmt.rnn.compiler.phases import assign_phases
from nmt.rnn.compiler.program import Entry, Place, Product, Program, in_block, lasting, with_places
from nmt.rnn.compiler.trace import Trace
from nmt.rnn.graph import Value, topological


@dataclass
class Pass:
    """One direction: programs before, inside and after the time loop. `arrays` are the `seq` and `block` arrays this
    pass fills."""

    before: Program
    loop: Program
    after: Program
    arrays: dict[str, Place]


@dataclass(frozen=True)
class PlacedSink:
    """A sink and where its operands lie: outer products of rows of `left` with rows of `right`, or the sum of rows
    of `right`."""

    sink: Sink
    left: Place | None
    left_offset: int
    right: Place
    right_offset: int


@dataclass
class Plan:
    """Programs of a traced step. `backward` is None for inference. Places of outputs and gradients by name; `receives`
    are the outputs that the backward pass takes a gradient of."""

    trace: Trace
    forward: Pass
    outputs: dict[str, Place]
    backward: Pass | None = None
    sinks: list[PlacedSink] = field(default_factory=list)
    d_inputs: dict[str, Place] = field(default_factory=dict)
    d_captured: dict[str, Place] = field(default_factory=dict)
    receives: frozenset[str] = frozenset()


def make_plan(
    trace: Trace,
    *,
    training: bool,
    needs: Collection[str] | None = None,
    receives: Collection[str] | None = None,
    single_step: bool = False,
    recompute: Recompute = "attention",
    keep: Keep = (),
) -> Plan:
    """Compile a trace; `training` adds the backward pass, for the initial states and for the inputs, captured arrays
    and parameters named in `needs`, from the outputs in `receives`; None is all. `single_step`: for inference one step
    at a time, all of it inside the loop's function. `recompute`, `keep`: see `keep.py`; the trace has the values that
    `keep` names."""
    known = _leaf_places(trace)
    roots = [Entry(_written_by_row(v), Place("after", f"S_{name}", False, v.width)) for name, v in trace.new.items()]
    slots = {e.value.id: e.place for e in reversed(roots) if e.value.kind != "leaf"}
    outputs = {k: slots.get(v.id) or Place("seq", k, "S" in v.axes, v.width) for k, v in trace.outputs.items()}
    roots += [Entry(v, outputs[k]) for k, v in trace.outputs.items() if v.id not in slots]
    if not training:
        alone = _make_pass(roots, known, trace, "state", leave_loop=not single_step)
        return Plan(trace, _in_blocks(alone, {p.name for p in outputs.values()}), outputs)
    num_forward = len(trace.graph.values)
    received = frozenset(trace.outputs if receives is None else receives)
    back = _backward_roots(trace, needs, received)
    operands = list(
        {v.id: v for s in back.sinks for v in (s.left, s.right) if v is not None for v in [_base(v)]}.values()
    )
    phases = _phases(roots, known, trace, "state")
    in_memory = {e.value.id for e in roots}
    # What is computed again must not hold on to what it is computed from, which a pass stores only for itself.
    lasting_alone = recompute == "gates" or not all(kept for _, kept in keep)
    if not lasting_alone:
        in_memory |= {i for i, phase in phases.items() if phase == "before" and trace.graph.values[i].kind == "product"}
    named = {name: (trace.named[name], kept) for name, kept in keep}
    needed = [e.value for e in back.roots] + operands
    kept = choose_kept(needed, operands, num_forward, in_memory, recompute, named)
    roots += [Entry(v, Place("seq", f"k{v.id}", "S" in v.axes, v.width)) for v in kept]
    forward = _make_pass(roots, known, trace, "state")
    available = known | _cotangent_places(trace)
    for program in (forward.before, forward.loop, forward.after):
        stored = {i: p for i, p in program.places.items() if p.kind in ("seq", "after")}
        lasting = {e.value.id for e in roots}
        available |= {i: p for i, p in stored.items() if not lasting_alone or i in lasting}
    back.roots += [
        Entry(v, Place("seq", f"g{v.id}", "S" in v.axes, v.width)) for v in operands if v.id not in available
    ]
    backward = _make_pass(back.roots, available, trace, "cotangent")
    places = available | backward.before.places | backward.loop.places | backward.after.places
    placed = []
    for s in back.sinks:
        left, left_offset = _span(s.left, places) if s.left is not None else (None, 0)
        placed.append(PlacedSink(s, left, left_offset, *_span(s.right, places)))
    forward = _in_blocks(forward, {p.name for p in outputs.values()} | _read(backward, placed, available))
    backward = _in_blocks(backward, {p.name for p in back.d_inputs.values()})
    placed = [_sink_in_block(s, backward) for s in placed]
    return Plan(trace, forward, outputs, backward, placed, back.d_inputs, back.d_captured, received)


def _read(one: Pass, sinks: list[PlacedSink], before: dict[int, Place]) -> set[str]:
    """Names of the arrays of an earlier pass (`before`: places by value) that a pass and its sinks may read."""
    pending = [v for s in sinks for v in (s.sink.left, s.sink.right) if v is not None]
    for program in (one.before, one.loop, one.after):
        for step in program.steps:
            if isinstance(step, Product):
                pending.append(step.x)
            else:
                pending += [e.value for nest in step.nests for e in nest.entries]
    names: set[str] = set()
    seen: set[int] = set()
    while pending:
        v = pending.pop()
        if v.id in seen:
            continue
        seen.add(v.id)
        if v.id in before:
            names.add(before[v.id].name)
        if v.id not in before or v.op == "slice":  # a slice may be read from what it is a slice of
            pending.extend(v.args)
    return names


def with_operands(plan: Plan) -> Plan:
    """The same plan, but what its sinks read outlives the backward pass: gradients of weights may be summed later."""
    if plan.backward is None:
        return plan
    names = {p.name for s in plan.sinks for p in (s.left, s.right) if p is not None}
    backward = _moved(plan.backward, partial(lasting, names=names))
    return replace(plan, backward=backward, sinks=[_sink_in_block(s, backward) for s in plan.sinks])


def _in_blocks(one: Pass, outliving: set[str]) -> Pass:
    """Keep for a block of time only what nobody reads after the pass."""
    return _moved(one, partial(in_block, names=set(one.arrays) - outliving))


def _moved(one: Pass, move: Callable[[Place], Place]) -> Pass:
    before, loop, after = (with_places(program, move) for program in (one.before, one.loop, one.after))
    return Pass(before, loop, after, {name: move(place) for name, place in one.arrays.items()})


def _sink_in_block(placed: PlacedSink, one: Pass) -> PlacedSink:
    def moved(place: Place | None) -> Place | None:
        return place and one.arrays.get(place.name, place)

    return replace(placed, left=moved(placed.left), right=one.arrays.get(placed.right.name, placed.right))


def _written_by_row(v: Value) -> Value:
    """A product writes whole prefixes of rows; a state's slot may be written for active rows only, so it is copied."""
    return v.graph._make("expand", (v,), v.axes, v.width, {}) if v.kind == "product" else v


def _base(v: Value) -> Value:
    return v.args[0] if v.op == "slice" else v


def _span(v: Value, places: dict[int, Place]) -> tuple[Place, int]:
    return places[_base(v).id], v.attrs["start"] if v.op == "slice" else 0


def _leaf_places(trace: Trace) -> dict[int, Place]:
    places: dict[int, Place] = {}
    for name, v in trace.leaves.items():
        wide = "S" in v.axes
        if v.op == "input":
            places[v.id] = Place("seq", name, wide, v.width)
        elif v.op == "state":
            places[v.id] = Place("before", f"S_{name}", False, v.width)
        elif v.op == "captured":
            places[v.id] = Place("inv", f"C_{name}", wide, v.width)
        elif v.op == "param" and "rows" not in v.attrs:
            places[v.id] = Place("param", f"P_{name}", False, v.width)
    return places


def _cotangent_places(trace: Trace) -> dict[int, Place]:
    places: dict[int, Place] = {}
    for v in trace.graph.values:
        if v.op == "cotangent":
            name = v.attrs["name"]
            kind = "carry" if name.startswith("D_") else "seq"
            places[v.id] = Place(kind, name, "S" in v.axes, v.width)
    return places


@dataclass
class _Backward:
    roots: list[Entry]
    sinks: list[Sink]
    d_inputs: dict[str, Place]
    d_captured: dict[str, Place]


def _cotangent(trace: Trace, name: str, v: Value) -> Value:
    """The incoming gradient of `v`; read through a copy, so that whoever needs it outside the loop gets it stored."""
    leaf = trace.graph.leaf("cotangent", name, v.axes or ("B",), v.width)
    return trace.graph._make("expand", (leaf,), leaf.axes, leaf.width, {})


def _backward_roots(trace: Trace, needs: Collection[str] | None, receives: Collection[str]) -> _Backward:
    graph = trace.graph
    masks = {m.name for m in trace.masks}
    outputs = [(v, _cotangent(trace, f"d_{k}", v)) for k, v in trace.outputs.items() if k in receives]
    outputs += [(v, _cotangent(trace, f"D_{name}", v)) for name, v in trace.new.items()]
    needed = {k: v for k, v in trace.leaves.items() if k not in masks and (needs is None or k in needs)}
    captured = {k: v for k, v in needed.items() if v.op == "captured"}
    wanted = {v.id for v in (*trace.states.values(), *needed.values())}
    gradients, sinks = differentiate(outputs, wanted)
    back = _Backward([], sinks, {}, {})
    for name, v in trace.states.items():
        zero = graph.apply("expand", graph.const(0.0), axes=("B",), width=v.width)
        back.roots.append(Entry(gradients.get(v.id, zero), Place("carry_out", f"D_{name}", False, v.width)))
    for name, v in trace.inputs.items():
        if name in needed and v.id in gradients:
            back.d_inputs[name] = Place("seq", f"d_{name}", "S" in v.axes, v.width)
            back.roots.append(Entry(gradients[v.id], back.d_inputs[name]))
    for name, v in captured.items():
        if v.id in gradients:
            back.d_captured[name] = Place("inv", f"dC_{name}", "S" in v.axes, v.width)
            back.roots += [Entry(term, back.d_captured[name], add=True) for term in _terms(gradients[v.id])]
    return back


def _terms(v: Value) -> list[Value]:
    """The summands of a sum: each may be ready at another moment, and memory adds them up."""
    return [t for a in v.args for t in _terms(a)] if v.op == "add" else [v]


def _phases(
    roots: list[Entry], known: dict[int, Place], trace: Trace, carried: str, *, leave_loop: bool = True
) -> dict[int, str]:
    if carried == "state":
        carried_in, out = {v.id for v in trace.states.values()}, "after"
    else:
        carried_in = {v.id for v in trace.graph.values if v.op == "cotangent" and v.attrs["name"].startswith("D_")}
        out = "carry_out"
    carried_out = [e.value for e in roots if e.place.kind == out]
    return assign_phases([e.value for e in roots], carried_in, carried_out, set(known), leave_loop=leave_loop)


def _make_pass(
    roots: list[Entry], known: dict[int, Place], trace: Trace, carried: str, *, leave_loop: bool = True
) -> Pass:
    """Split roots into the three phases and build their programs; what crosses from one to a later one is a `seq`
    array."""
    phases = _phases(roots, known, trace, carried, leave_loop=leave_loop)
    by_phase: dict[str, list[Entry]] = {"before": [], "loop": [], "after": []}
    for e in roots:  # a carried gradient has two slots only: it is written in the loop, whenever it was computed
        by_phase["loop" if e.place.kind == "carry_out" else phases.get(e.value.id, "loop")].append(e)
    rooted = {e.value.id for e in roots if not e.add and e.place.kind != "carry_out"}
    crossing: dict[int, Value] = {}
    for phase, entries in by_phase.items():
        early = [e.value for e in entries if phases.get(e.value.id, phase) != phase]
        early = [b for v in early for b in _solid(v, phases, known)]
        for v in [*early, *_borrowed([e.value for e in entries], phase, phases, known, trace)]:
            if v.id not in rooted and v.id not in crossing:
                crossing[v.id] = v
    for phase in ("after", "loop"):  # what crosses may itself read something that crosses
        pending = [v for v in crossing.values() if phases[v.id] == phase]
        while pending:
            for v in _borrowed(pending, phase, phases, known, trace):
                if v.id not in rooted and v.id not in crossing:
                    crossing[v.id] = v
            pending = []
    for v in crossing.values():
        by_phase[phases[v.id]].append(Entry(v, Place("seq", f"t{v.id}", "S" in v.axes, v.width)))
    places = dict(known)
    programs = {}
    for phase, scratch in (("before", "seq"), ("loop", "rows"), ("after", "seq")):
        program = build_program(by_phase[phase], places, scratch, allow_wide=not trace.states)
        programs[phase] = program
        places |= {i: p for i, p in program.places.items() if p.kind in ("seq", "after")}
    arrays = {p.name: p for program in programs.values() for p in _written(program) if p.kind == "seq"}
    return Pass(programs["before"], programs["loop"], programs["after"], arrays)


def _written(program: Program) -> list[Place]:
    places = []
    for step in program.steps:
        if isinstance(step, Product):
            places.append(program.places[step.out.id])
        else:
            places += [e.place for nest in step.nests for e in nest.entries]
    return places


def _borrowed(
    roots: list[Value], phase: str, phases: dict[int, str], known: dict[int, Place], trace: Trace
) -> list[Value]:
    """Values of an earlier phase that `roots` read and that must therefore be in memory."""
    found: dict[int, Value] = {}
    for v in topological(roots, stop=set(known)):
        if v.id in known or phases.get(v.id) != phase:
            continue
        for a in v.args:
            if a.id in known or a.kind == "leaf" or phases[a.id] == phase:
                continue
            for b in _solid(a, phases, known):
                found[b.id] = b
    return list(found.values())


def _solid(v: Value, phases: dict[int, str], known: dict[int, Place]) -> list[Value]:
    """`v` itself, or its base where it is only a slice: addressing needs no buffer of its own."""
    if v.op == "slice":
        return [] if v.args[0].id in known or v.args[0].kind == "leaf" else [v.args[0]]
    return [v]
