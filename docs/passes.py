"""Describe what each pass of the compiler does to an LSTM's step: the graph before and after it, as DOT documents.

Nothing is drawn by hand: the pictures are made from what the passes return. `make pictures` draws them into
docs/pictures by Graphviz; docs/compiler.md explains them.
"""

from collections.abc import Iterable, Mapping

from docs.show.dot import Box, Frame, Key, Panel, document
from docs.show.naming import Naming
from docs.show.picture import Board, is_copy, source_of, work_panel
from docs.show.reading import Work, works
from docs.show.text import RUNS
from nmt.rnn.arrays.array_names import ArrayKind, Numbered, parse
from nmt.rnn.cells import LSTMCell
from nmt.rnn.compiler.direction import GRADIENTS, STATES, cotangent_places, forward_roots, leaf_places, phases_of
from nmt.rnn.compiler.phases import Phase
from nmt.rnn.compiler.plan import Plan, make_plan
from nmt.rnn.compiler.program import Place, PlaceKind, StoredValue
from nmt.rnn.compiler.share import cut_shared
from nmt.rnn.compiler.trace import Trace, trace, trace_step
from nmt.rnn.graph import Value, topological
from nmt.rnn.ops import OpKind

LEAF = ("leaf", "read from memory")
PHASE_LEGEND = [LEAF, *((phase, RUNS[phase].split(",")[0]) for phase in Phase)]


def cell() -> LSTMCell:
    """The cell of all pictures."""
    return LSTMCell(3, 4)


def training_plan(recompute: str = "attention") -> Plan:
    """What `make_plan` makes of it."""
    return make_plan(trace(cell(), training=True), training=True, recompute=recompute)


def computed(roots: Iterable[Value], stop: frozenset[int] = frozenset()) -> list[Value]:
    """What the roots need and something has to compute, arguments first; `stop` lies in memory."""
    values = topological(roots, stop=stop)
    return [v for v in values if v.kind is not OpKind.LEAF and v.id not in stop and not is_copy(v)]


def results(traced: Trace) -> list[Value]:
    """Outputs and new states."""
    return [*traced.outputs.values(), *traced.new.values()]


def gradients(plan: Plan) -> list[Value]:
    """What the backward direction is for: gradients of states and inputs, and what those of parameters are sums of."""
    leaves = [*plan.trace.states.values(), *plan.trace.inputs.values()]
    return [*(plan.gradients[v.id] for v in leaves), *(s.sink.right for s in plan.sinks)]


def graph(title: str, traced: Trace, values: Iterable[Value], kinds: Mapping[int, str] | None = None,
          marks: Mapping[int, str] | None = None, params: bool = False) -> Panel:  # fmt: skip
    """One band of values without a frame."""
    board = Board(Naming(traced), params=params)
    board.band(0, values, kinds or {}, marks)
    return Panel(title, board.boxes, board.edges)


def phased(title: str, plan: Plan, values: list[Value], phases: Mapping[int, str], *, backward: bool) -> Panel:
    """A band and a frame for each phase."""
    board = Board(Naming(plan.trace, plan.gradients))
    for phase in Phase:
        start = board.rank
        inside = [v for v in values if phases[v.id] == phase]
        if inside:
            board.band(phase, inside, {v.id: phase for v in inside})
            board.joined |= {v.id: (phase, v.id) for v in inside}
        if phase == "after" and backward:
            board.sums(plan, phase)
        if board.rank > start:
            board.frames.append(Frame(start, board.rank - 1, RUNS[phase], phase))
    return Panel(title, board.boxes, board.edges, board.frames)


def backward_graph(title: str, plan: Plan, values: list[Value], kinds: Mapping[int, str], kind: str) -> Panel:
    """The gradients of a step and the sums below them."""
    board = Board(Naming(plan.trace, plan.gradients))
    board.band(0, values, kinds)
    board.joined |= {v.id: (0, v.id) for v in values}
    board.sums(plan, kind)
    return Panel(title, board.boxes, board.edges)


# ---------------------------------------------------------------- one picture a pass


def trace_picture() -> str:
    """What the cell declares, and the graph of its step."""
    whole = trace_step(cell(), training=True)
    leaves = [v for v in whole.graph.values if v.kind is OpKind.LEAF]
    values = [v for v in whole.graph.values if v.kind is not OpKind.LEAF and not is_copy(v)]
    needed = {v.id for v in computed(results(whole))}
    kinds = {v.id: "new" if v.id in needed else "gone" for v in values}
    marks = {v.id: "not read" for v in values if v.id not in needed}
    return document(
        "trace: the step is run once on symbolic values",
        [
            graph("before: what the cell declares", whole, leaves, params=True),
            graph("after: the graph of one step", whole, values, kinds, marks, params=True),
        ],
        [("leaf", "declared"), ("new", "new"), ("gone", "no result needs it: not computed")],
    )


