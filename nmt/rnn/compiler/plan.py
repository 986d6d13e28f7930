"""All passes in order: from a cell's step to programs for forward and backward.

A plan does not depend on batch sizes or lengths; it is made once per cell and kind of run (inference; training with
the wanted gradients).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from nmt.rnn.arrays.array_names import ArrayKind, Numbered
from nmt.rnn.compiler import direction
from nmt.rnn.compiler.differentiate import Sink
from nmt.rnn.compiler.direction import Carried, Pass
from nmt.rnn.compiler.fuse import build_program
from nmt.rnn.compiler.keep import Keep, Recompute, choose_kept
from nmt.rnn.compiler.phases import Phase
from nmt.rnn.compiler.program import Place, PlaceKind, Program, StoredValue, memory_read, with_places
from nmt.rnn.compiler.trace import Trace
from nmt.rnn.graph import Value, reached
from nmt.rnn.ops import OpKind

_STORED = PlaceKind.SEQUENCE, PlaceKind.AFTER
"""Places that a pass has for every step."""


@dataclass(frozen=True)
class PlacedSink:
    """A sink and its operands' places: outer products of rows of `left` and `right`, or the sum of rows of `right`."""

    sink: Sink
    left: Place | None
    left_offset: int
    right: Place
    right_offset: int


@dataclass(frozen=True)
class Memory:
    """The values of a training step that are in memory, by their ids and purpose; docs/compiler.md shows them for an
    LSTM.

    `given` values are there before a pass begins. `written` values are stored by the forward pass for itself: its
    results, and what it computes before the loop for use within it. `kept` values are stored only for the backward
    pass, chosen by `keep.py`. `found` is what the backward pass finds: everything given, kept or written that is still
    there."""

    given: frozenset[int]
    written: frozenset[int]
    kept: frozenset[int]
    found: frozenset[int]


@dataclass
class Plan:
    """Programs of a traced step; `backward` is None for inference. Places of outputs and gradients are by the names of
    their arrays. `receives` are the outputs that the backward pass takes a gradient of, `memory` describes what is
    stored for it, and `gradients` maps the id of a value to its gradient. `slots`: the names of states that are in two
    slots instead of a stack of all steps."""

    trace: Trace
    forward: Pass
    outputs: dict[str, Place]
    backward: Pass | None = None
    sinks: list[PlacedSink] = field(default_factory=list)
    d_inputs: dict[str, Place] = field(default_factory=dict)
    d_captured: dict[str, Place] = field(default_factory=dict)
    receives: frozenset[str] = frozenset()
    memory: Memory | None = None
    gradients: dict[int, Value] = field(default_factory=dict)
    slots: frozenset[str] = frozenset()


