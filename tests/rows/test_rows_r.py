"""Rows R of docs/engine-rows.md: a user's step run over time."""

from dataclasses import fields, replace

import numpy as np
import pytest

from nmt.errors import NMTError, ShapeError
from nmt.rnn import (
    Cell,
    DeepTransitionGRUCell,
    ElmanCell,
    LinearCell,
    LSTMCell,
    Param,
    ResidualCell,
    Scan,
    StackCell,
    State,
    Weights,
    split,
    tuning,
)
from nmt.rnn.arrays.workspace import Fresh
from nmt.rnn.compiler.trace import trace
from nmt.rnn.graph import Value
from nmt.rnn.scan.tape import Result
from tests.oracle import gradients
from tests.rnn import more_cell_cases as more
from tests.rnn import scan_cases as cases
from tests.rows.support import (
    MIXED,
    B,
    ClockCell,
    D,
    H,
    SumMulCell,
    SwapCell,
    T,
    all_close,
    close,
    draw,
    hold_to_quotients,
    kept,
    plan_of,
    products,
    same_bits,
    stacked_attention,
)


def run(case, **options):
    """The scan of a case and its training run."""
    scan = Scan(case.cell, dtype="float64", threads=1)
    result = scan.forward(Weights(case.params), case.x, case.initial, **case.options, training=True, **options)
    return scan, result


def test_R01_a_scan_is_a_part_of_a_larger_network():
    """Words by a table, a recurrent scan, a layer of its own above: gradients go through all three."""
    words, table, d_y = np.array([[0, 2], [1, 1], [2, 0]]), draw(3, D), draw(3, 2, cases.OUT)
    below, above = Scan(LSTMCell(D, H), dtype="float64"), Scan(LinearCell(H, cases.OUT), dtype="float64")
    first, second = (Weights(cases.draw(s.cell, "float64").params) for s in (below, above))

    def forward():
        one = below.forward(first, table[words], training=True)
        return one, above.forward(second, one.y, training=True)

    one, two = forward()
    d_below = above.backward(two.tape, d_y).x
    d_words = below.backward(one.tape, d_below).x
    d_table = np.zeros_like(table)
    np.add.at(d_table, words, d_words)
    found = gradients.elementwise(lambda: np.sum(forward()[1].y * d_y), table)
    close(d_table, found, "table", 1e-8)


@pytest.mark.parametrize("cell", [SumMulCell(D), SwapCell(D, H)], ids=["sum_mul", "swap"])
def test_R02_any_step_of_a_user_is_run_over_time(cell):
    case = cases.draw(cell, "float64", MIXED)
    if case.captured:
        case = replace(case, captured={"outside": draw(B, H)}, source_lengths=None)
    outputs, found, masks = cases.compiled(case)
    expected, expected_gradients = cases.interpreted(case, masks)
    all_close(outputs, expected)
    all_close(found, expected_gradients)


class TwoInputs(Cell):
    """Reads two sequences that lie side by side: h' = h * a + b."""

    def __init__(self, size):
        self.input_size, self.output_size = 2 * size, size

    def states(self):
        return {"h": self.output_size}

    def step(self, p, x, s):
        a, b = split(x, 2)
        h = s.h * a + b
        return h, State(h=h)


def test_R03_sequences_side_by_side_are_several_inputs():
    case = cases.draw(TwoInputs(4), "float64")
    outputs, found, _ = cases.compiled(case)
    a, b, h = case.x[..., :4], case.x[..., 4:], case.initial["h"]
    for t in range(T):
        h = h * a[t] + b[t]
        close(outputs["y"][t], h)
    hold_to_quotients(case, found)


def test_R05_initial_states_are_given_and_have_gradients():
    case = cases.draw(LSTMCell(D, H), "float64")
    zero, _, _ = cases.compiled(replace(case, initial={}))
    outputs, found, _ = cases.compiled(case)
    assert not np.array_equal(zero["y"][0], outputs["y"][0])
    assert {k for k in found if "initial" in k} == {"d_initial h", "d_initial c"}
    hold_to_quotients(case, found)


def test_R06_what_a_step_puts_out_is_what_the_next_one_reads():
    """By name: each of two states is made from the other."""
    case = replace(cases.draw(SwapCell(D, H), "float64"), captured={"outside": draw(B, H)}, source_lengths=None)
    outputs, _, _ = cases.compiled(case)
    a, b = case.initial["a"], case.initial["b"]
    for t in range(T):
        a, b = np.tanh(case.x[t] @ case.params["W"] + b), a * case.captured["outside"]
        close(outputs["y"][t], a + b)


