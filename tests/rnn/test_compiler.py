"""What the passes promise, read off the plans: what leaves the loop, what is kept, and that what is stored is read."""

from collections import defaultdict

import numpy as np
import pytest

from nmt.errors import NMTError, ShapeError
from nmt.rnn import Captured, Scan, State, Weights
from nmt.rnn.arrays.workspace import LINE_BYTES, Workspace
from nmt.rnn.cells import GRUCell, LSTMCell, StackCell
from nmt.rnn.compiler.fuse import is_wide
from nmt.rnn.compiler.plan import make_plan
from nmt.rnn.compiler.program import PlaceKind, Product, memory_of
from nmt.rnn.compiler.trace import trace
from nmt.rnn.functions import concat, dot, softmax, split, tanh, weighted_sum
from nmt.rnn.graph import topological
from nmt.rnn.ops import OpKind
from tests.refusals import refused
from tests.rnn import more_cell_cases as more
from tests.rnn import scan_cases as cases
from tests.rnn.random_cells import Made, random_cell
from tests.rnn.scan_cases import CELLS, DECODERS


def plan_of(cell, *, needs=None, training=True):
    return make_plan(trace(cell, training=training), training=training, needs=needs)


def products(program):
    """(parameter, first row, transposed) of every product of a program."""
    return [(s.weight.attrs["name"], s.weight.attrs.get("start", 0), s.transposed) for s in program.products]


def programs(one):
    """Those of a pass."""
    return [*one.programs.values(), *([one.again] if one.again else [])]


def all_programs(plan):
    return [*programs(plan.forward), *(programs(plan.backward) if plan.backward else [])]


def written(program):
    """The places a program fills."""
    for step in program.steps:
        if isinstance(step, Product):
            yield program.places[step.out.id]
        else:
            yield from (entry.place for nest in step.nests for entry in nest.entries)


def kept(plan):
    """Arrays that hold forward values for the backward pass, one entry per step."""
    return {n: p for n, p in plan.forward.arrays.items() if n.startswith("k")}


# ------------------------------------------------------------ hoist and sink


@pytest.mark.parametrize("name", ["lstm", "gru", "gru_reset_before", "rnn_tanh"])
def test_input_products_are_hoisted(name):
    plan = plan_of(CELLS[name]())
    recurrent = [("W_rz", 0), ("W_n", 0)] if name == "gru_reset_before" else [("W_h", 0)]
    assert products(plan.forward.before) == [("W_x", 0, False)]
    assert sorted(products(plan.forward.loop)) == sorted((*w, False) for w in recurrent)
    assert sorted(products(plan.backward.loop)) == sorted((*w, True) for w in recurrent)
    assert products(plan.backward.after) == [("W_x", 0, True)]


def test_only_the_fed_rows_of_a_weight_stay_in_the_loop():
    plan = plan_of(CELLS["lstm_bahdanau_feed"]())
    assert products(plan.forward.before) == [("cell.W_x", 0, False)]
    assert ("cell.W_x", cases.D, False) in products(plan.forward.loop)
    assert products(plan.backward.after) == [("cell.W_x", 0, True)]


def test_a_cell_without_state_has_no_products_in_the_loop():
    plan = plan_of(CELLS["linear"]())
    assert products(plan.forward.loop) == products(plan.backward.loop) == []
    assert products(plan.forward.before) == [("W", 0, False)]


@pytest.mark.parametrize("name", [n for n in DECODERS if "bahdanau" in n or "general" in n])
def test_keys_are_computed_once(name):
    traced = trace(CELLS[name](), training=True)
    step, once = make_plan(traced, training=True), make_plan(traced.invariants, training=True)
    weights = {w for program in all_programs(step) for w, _, _ in products(program)}
    assert "W_k" not in weights
    assert "W_k" not in {s.sink.name for s in step.sinks}
    assert [p for program in all_programs(once) for p in products(program)] == [
        ("W_k", 0, False), ("W_k", 0, True),
    ]  # fmt: skip
    assert [s.sink.name for s in once.sinks] == ["W_k"]
    assert set(step.d_captured) == {"C_memory", "K_invariant0"}


@pytest.mark.parametrize("name", ["gru_dot_feed", "lstm"])
def test_without_keys_nothing_is_invariant(name):
    assert trace(CELLS[name](), training=True).invariants is None


@pytest.mark.parametrize("name", CELLS)
def test_every_parameter_has_its_gradient_outside_the_loop(name):
    cell = CELLS[name]()
    traced = trace(cell, training=True)
    plans = [make_plan(t, training=True) for t in (traced, traced.invariants) if t]
    lasting = {PlaceKind.SEQUENCE, PlaceKind.BLOCK, PlaceKind.BEFORE, PlaceKind.AFTER}
    assert {s.sink.name for plan in plans for s in plan.sinks} == set(cell.params())
    for plan in plans:
        # Whole rows of the weight's gradient, from what lies in memory for every step.
        for placed in plan.sinks:
            places = (placed.right,) if placed.left is None else (placed.left, placed.right)
            assert {place.kind for place in places} <= lasting