def share_picture() -> str:
    """The step of a search, cut in three."""
    whole = trace(cell(), training=False)
    parts = cut_shared(whole)
    values = computed(results(whole))
    cut = {v.id: "gone" for v in values if v.kind is OpKind.PRODUCT}
    panels = [graph("before: one step for every row", whole, values, cut)]
    for title, part in (("once per different word", parts.of_inputs), ("once per different parent", parts.of_states)):
        inside = computed(results(part))
        panels.append(graph(f"after: {title}", part, inside, {v.id: "new" for v in inside}))
    shared = {v.id: "new" for name, v in parts.step.leaves.items() if parse(name).kind is ArrayKind.CONSTANT}
    panels.append(graph("after: what is left for every row", parts.step, computed(results(parts.step)), shared))
    legend = [LEAF, ("gone", "leaves the step"), ("new", "new")]
    return document("share, in search alone: rows of one word or one parent have products in common", panels, legend)


def differentiate_picture() -> str:
    """The gradients that join the graph."""
    plan = training_plan()
    forward = computed(results(plan.trace))
    own = {v.id for v in forward}
    new = [v for v in computed(gradients(plan)) if v.id not in own]
    kinds = {v.id: "new" for v in new} | dict.fromkeys(own, "plain")
    panels = [
        graph("before: the step", plan.trace, forward),
        backward_graph("after: its gradients, in the same graph", plan, new, kinds, "new"),
    ]
    legend = [LEAF, ("plain", "computed by the step"), ("new", "new")]
    return document("differentiate: one gradient rule an operation, from results to leaves", panels, legend)


def phases_pictures() -> dict[str, str]:
    """A phase for each value of both directions."""
    plan = training_plan()
    forward = computed(results(plan.trace))
    roots, _ = forward_roots(plan.trace)
    phases = phases_of(roots, leaf_places(plan.trace), STATES)
    panels = [graph("before", plan.trace, forward), phased("after", plan, forward, phases, backward=False)]
    title = "phases, forward: a product that waits for no state leaves the loop"
    pictures = {"phases-forward.svg": document(title, panels, PHASE_LEGEND)}
    title = "phases, backward: what no carried gradient waits for leaves the loop"
    before = backward_graph("before", plan, computed(gradients(plan), plan.memory.found), {}, "plain")
    after = backward_phases(plan)
    after.title = "after"
    return pictures | {"phases-backward.svg": document(title, [before, after], PHASE_LEGEND)}


def backward_phases(plan: Plan) -> Panel:
    """The backward direction in its phases."""
    found = plan.memory.found
    entries = [
        StoredValue(plan.gradients[v.id], Place(PlaceKind.CARRY_OUT, "", False, v.width))
        for v in plan.trace.states.values()
    ]
    entries += [StoredValue(plan.gradients[plan.trace.inputs["x"].id], plan.d_inputs["x"])]
    known = {i: Place(PlaceKind.SEQUENCE, "", False, None) for i in found} | cotangent_places(plan.trace)
    phases = phases_of(entries, known, GRADIENTS)
    return phased("before", plan, computed(gradients(plan), found), phases, backward=True)


def keep_picture() -> str:
    """What the forward pass stores for the backward pass."""
    plan, again = training_plan(), training_plan("gates")
    forward, memory = computed(results(plan.trace)), plan.memory
    own = {v.id for v in forward}
    read = {source_of(a).id for v in computed(gradients(plan), frozenset(own)) for a in v.args} & own
    marks = dict.fromkeys(read, "backward reads it")
    panels = [graph("before: what the backward pass reads", plan.trace, forward, {}, marks)]
    for words, of in (("kept for it", memory), ("with recompute: gates, kept for it", again.memory)):
        kinds = dict.fromkeys(of.written, "before") | dict.fromkeys(of.kept, "kept")
        marks = dict.fromkeys(of.written, "written anyway") | dict.fromkeys(of.kept, "kept")
        panels.append(graph(f"after: {words}{'' if of.kept else ', nothing'}", plan.trace, forward, kinds, marks))
    legend = [LEAF, ("before", "written for the forward pass itself"), ("kept", "kept for the backward pass alone")]
    return document("keep or recompute: what the backward pass finds in memory", panels, legend)