def test_R07_a_cell_may_know_the_time():
    """A state that counts; a sequence that comes in two parts goes on counting."""
    case = cases.draw(ClockCell(4), "float64", MIXED)
    case.initial.pop("t")
    outputs, _, _ = cases.compiled(case)
    h = case.initial["h"].copy()
    for t in range(T):
        h += t * case.x[t] * (t < np.array(MIXED))[:, None]
    close(outputs["final h"], h)
    scan, weights = Scan(case.cell, dtype="float64"), Weights({})
    whole = scan.forward(weights, case.x, case.initial)
    first = scan.forward(weights, case.x[:2], case.initial)
    rest = scan.forward(weights, case.x[2:], first.final)
    np.testing.assert_array_equal(np.concatenate([first.y, rest.y]), whole.y)


def test_R08_two_engines_in_one_model_do_not_meet():
    """The same cell twice, with weights of their own under one roof, their passes interleaved."""
    cell, roof = LSTMCell(D, H), Weights()
    case = cases.draw(cell, "float64")
    for n, name in enumerate(("encoder", "decoder")):
        for key, value in case.params.items():
            roof[f"{name}.{key}"] = value * (n + 1)
    scans = {name: Scan(cell, dtype="float64", threads=1) for name in ("encoder", "decoder")}
    results = {n: s.forward(roof.view(n), case.x, case.initial, training=True) for n, s in scans.items()}
    mixed = {name: scans[name].backward(results[name].tape, case.d_y).x for name in ("encoder", "decoder")}
    for n, name in enumerate(("encoder", "decoder")):
        alone = replace(case, params={k: v * (n + 1) for k, v in case.params.items()})
        scan, result = run(alone)
        np.testing.assert_array_equal(results[name].y, result.y)
        np.testing.assert_array_equal(mixed[name], scan.backward(result.tape, case.d_y).x)


@pytest.mark.parametrize("name", ["lstm", "gru", "stack"])
def test_R10_values_computed_again_are_not_stored_and_gradients_stay(name):
    case = cases.draw(cases.CELLS[name](), "float64", MIXED)
    usual, again = (cases.compiled(case, recompute=r) for r in ("attention", "gates"))
    all_close(again[1], usual[1], 1e-12)
    assert sum(kept(plan_of(case.cell, recompute="gates"))) < sum(kept(plan_of(case.cell)))


def test_R10_values_are_named_to_be_computed_again():
    """The product behind them is repeated too, for nobody stores it."""
    case, keep = cases.draw(LSTMCell(D, H), "float64", MIXED), {"o": False}
    usual, again = (cases.compiled(case, keep=names) for names in (None, keep))
    all_close(again[0], usual[0], 1e-12)
    all_close(again[1], usual[1], 1e-12)
    plans = [Scan(case.cell, keep=names).plan(True) for names in (None, keep)]
    assert sum(kept(plans[1])) == sum(kept(plans[0])) - H
    counts = [len(products(plan.backward.before)) + len(products(plan.backward.loop)) for plan in plans]
    assert counts[1] > counts[0]


def test_R11_chains_are_computed_again_in_their_order():
    """Each transition of this cell reads the one before: products between activations, all of them repeated."""
    case = cases.draw(DeepTransitionGRUCell(D, H, transitions=3), "float64", MIXED)
    usual, again = (cases.compiled(case, recompute=r) for r in ("attention", "gates"))
    all_close(again[1], usual[1], 1e-12)
    passes = [plan_of(case.cell, recompute=r).backward for r in ("attention", "gates")]
    counts = [len(products(one.before)) + len(products(one.loop)) for one in passes]
    assert counts[1] == counts[0] + 4  # of the input and of the state before each transition


@pytest.mark.parametrize("name", cases.CELLS)
def test_R12_an_operation_has_one_result(name):
    """So none can put out something undeclared beside what is computed again."""
    traced = trace(cases.CELLS[name](), training=True)
    assert {type(v) for v in traced.graph.values} == {Value}
    assert len({v.id for v in traced.graph.values}) == len(traced.graph.values)


