"""What a scan is asked for: gradients of some things alone, values to look at, rows that stop, steps that exist. Held
against plain loops (gradients by complex steps of these) and the interpreter."""

import numpy as np
import pytest

from nmt.errors import ShapeError
from nmt.rnn import AttentionCell, ChunkedScan, GRUCell, LSTMCell, Scan, StackCell, Weights
from nmt.rnn.compiler.program import PlaceKind
from tests.oracle import compare
from tests.refusals import refused
from tests.rnn import interface_cases as cases
from tests.rnn import scan_cases


def products(plan):
    """Weights of the products of the backward pass, and of the sums behind it."""
    back = plan.backward
    found = [s for program in back.programs.values() for s in program.products]
    return sorted(s.weight.attrs["name"] for s in found), sorted(s.sink.name for s in plan.sinks)


def assert_near(found, expected):
    """All that is expected is there, but for rounding."""
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-13, err_msg=name)


def kept(plan):
    """Arrays of the forward pass that the backward pass reads."""
    return {name for name, place in plan.forward.arrays.items() if place.kind is PlaceKind.SEQUENCE}


# ------------------------------------------------------------ which gradients


@pytest.mark.parametrize(
    ("needs", "multiplied", "summed"),
    [
        (None, ["W_h", "W_x"], ["W_h", "W_x", "b"]),
        ({"W_x", "W_h", "b"}, ["W_h"], ["W_h", "W_x", "b"]),
        ({"x"}, ["W_h", "W_x"], []),
        ({"b"}, ["W_h"], ["b"]),
        ((), ["W_h"], []),
    ],
)
def test_what_needs_no_gradient_costs_nothing(needs, multiplied, summed):
    """Read off the plan: products of the way back, and sums over rows for parameters."""
    plan = Scan(LSTMCell(3, 4), needs=needs).plan(True)
    assert products(plan) == (multiplied, summed)
    assert kept(plan) <= kept(Scan(LSTMCell(3, 4)).plan(True))


def test_a_frozen_layer_below_is_not_multiplied_through():
    """What is left of it in the way back are the gradients of its states."""
    cell = StackCell([GRUCell(3, 4), LSTMCell(4, 5)])
    everything = Scan(cell).plan(True)
    above = Scan(cell, needs={"1.W_x", "1.W_h", "1.b"}).plan(True)
    assert products(above)[1] == ["1.W_h", "1.W_x", "1.b"]
    assert len(products(above)[0]) < len(products(everything)[0])