# ------------------------------------------------------------ keep or recompute


@pytest.mark.parametrize("name", CELLS)
def test_the_backward_loop_fills_only_what_outlives_it(name):
    """Operands of the sums over all steps, and d_x; everything else is scratch of one step."""
    plan = plan_of(CELLS[name]())
    operands = {p.name for s in plan.sinks for p in (s.left, s.right) if p is not None}
    outlive = operands | {p.name for p in plan.d_inputs.values()}
    assert {p.name for p in written(plan.backward.loop) if p.kind is PlaceKind.SEQUENCE} <= outlive


@pytest.mark.parametrize("name", CELLS)
def test_no_array_of_source_places_and_features_is_made_for_every_step(name):
    for program in programs_of(name):
        for place in written(program):
            wide = place.source_axis and place.width is not None
            assert not wide or place.kind is PlaceKind.CONSTANT


@pytest.mark.parametrize(
    ("name", "count"),
    [("lstm", 5), ("gru", 4), ("gru_no_bias", 4), ("gru_reset_before", 4), ("rnn_tanh", 0),
     ("rnn_relu", 0)],
)  # fmt: skip
def test_few_values_are_kept(name, count):
    """LSTM: four gates and tanh(c). GRU: three gates, and h W_n + b or r * h. Elman: its output."""
    assert [p.width for p in kept(plan_of(CELLS[name]())).values()] == [H] * count


def test_attention_keeps_weights_context_and_query():
    plan = plan_of(CELLS["gru_bahdanau"]())
    places = sorted((p.source_axis, p.width or 0) for p in kept(plan).values())
    of_cell = [(False, H)] * 4
    # The query's product is A wide, the context M wide, the weights one number per source place.
    assert places == sorted([*of_cell, (False, cases.A), (False, cases.M), (True, 0)])


@pytest.mark.parametrize("name", CELLS)
def test_inference_keeps_nothing(name):
    plan = plan_of(CELLS[name](), training=False)
    assert plan.backward is None and plan.sinks == []
    assert kept(plan) == {}
    later = {s.x.id for s in plan.forward.after.steps if isinstance(s, Product)}
    outlive = {plan.forward.loop.places[i] for i in later if i in plan.forward.loop.places}
    filled = {p for p in written(plan.forward.loop) if p.kind is PlaceKind.SEQUENCE}
    assert filled <= outlive | set(plan.outputs.values())


def test_a_value_that_is_kept_and_part_of_a_state_is_computed_before_it_is_copied():
    """Of a concatenation the first part lies where the whole begins, which once was taken for its own place."""

    def joined(p, x, s):
        first, second = split(s.h, 2)
        h = concat(tanh(x + first), tanh(x + second))
        return h * h, State(h=h)

    plan = plan_of(Made(joined, states={"h": 6}, output_size=6))
    for step in plan.forward.loop.steps:
        for nest in step.nests:
            seen = set()
            for entry in nest.entries:
                is_own = plan.forward.loop.places.get(entry.value.id) == entry.place
                assert is_own or entry.value.id in seen or entry.value.op != "tanh"
                seen.add(entry.value.id)


# ------------------------------------------------------------ the graph


def roots(traced):
    return [*traced.outputs.values(), *traced.new.values()]


def toy(function):
    """Return a cell around one function of (p, x, s)."""
    params = {"W": (3, 4), "U": (4, 4), "b": (4,)}
    return Made(function, params=params, states={"h": 4}, captured={"memory": Captured(4)})


def returning(h):
    return h, State(h=h)


def test_equal_expressions_are_one_value():
    def twice(p, x, s):
        return returning(tanh(x @ p.W + s.h) + tanh(x @ p.W + s.h) * tanh(s.h + x @ p.W))

    found = [v.op for v in topological(roots(trace(toy(twice), training=False)))]
    assert found.count("matmul") == 1
    assert found.count("tanh") == 2  # a + b and b + a are not looked into


@pytest.mark.parametrize("name", ["lstm", "gru", "gru_reset_before", "stack"])
def test_slices_reach_memory(name):
    for v in topological(roots(trace(CELLS[name](), training=True))):
        assert v.op != "slice" or v.args[0].kind in (OpKind.LEAF, OpKind.PRODUCT)
        if v.kind is OpKind.ELEMENTWISE:  # no gate's arithmetic on all gates at once
            assert v.width in (H, cases.OUT, None)