def test_R13_a_forward_only_run_has_no_way_back():
    """No backward program is made, nothing is kept, and asking for gradients is one line."""
    case = cases.draw(LSTMCell(D, H), "float64")
    scan = Scan(case.cell, dtype="float64")
    assert scan.plan(training=False).backward is None
    assert kept(scan.plan(training=False)) == [] != kept(scan.plan(training=True))
    result = scan.forward(Weights(case.params), case.x)
    assert result.tape is None
    with pytest.raises(NMTError, match="LSTMCell.backward: the tape must be of a run with training=True, got None"):
        scan.backward(result.tape, case.d_y)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda p, x, s: (x @ p.V, State(h=s.h)), "V must be a parameter or captured array, got none such among W"),
        (lambda p, x, s: (s.c, State(h=s.h)), "a state must be one of h, got c"),
        (lambda p, x, s: (s.h, State(g=s.h)), r"new states must be \['h'\], got \['g'\]"),
    ],
)
def test_R14_names_that_a_cell_has_not_declared_are_one_line(step, message):
    class Wrong(Cell):
        input_size = output_size = 3

        def params(self):
            return {"W": Param((3, 3))}

        def states(self):
            return {"h": 3}

    cell = Wrong()
    Wrong.step = lambda self, p, x, s: step(p, x, s)
    with pytest.raises(ShapeError, match=message) as caught:
        plan_of(cell)
    assert "\n" not in str(caught.value)


def test_R15_what_is_neither_sequence_nor_state_comes_by_reference():
    """Parameters and encoder outputs are read where they lie: writing into them is seen by the next run."""
    case = cases.draw(stacked_attention(), "float64")
    scan, weights = Scan(case.cell, dtype="float64", threads=1), Weights(case.params)

    def y():
        return scan.forward(weights, case.x, **case.options).y.copy()

    first = y()
    case.captured["memory"][0] += 1
    second = y()
    assert not np.array_equal(first, second)
    case.params["W_c"] *= 2
    weights.changed()
    assert not np.array_equal(second, y())
    case.params["W_c"] /= 2
    case.captured["memory"][0] -= 1
    weights.changed()
    close(y(), first)


def test_R16_gradients_of_references_are_sums_over_time():
    """Of a parameter and of a captured array: the whole run against its steps, one by one, last step first."""
    case = replace(cases.draw(SwapCell(D, H), "float64"), captured={"outside": draw(B, H)}, source_lengths=None)
    _, found, _ = cases.compiled(case)
    scan, weights, states, tapes = Scan(case.cell, dtype="float64", threads=1), Weights(case.params), case.initial, []
    for x in case.x:
        step = scan.forward(weights, x[None], states, captured=case.captured, training=True)
        states, tapes = step.final, [*tapes, step.tape]
    total, shares, d_states = np.zeros((B, H)), {"W": np.zeros((D, H))}, case.d_final
    for tape, d_y in zip(reversed(tapes), case.d_y[::-1], strict=True):
        step = scan.backward(tape, d_y[None], d_states, shares)
        total, d_states = total + step.captured["outside"], step.initial
    close(found["d_captured outside"], total)
    close(found["d_W"], shares["W"])
    all_close({k: found[f"d_initial {k}"] for k in d_states}, d_states)


def test_R17_the_way_back_is_derived_from_the_step():
    """The author wrote none; difference quotients of everything that the step reads."""
    case = replace(cases.draw(SwapCell(D, H), "float64", MIXED), captured={"outside": draw(B, H)}, source_lengths=None)
    hold_to_quotients(case)


@pytest.mark.parametrize(("cell", "widths"), [(LSTMCell(D, H), [H] * 5), (ElmanCell(D, H), []), (SumMulCell(D), [])])
def test_R18_only_what_the_way_back_needs_is_stored(cell, widths):
    """An LSTM: four gates and tanh(c). Elman's cell and sums and products of states: nothing besides the states."""
    assert kept(plan_of(cell)) == widths


@pytest.mark.parametrize("reverse", [False, True])
def test_R19_states_lie_in_one_array_with_the_first_in_slot_zero(reverse):
    case = cases.draw(LSTMCell(D, H), "float64")
    _, result = run(case, reverse=reverse)
    for name in ("h", "c"):
        stack = result.tape.arrays[f"S_{name}"]
        assert stack.shape == (T + 1, B, H)
        first, last = (T, 0) if reverse else (0, T)
        np.testing.assert_array_equal(stack[first], case.initial[name])
        np.testing.assert_array_equal(stack[last], result.final[name])


def test_R20_a_step_reads_slot_t_and_writes_slot_t_plus_one():
    case = cases.draw(LSTMCell(D, H), "float64")
    scan, result = run(case)
    stacks = {name: result.tape.arrays[f"S_{name}"] for name in ("h", "c")}
    for t in range(T):
        before = {name: stack[t].copy() for name, stack in stacks.items()}
        one = scan.forward(Weights(case.params), case.x[t : t + 1], before, training=True)
        same_bits(one.final, {name: stack[t + 1] for name, stack in stacks.items()})