@pytest.mark.parametrize("needs", [{"x"}, {"cell.W_h", "W_k"}, {"memory", "b_c"}, {"v"}])
def test_gradients_that_are_needed_are_those_of_all(needs):
    """Also where they run through what is constant over time (keys of an attention), or do not."""
    cell = AttentionCell(LSTMCell(5 + 6, 7), 6, 6, attention_size=4)
    case = scan_cases.draw(cell, "float64", scan_cases.LENGTHS["mixed"])
    _, found, _ = scan_cases.compiled(case)
    scan, weights = Scan(cell, dtype=np.float64, threads=1, needs=needs), Weights(case.params)
    result = scan.forward(weights, case.x, case.initial, **case.options, training=True)
    shares = {k: np.zeros_like(p) for k, p in case.params.items()}
    got = scan.backward(result.tape, case.d_y, case.d_final, shares)
    assert (got.x is not None) == ("x" in needs) and set(got.captured) == needs & {"memory"}
    named = {"x": got.x, **got.captured, **shares}
    for name in needs:
        key = f"d_captured {name}" if name == "memory" else f"d_{name}"
        np.testing.assert_allclose(named[name], found[key], rtol=0, atol=1e-12, err_msg=name)
    for name in set(shares) - needs:
        assert not shares[name].any()
    for name, first in got.initial.items():
        np.testing.assert_allclose(first, found[f"d_initial {name}"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("receives", [(), ("a",), ("y", "a")])
def test_outputs_that_receive_a_gradient(receives):
    """Of the final states alone, of a value within the step, and of both beside the output."""
    run = cases.draw(cases.noting_cell(), cases.noting, lengths=(3, 7, 1, 0, 5), record=("a",))
    run.asked["receives"] = receives
    if "y" not in receives:
        d_y, run.d_y = run.d_y, None
    if "a" in receives:
        run.d_recorded = {"a": np.random.default_rng(9).normal(size=(cases.T, cases.B, cases.H))}
    found, slopes = cases.program(run)
    cases.check(run, found, slopes)
    cases.check_interpreter(run, found, slopes)
    scan = Scan(run.cell, dtype=np.float64, **run.asked)
    assert scan.plan(True).receives == {"y" if name == "y" else "N_a" for name in receives}
    if "y" not in receives:
        tape = scan.forward(Weights(run.params), run.x, training=True).tape
        promise = "receives must name every output that has a gradient, got none for y"
        refused(ShapeError, promise, scan.backward, tape, d_y)


def test_names_that_are_not_there_are_one_line():
    for words, options in (
        ("needs must be a collection of names among W_h, W_x, b, x, got W_z", {"needs": {"W_z"}}),
        ("got x", {"needs": "x"}),
        ("needs must be a collection of names .* got {'x': False}", {"needs": {"x": False}}),
        ("needs must be a collection of names .* got <list_iterator", {"needs": iter(["x"])}),
        ("receives must be a collection of names among i, y, got f", {"receives": {"f"}, "record": ("i",)}),
    ):
        refused(ShapeError, words, Scan, LSTMCell(2, 3), **options)
    promise = "record must name values that the step notes, i, f, g, o, got z"
    refused(ShapeError, promise, Scan(LSTMCell(2, 3), record=("z",)).plan, True)


# ------------------------------------------------------------ values to look at


@pytest.mark.parametrize("reverse", [False, True])
def test_recorded_gates_are_those_of_every_step(reverse):
    """By hand from the states before each step, which the scan of shorter rows gives."""
    run = cases.draw(LSTMCell(3, 4), None, lengths=(3, 7, 1, 0, 5), reverse=reverse, record=("i", "f", "g", "o"))
    found, slopes = cases.program(run)
    p = run.params

    def sigmoid(a):
        return 1 / (1 + np.exp(-a))

    for row, length in enumerate(run.options["lengths"]):
        h, c = run.initial["h"][row], run.initial["c"][row]
        for t in reversed(range(length)) if reverse else range(length):
            i, f, g, o = np.split(run.x[t, row] @ p["W_x"] + h @ p["W_h"] + p["b"], 4)
            for name, value in {"i": sigmoid(i), "f": sigmoid(f), "g": np.tanh(g), "o": sigmoid(o)}.items():
                np.testing.assert_allclose(found[f"recorded {name}"][t, row], value, rtol=0, atol=1e-13)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        assert not any(found[f"recorded {name}"][length:, row].any() for name in "ifgo")
    run.asked = {}
    plain, plain_slopes = cases.program(run)
    assert_near(found | slopes, plain | plain_slopes)


def test_attention_weights_are_recorded_over_the_source():
    cell = StackCell([AttentionCell(GRUCell(5 + 6, 7), 6, 6, attention="general")])
    case = scan_cases.draw(cell, "float64", scan_cases.LENGTHS["mixed"])
    scan = Scan(cell, dtype=np.float64, threads=1, record=("0.weights", "0.cell.z"))
    result = scan.forward(Weights(case.params), case.x, case.initial, **case.options)
    weights = result.recorded["0.weights"]
    assert weights.shape == (scan_cases.T, scan_cases.S, scan_cases.B, 1)
    assert result.recorded["0.cell.z"].shape == (scan_cases.T, scan_cases.B, 7)
    for row, (steps, places) in enumerate(zip(case.lengths, case.source_lengths, strict=True)):
        np.testing.assert_allclose(weights[:steps, :, row].sum(axis=1), 1, rtol=0, atol=1e-12)
        assert (weights[:steps, :places, row] > 0).all() and not weights[:steps, places:, row].any()
        assert not weights[steps:, :, row].any()


# ------------------------------------------------------------ steps that exist


@pytest.mark.parametrize("filling", [np.nan, np.inf])
@pytest.mark.parametrize("reverse", [False, True])
def test_what_is_masked_out_is_never_read(filling, reverse):
    run = cases.draw(cases.noting_cell(), cases.noting, mask=cases.masked(), reverse=reverse, record=("a",))
    clean = cases.program(run)
    for array in (run.x, run.d_y):
        array[~run.options["mask"]] = filling
    dirty = cases.program(run)
    scan_cases.assert_same_run(dirty, clean)
    assert not dirty[0]["y"][~run.options["mask"]].any() and not dirty[1]["d_x"][~run.options["mask"]].any()


def test_a_mask_of_first_steps_is_lengths():
    """The very same run, and no step moved."""
    lengths = np.array([3, 7, 1, 0, 5])
    runs = [cases.draw(cases.noting_cell(), cases.noting, **o) for o in (
        {"lengths": lengths}, {"mask": np.arange(cases.T)[:, None] < lengths})]  # fmt: skip
    scan_cases.assert_same_run(*map(cases.program, runs))
    scan = Scan(cases.noting_cell(), dtype=np.float64)
    result = scan.forward(Weights(runs[1].params), runs[1].x, **runs[1].keywords, training=True)
    assert result.tape.packing is None and np.shares_memory(result.tape.arrays["x"], runs[1].x)


def test_a_row_with_holes_is_the_row_without_them():
    """The same bits as the steps that exist, run alone."""
    run = cases.draw(LSTMCell(3, 4), None, mask=cases.masked())
    found, slopes = cases.program(run)
    whole = {k: a for k, a in (found | slopes).items() if k[2:] not in run.params}
    for row in range(cases.B):
        at = run.options["mask"][:, row]
        alone = cases.draw(run.cell, None, steps=int(at.sum()), rows=1)
        alone.params = run.params
        alone.x, alone.d_y = (np.ascontiguousarray(a[at, row : row + 1]) for a in (run.x, run.d_y))
        alone.initial, alone.d_final = ({k: v[row : row + 1] for k, v in a.items()} for a in (run.initial, run.d_final))
        outputs, gradients = cases.program(alone)
        own = {k: a[at, row : row + 1] if k in ("y", "d_x") else a[row : row + 1] for k, a in whole.items()}
        of_row = {k: a for k, a in (outputs | gradients).items() if k[2:] not in run.params}
        compare.assert_same_bits(of_row, own)


# ------------------------------------------------------------ rows that stop


STOPS = {"all": {}, "lengths": {"lengths": (3, 7, 1, 0, 5)}, "mask": {"mask": cases.masked()}}


def stopping(**options):
    run = cases.draw(cases.noting_cell(), cases.noting, seed=1, record=("done",), **options)
    run.asked = {"record": ("done",), "stop": "done"}
    return run


@pytest.mark.parametrize("way", STOPS)
def test_rows_end_where_their_condition_says(way):
    """Some do so and some do not; gradients are those of rows of these lengths."""
    run = stopping(**STOPS[way])
    found, slopes = cases.program(run)
    limits = run.there.sum(axis=0)
    assert (found["taken"] < limits).any() and (found["taken"] == limits).any()
    cases.check(run, found, slopes)


def noted(way, reverse):
    return cases.draw(LSTMCell(3, 4), None, reverse=reverse, record=("f",), **STOPS[way])


RUNS = {f"stopping, {way}": lambda way=way: stopping(**STOPS[way]) for way in STOPS}
RUNS |= {f"{w}, reverse {r}": lambda w=w, r=r: noted(w, r) for w in ("all", "mask") for r in (False, True)}


@pytest.mark.parametrize("steps", [1, 3, 7, 9])
@pytest.mark.parametrize("run", RUNS)
def test_chunks_with_carried_states_equal_one_long_call(run, steps):
    run = RUNS[run]()
    whole = cases.program(run)
    parts = cases.program(run, chunk=steps)
    compare.assert_same_bits(parts[0], whole[0])
    assert_near(parts[1], whole[1])  # sums of parameters' gradients are grouped by chunks


def test_no_chunk_runs_when_every_row_has_stopped():
    """Work is saved, not only hidden: the scan is asked for as many chunks as the longest row takes."""
    run = stopping()
    run.params["v"][:] = 0
    scan = Scan(run.cell, dtype=np.float64, threads=1, **run.asked)
    asked = []
    forward = scan.forward
    scan.forward = lambda weights, x, *rest, **options: (asked.append(len(x)), forward(weights, x, *rest, **options))[1]
    chunked = ChunkedScan(scan, 2)
    weights = Weights(run.params | {"v": np.zeros(cases.H)})
    assert (chunked.forward(weights, run.x, run.initial).lengths == cases.T).all()
    assert asked == [2, 2, 2, 1]
    asked.clear()
    x = np.ones_like(run.x)
    weights = Weights({"W": np.full((cases.D, cases.H), 2.0), "U": np.zeros((cases.H, cases.H)), "v": np.ones(cases.H)})
    assert (chunked.forward(weights, x).lengths == 1).all()
    assert asked == [2]


def test_stops_run_forwards_and_are_one_number_a_row():
    run = stopping(reverse=True)
    refused(ShapeError, "reverse must be False with a stop condition", cases.program, run)
    run = stopping()
    run.asked = {"stop": "a"}
    refused(ShapeError, "stop must name a value of width 1, got a", cases.program, run)


# ------------------------------------------------------------ chunks


def test_truncated_gradients_stop_at_the_chunk():
    """Of each chunk what it gives with its first states held fast: the loops with a loss of that chunk alone."""
    run = cases.draw(cases.driven_cell(), cases.driven)
    scan, steps = Scan(run.cell, dtype=np.float64, threads=1), 3
    chunked, weights = ChunkedScan(scan, steps), Weights(run.params)
    result = chunked.forward(weights, run.x, run.initial, **run.keywords, training=True)
    shares = {k: np.zeros_like(p) for k, p in run.params.items()}
    found = chunked.backward(result, run.d_y, run.d_final, shares, truncate=True)
    expected = {k: np.zeros_like(p) for k, p in run.params.items()}
    state = run.initial
    for start in range(0, cases.T, steps):
        part = cases.draw(run.cell, run.step)
        part.params, part.initial = run.params, state
        part.x, part.d_y = run.x[start : start + steps], run.d_y[start : start + steps]
        part.sequences = {k: v[start : start + steps] for k, v in run.sequences.items()}
        part.d_final = {"h": run.d_final["h"] * (start + steps >= cases.T)}
        outputs, slopes = cases.program(part)
        cases.check(part, outputs, slopes)
        for name in expected:
            expected[name] += slopes[f"d_{name}"]
        for name in ("x", "z", "g"):
            got = found.x if name == "x" else found.sequences[name]
            np.testing.assert_allclose(got[start : start + steps], slopes[f"d_{name}"], rtol=0, atol=1e-13)
        if start == 0:
            np.testing.assert_allclose(found.initial["h"], slopes["d_initial h"], rtol=0, atol=1e-13)
        state = {"h": outputs["final h"]}
    assert_near(shares, expected)


def test_chunks_need_a_step_and_a_tape():
    run = cases.draw(GRUCell(3, 4), None)
    scan = Scan(run.cell, dtype=np.float64)
    refused(ShapeError, "steps must be at least 1, got 0", ChunkedScan, scan, 0)
    result = ChunkedScan(scan, 3).forward(Weights(run.params), run.x)
    refused(ShapeError, "training=True, got no tapes", ChunkedScan(scan, 3).backward, result, run.d_y)