def make_plan(
    trace: Trace,
    *,
    training: bool,
    needs: Collection[str] | None = None,
    receives: Collection[str] | None = None,
    single_step: bool = False,
    recompute: Recompute = "attention",
    keep: Keep = (),
    loops_apart: bool = True,
) -> Plan:
    """Compile a trace. `training` adds the backward pass, for the initial states and for the inputs, captured arrays
    and parameters named in `needs`, from the outputs in `receives`; None is all. `single_step`: for inference one step
    at a time, all of it inside the loop's function. `recompute`, `keep`: see `keep.py`; the trace contains the values
    that `keep` names. `loops_apart`: states may have loops of their own (see direction.py)."""
    apart = direction.states_apart(trace) if loops_apart and not single_step else frozenset[str]()
    states, gradients = direction.carried_apart(apart)
    # Recomputed values must not read what a pass stores only for itself.
    lasting_alone = recompute == "gates" or not all(kept for _, kept in keep)
    slots = _slots(trace, training, lasting_alone, states)
    given = direction.leaf_places(trace, slots=bool(slots))
    roots, outputs = direction.forward_roots(trace, slots=bool(slots))
    if not training:
        alone = direction.make_pass(roots, given, trace, states, leave_loop=not single_step)
        alone.by_rows = bool(slots) and not alone.loop.products
        return Plan(trace, _in_blocks(alone, {p.name for p in outputs.values()}), outputs, slots=slots)
    num_forward = len(trace.graph.values)
    received = frozenset(trace.outputs if receives is None else receives)
    back = direction.backward_roots(trace, needs, received, apart)
    operands = _operands(back.sinks)
    written = {e.value.id for e in roots}
    if not lasting_alone:  # products before the loop are stored for every step in any case
        phases, values = direction.phases_of(roots, given, states), trace.graph.values
        written |= {i for i, one in phases.items() if one is Phase.BEFORE and values[i].kind is OpKind.PRODUCT}
    named = {name: (trace.named[name], kept) for name, kept in keep}
    kept = choose_kept([e.value for e in back.roots] + operands, operands, num_forward, written, recompute, named)
    roots += [_stored(Numbered.KEPT, v) for v in kept]
    forward = direction.make_pass(roots, given, trace, states)
    lasting = {e.value.id for e in roots}
    left = {i: p for i, p in _all_places(forward).items() if p.kind in _STORED and (not lasting_alone or i in lasting)}
    found = given | direction.cotangent_places(trace) | left
    if slots:
        again, places = _again(trace, slots, found)
        found |= places
    back.roots += [_stored(Numbered.OPERAND, v) for v in operands if v.id not in found]
    backward = direction.make_pass(back.roots, found, trace, gradients)
    sinks = _placed(back.sinks, found | _all_places(backward))
    if slots:
        forward, backward = _with_checkpoints(forward, backward, again, trace, slots)
    forward = _in_blocks(forward, {p.name for p in outputs.values()} | _read(backward, sinks, found))
    backward = _in_blocks(backward, {p.name for p in back.d_inputs.values()})
    sinks = [_sink_in_block(s, backward) for s in sinks]
    memory = Memory(*map(frozenset, (given, written, {v.id for v in kept}, found)))
    rest = back.d_inputs, back.d_captured, received, memory, back.gradients, slots
    return Plan(trace, forward, outputs, backward, sinks, *rest)


def _slots(trace: Trace, training: bool, lasting_alone: bool, states: Carried) -> frozenset[str]:
    """Return the states that need not be kept for every step: those with named axes. In training only if the loop has
    no product, so that a row can run once more from a checkpoint, no product reads all of such a state, whose gradient
    would, and what the step needs is there (not with `lasting_alone`)."""
    names = frozenset(name for name, v in trace.states.items() if v.dims)
    if not training or not names:
        return names
    matrices = {of[name].id for of in (trace.states, trace.new) for name in names}
    phases = direction.phases_of(direction.forward_roots(trace)[0], direction.leaf_places(trace), states)
    products = ((trace.graph.values[i], phase) for i, phase in phases.items() if phase in (Phase.LOOP, Phase.AFTER))
    stays = any(
        v.kind is OpKind.PRODUCT and (phase is Phase.LOOP or v.args[0].span[0].id in matrices) for v, phase in products
    )
    return frozenset() if lasting_alone or stays else names


def _again(trace: Trace, slots: frozenset[str], found: dict[int, Place]) -> tuple[Program, dict[int, Place]]:
    """Return the program that recomputes these states step by step from `found`, and its places for backward."""

    def place(kind: PlaceKind, name: str) -> Place:
        return Place(kind, ArrayKind.REPLAYED.of(name), False, trace.states[name].width)

    places = {v.id: place(PlaceKind.AGAIN, name) for name, v in trace.states.items() if name in slots}
    roots = [StoredValue(trace.new[name], place(PlaceKind.AGAIN_NEXT, name)) for name in trace.states if name in slots]
    # A state that becomes another state as it is remains where it is read.
    computed = {e.value.id: e.place for e in roots if e.value.kind is not OpKind.LEAF}
    program = build_program(roots, {i: p for i, p in (found | places).items() if i not in computed}, PlaceKind.ROWS)
    if program.products:
        raise RuntimeError("states that are computed again need a product")
    return program, places | computed


def _operands(sinks: list[Sink]) -> list[Value]:
    """Return the operands of the sums that are gradients of parameters. The sums run over whole arrays, after the loop,
    so these values must be in memory for every step; a slice is read from its whole."""
    values = [v for s in sinks for v in (s.left, s.right) if v is not None]
    return list({v.span[0].id: v.span[0] for v in values}.values())


def _stored(kind: Numbered, v: Value) -> StoredValue:
    """Return a value as a root with a separate array, one entry per step, named after its id."""
    return StoredValue(v, Place(PlaceKind.SEQUENCE, kind.of(v.id), "S" in v.axes, v.width))