def test_constants_vanish():
    def idle(p, x, s):
        return returning(s.h * 1 + 0 - (x @ p.W) * 0)

    traced = trace(toy(idle), training=False)
    assert roots(traced)[0] is traced.states["h"]


def test_dropout_is_only_there_in_training():
    cell = CELLS["stack"]()
    (mask,) = trace(cell, training=True).masks
    assert (mask.width, mask.rate, mask.variational) == (H, 0.3, True)
    assert trace(cell, training=False).masks == []
    wrong = toy(lambda p, x, s: returning(p.dropout(x @ p.W, float("nan"))))
    refused(NMTError, "dropout: rate must be from 0 to less than 1, got nan", trace, wrong, training=True)


@pytest.mark.parametrize("make", [LSTMCell, GRUCell], ids=lambda c: c.__name__)
def test_sizes_are_no_part_of_the_source(make):
    from nmt.rnn.kernels.loops.run_cpu import CPUExecutable

    keys = set()
    for sizes in ((5, 7), (3, 64), (300, 13)):
        code = CPUExecutable(plan_of(make(*sizes)), np.dtype(np.float32))
        keys.add((code.forward_module.source, code.backward_module.source))
    assert len(keys) == 1


# ------------------------------------------------------------ mistakes of a cell's author

MISTAKES = {
    "widths differ": lambda p, x, s: returning(x + s.h),
    "product does not fit": lambda p, x, s: returning(s.h @ p.W),
    "product with a state": lambda p, x, s: returning(s.h @ s.h),
    "product of a number per row": lambda p, x, s: returning(dot(s.h, s.h) @ p.U),
    "no such parameter": lambda p, x, s: returning(x @ p.V),
    "no such state": lambda p, x, s: returning(s.c),
    "state missing": lambda p, x, s: (s.h, State()),
    "state too many": lambda p, x, s: (s.h, State(h=s.h, c=s.h)),
    "state of another width": lambda p, x, s: (s.h, State(h=x)),
    "output of another width": lambda p, x, s: (x, State(h=s.h)),
    "output for every source place": lambda p, x, s: (p.memory, State(h=s.h)),
    "uneven split": lambda p, x, s: returning(split(s.h, 3)[0]),
    "softmax without source": lambda p, x, s: returning(s.h * softmax(dot(s.h, s.h))),
    "sum of numbers": lambda p, x, s: returning(s.h * dot(dot(s.h, s.h), dot(s.h, s.h))),
    "dropout of numbers": lambda p, x, s: returning(s.h * p.dropout(dot(s.h, s.h), 0.5)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_a_step_are_one_line(mistake):
    refused(ShapeError, ": .*must|must.*: ", trace, toy(MISTAKES[mistake]), training=True)


def test_a_product_of_every_source_place_with_the_state_is_refused():
    def costly(p, x, s):
        scores = dot((p.memory + s.h) @ p.U, s.h)
        return returning(weighted_sum(softmax(scores), p.memory))

    refused(ShapeError, "source", plan_of, toy(costly))


H, T, B = cases.H, cases.T, cases.B
# Cell, policy, what is decided by name, and how many numbers a row and step more are stored for it.
CHOICES = [
    ("lstm", "attention", {"o": False}, -H),
    ("lstm", "attention", {"i": False, "f": False, "g": False, "o": False}, -4 * H),
    ("lstm", "gates", {"i": True, "o": True}, 2 * H),
    ("gru_reset_before", "attention", {"r": True, "n": False}, -H),
    ("lstm_bahdanau_feed", "attention", {"cell.g": False, "weights": True}, -H),
]


def kept_numbers(scan):
    """Numbers a row and step that a training run stores besides its states, without source positions."""
    places = scan.plan(True).forward.arrays.values()
    return sum(place.width or 1 for place in places if place.kind is PlaceKind.SEQUENCE and not place.source_axis)


@pytest.mark.parametrize(("name", "recompute", "keep", "more"), CHOICES)
def test_gradients_stay_and_memory_changes(name, recompute, keep, more):
    case = cases.draw(cases.CELLS[name](), "float64", cases.LENGTHS["zeros"])
    cases.agreeing(case, recompute=recompute, keep=keep, reverse=True)
    usual, chosen = (Scan(case.cell, recompute=recompute, keep=k) for k in (None, keep))
    assert kept_numbers(chosen) - kept_numbers(usual) == more


def test_a_run_takes_less_memory():
    case, taken = cases.draw(LSTMCell(cases.D, H), "float64"), []
    for keep in ({}, {"o": False}):
        scan, memory = Scan(case.cell, dtype="float64", threads=1, keep=keep), Workspace()
        scan.forward(Weights(case.params), case.x, training=True, allocate=memory)
        taken.append(memory.taken)
    assert taken[0] - taken[1] == -(-T * B * H * 8 // LINE_BYTES) * LINE_BYTES


def test_names_are_those_of_the_cell_and_of_cells_inside_it():
    scan = Scan(StackCell([LSTMCell(5, H), LSTMCell(H, H)]), keep={"1.o": False})
    assert kept_numbers(Scan(scan.cell)) - kept_numbers(scan) == H
    message = refused(NMTError, "", Scan, LSTMCell(5, H), keep={"o": False, "out": True})
    assert message == "LSTMCell: keep must name values that the step notes, i, f, g, o, got out"


def test_what_cannot_be_computed_again_is_one_line():
    scan = Scan(cases.CELLS["lstm_bahdanau_feed"](), keep={"weights": False})
    refused(NMTError, r"^keep: weights must be True, for it reads a sum .*, got False; leave it out$", scan.plan, True)


def test_inference_keeps_nothing_whatever_is_named():
    plain, named = (Scan(LSTMCell(5, H), keep=keep) for keep in (None, {"o": False}))
    assert plain.compiled(False) is named.compiled(False)
    assert plain.compiled(True) is not named.compiled(True)
    assert named.compiled(True) is Scan(LSTMCell(5, H), keep={"o": False}).compiled(True)


ALL_CELLS = {
    **cases.CELLS,
    **{f"more_{name}": case[0] for name, case in more.CELLS.items()},
    **{f"random_{seed}": lambda seed=seed: random_cell(seed) for seed in range(30)},
}


def read_by(values, places, written=None):
    """Return the places that are read to compute values; `written`: where a value itself is written, if anywhere."""
    found, pending = set(), [(v, written) for v in values]
    while pending:
        v, own = pending.pop()
        base, _ = memory_of(v, places)
        if base.id in places and places[base.id] != own:
            found.add(places[base.id])
        else:
            pending += [(v, None)] if own is not None and v.op == "flat" else [(a, None) for a in v.args]
    return found


def units_of(program):
    """Yield what each product and nest of a program reads, and what it writes."""
    for step in program.steps:
        if isinstance(step, Product):
            yield read_by([step.x], program.places), {program.places[step.out.id]}
            continue
        for nest in step.nests:
            reads = [read_by([e.value], program.places, e.place) for e in nest.entries]
            yield set().union(*reads), {e.place for e in nest.entries}


def programs_of(name):
    """All programs of a cell, in inference and training."""
    return [one for training in (False, True) for one in all_programs(plan_of(ALL_CELLS[name](), training=training))]


@pytest.mark.parametrize("name", ALL_CELLS)
def test_every_array_of_a_pass_is_read_or_a_result(name):
    for training in (False, True):
        plan = plan_of(ALL_CELLS[name](), training=training)
        reads = defaultdict(set)
        passes = {"forward": plan.forward} | ({"backward": plan.backward} if plan.backward else {})
        for key, one in passes.items():
            for program in programs(one):
                for read, _ in units_of(program):
                    reads[key] |= {place.name for place in read}
        sinks = {place.name for sink in plan.sinks for place in (sink.left, sink.right) if place is not None}
        results = {place.name for place in plan.outputs.values()}
        checkpoints = {place.name for place in plan.forward.checkpoints}
        assert set(plan.forward.arrays) <= results | reads["forward"] | reads["backward"] | sinks | checkpoints
        if plan.backward:
            gradients = {place.name for place in plan.d_inputs.values()}
            assert set(plan.backward.arrays) <= gradients | reads["backward"] | sinks | checkpoints


@pytest.mark.parametrize("name", ALL_CELLS)
def test_scratch_of_a_program_is_read_there(name):
    for program in programs_of(name):
        units = list(units_of(program))
        for at, (_, written) in enumerate(units):
            later = set().union(*(read for read, _ in units[at:]))
            assert {p for p in written if p.kind in (PlaceKind.ROWS, PlaceKind.ROW, PlaceKind.LOCAL)} <= later


def expensive(entry, places):
    """Return the ids of the expensive values that are computed for an entry, without those of source positions."""
    found, pending = set(), [entry.value]
    while pending:
        v = pending.pop()
        base, _ = memory_of(v, places)
        if v.kind in (OpKind.LEAF, OpKind.PRODUCT) or base.id in places and (v is not entry.value or base is not v):
            continue
        if v is entry.value and places.get(v.id, entry.place) != entry.place:
            continue  # a copy
        found |= {v.id} if v.rule.expensive and not is_wide(v) else set()
        pending += v.args
    return found


@pytest.mark.parametrize("name", ALL_CELLS)
def test_no_two_nests_compute_the_same_expensive_value(name):
    for program in programs_of(name):
        nests = [nest for step in program.steps if not isinstance(step, Product) for nest in step.nests]
        found = [set().union(*(expensive(e, program.places) for e in nest.entries)) for nest in nests]
        assert sum(map(len, found)) == len(set().union(*found)), name