def test_R21_a_run_gives_all_steps_and_the_last():
    case = cases.draw(LSTMCell(D, H), "float64", MIXED)
    _, result = run(case)
    assert list(result.final) == ["h", "c"]
    for row, n in enumerate(MIXED):
        np.testing.assert_array_equal(result.final["h"][row], result.y[n - 1, row])


def test_R22_outputs_are_views_of_the_states_not_copies():
    case = cases.draw(LSTMCell(D, H), "float64")
    _, result = run(case)
    stack = result.tape.arrays["S_h"]
    assert np.shares_memory(result.y, stack) and np.shares_memory(result.y, stack[1:])
    assert not np.shares_memory(result.y, stack[0])


class IdentityCell(Cell):
    """h' = h, y = h: the state's gradient passes through untouched by any operation."""

    def __init__(self, size):
        self.input_size = self.output_size = size

    def states(self):
        return {"h": self.input_size}

    def step(self, p, x, s):
        return s.h + x, State(h=s.h)


@pytest.mark.parametrize("cell", [SumMulCell(D), IdentityCell(D)], ids=["sum", "identity"])
def test_R23_a_state_that_is_only_passed_on_has_its_gradient(cell):
    hold_to_quotients(cases.draw(cell, "float64", MIXED))


def test_R24_the_gradient_of_the_sequence_has_its_shape_and_is_zero_beyond_the_end():
    case = cases.draw(ElmanCell(D, H), "float64", MIXED)
    _, found, _ = cases.compiled(case)
    assert found["d_x"].shape == (T, B, D)
    for row, n in enumerate(MIXED):
        assert not found["d_x"][n:, row].any() and found["d_x"][:n, row].all()


@pytest.mark.parametrize(
    "cell",
    [StackCell([ResidualCell(LSTMCell(H, H)), ResidualCell(LSTMCell(H, H))]), stacked_attention()],
    ids=["residual_layers", "attention_over_layers"],
)
def test_R25_gradients_from_inside_and_outside_are_summed(cell):
    """A lower layer's output is read above, by the residual sum and by its own next step."""
    hold_to_quotients(cases.draw(cell, "float64", MIXED))


def test_R26_what_is_not_asked_for_is_the_default():
    case = cases.draw(LSTMCell(D, H), "float64")
    plain, plain_gradients, _ = cases.compiled(replace(case, captured={}))
    given = cases.compiled(case, recompute="attention", division=None, needs=None)
    same_bits(given[0], plain)
    same_bits(given[1], plain_gradients)


def test_R27_internals_are_not_among_the_results():
    assert [f.name for f in fields(Result)] == ["y", "final", "tape", "recorded", "lengths", "stopped"]
    case = cases.draw(LSTMCell(D, H), "float64")
    result = Scan(case.cell, dtype="float64").forward(Weights(case.params), case.x)
    assert result.tape is None and set(result.final) == {"h", "c"}


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn_tanh"])
def test_R30_with_recomputation_a_step_stores_its_states_alone(name):
    assert kept(plan_of(cases.CELLS[name](), recompute="gates")) == []


@pytest.mark.parametrize("name", [*cases.CELLS, *more.CELLS])
def test_R31_every_cell_can_compute_again_instead_of_storing(name):
    cell = cases.CELLS[name]() if name in cases.CELLS else more.CELLS[name][0]()
    usual, again = (kept(plan_of(cell, recompute=r)) for r in ("attention", "gates"))
    assert sum(n or 1 for n in again) <= sum(n or 1 for n in usual)
    loops = [plan_of(cell, recompute=r).backward for r in ("attention", "gates")]
    counts = [sum(len(products(p)) for p in b.programs.values()) for b in loops]
    assert counts[1] >= counts[0]


def test_R32_recomputed_values_share_memory_between_blocks_of_time(monkeypatch):
    """Twice the steps, no more memory beyond what has a place for every step."""
    monkeypatch.setattr(tuning, "BLOCK_ROWS", 2 * B)

    class Counted(Fresh):
        taken = 0

        def __call__(self, shape, dtype):
            array = super().__call__(shape, dtype)
            self.taken += array.nbytes
            return array

    asked = []
    for steps in (8, 16):
        case, memory = cases.draw(LSTMCell(D, H), "float64", steps=steps), Counted()
        scan = Scan(case.cell, dtype="float64", threads=1, recompute="gates")
        tape = scan.forward(Weights(case.params), case.x, case.initial, training=True, allocate=memory).tape
        memory.taken = 0
        asked.append(-scan.backward(tape, case.d_y).x.nbytes)
        asked[-1] += memory.taken
    assert asked[0] == asked[1]