def fuse_pictures() -> dict[str, str]:
    """Products, and rows' loops between them."""
    plan = training_plan()
    found = {}
    roots, _ = forward_roots(plan.trace)
    phases = phases_of(roots, leaf_places(plan.trace), STATES)
    before = phased("before", plan, computed(results(plan.trace)), phases, backward=False)
    legend = [*PHASE_LEGEND, ("kept", "kept")]
    panels = [before, work_panel("after: the programs", plan, works(plan.forward))]
    found["fuse-forward.svg"] = document("fuse, forward: all work of a row in one loop", panels, legend)
    panels = [backward_phases(plan), work_panel("after: the programs", plan, works(plan.backward))]
    found["fuse-backward.svg"] = document("fuse, backward: all work of a row in one loop", panels, legend)
    return found


def plan_picture() -> str:
    """The programs of both directions and the arrays between them."""
    plan = training_plan()
    names = Naming(plan.trace, plan.gradients)
    values = plan.trace.graph.values
    boxes: list[Box] = []
    edges: list[tuple[Key, Key]] = []
    arrays: dict[str, tuple[Place, str]] = {}
    for one in (plan.forward, plan.backward):
        for program in one.programs.values():
            for i, place in program.places.items():
                if place.kind in (
                    PlaceKind.BLOCK,
                    PlaceKind.SEQUENCE,
                    PlaceKind.AFTER,
                    PlaceKind.CARRY_OUT,
                    PlaceKind.ROWS,
                ):
                    arrays.setdefault(place.name, (place, names.name(values[i])))
    made: dict[str, Key] = {}
    rank = 0

    def array(name: str, at: int) -> Key:
        place, what = arrays[name]
        kind = "kept" if Numbered.KEPT.names(name) else "leaf"
        lead = {PlaceKind.BLOCK: "steps of a block", PlaceKind.AFTER: "T + 1", PlaceKind.CARRY_OUT: "2"}.get(
            place.kind, "T"
        )
        told = f"{what}" if what == name else f"{name}: {what}"
        size = f"[B, {place.width}]" if place.kind is PlaceKind.ROWS else f"[{lead}, B, {place.width}]"
        boxes.append(Box(("array", name), at, kind, told, size))
        return ("array", name)

    for label, one in (("forward", plan.forward), ("backward", plan.backward)):
        for n, work in enumerate(works(one)):
            key = (label, n)
            names_read = _reads(plan, work)
            what = ", ".join(names.name(v) for v in work.values if v.id in work.written)
            lines = [work.title.split(",")[0], f"writes {what}"]
            boxes.append(Box(key, rank, work.phase, f"{label}, {RUNS[work.phase].split(',')[0]}", "", lines))
            edges += [(made[name], key) for name in names_read if name in made]
            fresh = [p.name for places in work.written.values() for p in places if p.name in arrays]
            fresh = [name for name in dict.fromkeys(fresh) if name not in made]
            for name in fresh:
                made[name] = array(name, rank + 1)
                edges.append((key, made[name]))
            rank += 2
    for n, placed in enumerate(plan.sinks):
        left = "" if placed.sink.left is None else f"{names.name(placed.sink.left)}.T @ "
        boxes.append(Box(("sum", n), rank, "after", f"d{placed.sink.name}", "", [left + names.name(placed.sink.right)]))
        for place in (placed.left, placed.right):
            if place is not None and place.name in made:
                edges.append((made[place.name], ("sum", n)))
    panel = Panel("", boxes, edges)
    legend = [("leaf", "array"), ("kept", "array kept for the backward pass"), *PHASE_LEGEND[1:]]
    return document("plan: the programs of both directions and the arrays between them", [panel], legend)


def _reads(plan: Plan, work: Work) -> list[str]:
    """Names of the arrays that a step of a program reads."""
    places: dict[int, Place] = {}
    for direction in (plan.forward, plan.backward):
        for program in (direction.before, direction.loop, direction.after) if direction else ():
            places = program.places | places
    inside = {v.id for v in work.values}
    sources = [source_of(a) for v in work.values for a in v.args]
    return list(dict.fromkeys(places[v.id].name for v in sources if v.id in places and v.id not in inside))


def pictures() -> dict[str, str]:
    """Return all DOT documents, by the names of the files that they become."""
    return {
        "trace.svg": trace_picture(),
        "share.svg": share_picture(),
        "differentiate.svg": differentiate_picture(),
        **phases_pictures(),
        "keep.svg": keep_picture(),
        **fuse_pictures(),
        "plan.svg": plan_picture(),
    }