def _all_places(one: Pass) -> dict[int, Place]:
    return one.before.places | one.loop.places | one.after.places


def _placed(sinks: list[Sink], places: dict[int, Place]) -> list[PlacedSink]:
    """Return the sinks with the places of their operands."""
    placed = []
    for s in sinks:
        (left, left_offset), (right, right_offset) = s.left.span if s.left else (None, 0), s.right.span
        place = None if left is None else places[left.id]
        placed.append(PlacedSink(s, place, left_offset, places[right.id], right_offset))
    return placed


def _with_checkpoints(
    forward: Pass, backward: Pass, again: Program, trace: Trace, slots: frozenset[str]
) -> tuple[Pass, Pass]:
    """Return both passes, row by row: the first keeps these states in checkpoints, the second computes them `again`."""
    if any(_reads_again(program) for program in (backward.before, backward.after)):
        raise RuntimeError("states that are computed again are read outside the loop")
    checkpoints = tuple(
        Place(PlaceKind.CHECKPOINT, ArrayKind.CHECKPOINT.of(name), False, v.width)
        for name, v in trace.states.items()
        if name in slots
    )
    arrays = forward.arrays | {place.name: place for place in checkpoints}
    forward = replace(forward, by_rows=True, checkpoints=checkpoints, arrays=arrays)
    return forward, replace(backward, by_rows=True, checkpoints=checkpoints, again=again)


def _reads_again(program: Program) -> bool:
    """Return whether a program reads states that only the loop of its pass has."""
    read = [p.x for p in program.products] + [a for e in program.entries for a in (e.value, *e.value.args)]
    kinds = {program.places[base.id].kind for _, base, _ in memory_read(read, program.places)}
    return bool(kinds & {PlaceKind.AGAIN, PlaceKind.AGAIN_NEXT})


def _read(one: Pass, sinks: list[PlacedSink], before: dict[int, Place]) -> set[str]:
    """Return names of the arrays of an earlier pass (`before`: places by value) that a pass and its sinks may read."""
    pending = [v for s in sinks for v in (s.sink.left, s.sink.right) if v is not None]
    for program in (*one.programs.values(), *([one.again] if one.again else [])):
        values = [e.value for e in program.entries]
        # What is computed again has a place from then on.
        pending += [a for v in values for a in v.args] if program is one.again else values
        pending += [p.x for p in program.products]
    # A view may be read from its whole.
    read = reached(pending, lambda v: v.id not in before or v.is_view)
    return {before[i].name for i in read if i in before}


def with_operands(plan: Plan) -> Plan:
    """Return the same plan, keeping its sinks' operands after the backward pass, to sum weights' gradients later."""
    if plan.backward is None:
        return plan
    names = {p.name for s in plan.sinks for p in (s.left, s.right) if p is not None}
    backward = _moved(plan.backward, names, PlaceKind.SEQUENCE)
    return replace(plan, backward=backward, sinks=[_sink_in_block(s, backward) for s in plan.sinks])


def _in_blocks(one: Pass, outliving: set[str]) -> Pass:
    """Move to memory of a block of time the arrays that nothing reads after the pass."""
    return _moved(one, set(one.arrays) - outliving, PlaceKind.BLOCK)


def _moved(one: Pass, names: set[str], kind: PlaceKind) -> Pass:
    """Return the pass with its arrays of these names in memory of all steps, or of one block of time."""

    def move(place: Place) -> Place:
        is_array = place.name in names and place.kind in (PlaceKind.SEQUENCE, PlaceKind.BLOCK)
        return replace(place, kind=kind) if is_array else place

    before, loop, after = (with_places(program, move) for program in one.programs.values())
    arrays = {name: move(place) for name, place in one.arrays.items()}
    again = one.again and with_places(one.again, move)
    return replace(one, before=before, loop=loop, after=after, arrays=arrays, again=again)


def _sink_in_block(placed: PlacedSink, one: Pass) -> PlacedSink:
    def moved(place: Place | None) -> Place | None:
        return place and one.arrays.get(place.name, place)

    return replace(placed, left=moved(placed.left), right=one.arrays.get(placed.right.name, placed.right))
