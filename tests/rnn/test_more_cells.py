"""The cells beyond LSTM, GRU and Elman's: oracle, interpreter and compiled program; what leaves the loop; dropout.
test_products.py compares their programs with interpreter and oracle."""

from dataclasses import replace

import numpy as np
import pytest

from nmt.errors import NMTError, ShapeError
from nmt.rnn import ChunkedScan, Scan, Shape, Weights, cells, initial_params, interpreter
from nmt.rnn.compiler.plan import make_plan
from nmt.rnn.compiler.trace import trace
from tests.oracle import compare, more_cells
from tests.refusals import refused
from tests.rnn import more_cell_cases as more
from tests.rnn import scan_cases as cases

RUNS = [("full", False), ("mixed", True), ("zeros", False)]


def of_oracle(name, case, now, reverse):
    """Outputs by name from the oracle, `now` holding all leaves."""
    initial = {k: now[f"initial {k}"] for k in case.initial}
    p = {k: now[k] for k in case.params}
    y, final = more_cells.run(more.MEANINGS[name][1], p, now["x"], initial, case.lengths, reverse=reverse)
    return {"y": y, **{f"final {k}": v for k, v in final.items()}}


def leaves_of(case):
    return {"x": case.x, **{f"initial {k}": a for k, a in case.initial.items()}, **case.params}


@pytest.mark.parametrize(("lengths", "reverse"), RUNS)
@pytest.mark.parametrize("name", more.MEANINGS)
def test_a_cell_means_what_its_paper_says(name, lengths, reverse):
    case = more.draw(name, cases.LENGTHS[lengths])
    found = interpreter.forward(case.cell, case.params, case.x, case.initial, lengths=case.lengths, reverse=reverse)
    compare.assert_all_close(cases.named(found), of_oracle(name, case, leaves_of(case), reverse), 1e-12, name)


@pytest.mark.parametrize("name", more.COMPILED)
def test_a_step_a_call_is_one_call(name):
    """States handed on; in the program of training, which is compiled already."""
    case = more.draw(name)
    scan, weights = Scan(case.cell, dtype=case.x.dtype, threads=1), Weights(case.params)
    whole = scan.forward(weights, case.x, case.initial, training=True)
    states = case.initial
    for t, x in enumerate(case.x):
        one = scan.forward(weights, x[None], states, training=True)
        np.testing.assert_array_equal(one.y[0], whole.y[t])
        states = one.final
    compare.assert_same_bits(states, whole.final, "step by step")


# ------------------------------------------------------------ what leaves the loop


@pytest.mark.parametrize("name", more.INPUT_GATED)
def test_products_of_inputs_leave_the_loop(name):
    """The cell's author has written one step; the compiler sees that nothing carried reaches a product."""
    cell = more.CELLS[name][0]()
    matrices = [k for k, p in cell.params().items() if len(p.shape) == 2]
    for plan in (Scan(cell).plan(training) for training in (False, True)):
        assert plan.forward.loop.products == []
        assert len(plan.forward.before.products + plan.forward.after.products) == len(matrices)
    assert plan.backward.loop.products == []
    outside = plan.backward.before.products + plan.backward.after.products
    assert len(outside) == len(matrices)  # shares of d_x; the weights' gradients are sums of their own


@pytest.mark.parametrize("name", more.MIXING)
def test_products_of_what_is_left_of_inputs_leave_the_loop(name):
    """The windows and shifts that they read have loops of their own; not in the plan for a GPU."""
    cell = more.CELLS[name][0]()
    plan = Scan(cell).plan(True)
    assert plan.forward.loop.products == plan.backward.loop.products == []
    together = make_plan(trace(cell, training=True), training=True, loops_apart=False)
    assert together.forward.loop.products and together.backward.loop.products


@pytest.mark.parametrize("name", more.STATE_GATED)
def test_products_of_states_stay(name):
    plan = make_plan(trace(more.CELLS[name][0](), training=False), training=False)
    assert plan.forward.loop.products
    assert len(plan.forward.before.products) == 1


# ------------------------------------------------------------ convolutions, sLSTM


def test_convolution_in_the_loop_is_the_convolution_of_the_finished_sequence():
    case = more.draw("convolution")
    scan, weights = Scan(case.cell, dtype="float64"), Weights(case.params)
    whole = scan.forward(weights, case.x, training=True)
    for row in range(cases.B):
        expected = more_cells.whole_convolution(case.params, case.x[:, row])
        np.testing.assert_allclose(whole.y[:, row], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("started", [False, True], ids=["nothing stored", "something stored"])
def test_slstm_is_that_of_the_paper_s_first_equations(started):
    """Where n is zero, at the start, and where it is not: the same h, and the same gradients, as without m."""
    case = more.draw("slstm")
    initial = {name: np.zeros_like(a) for name, a in case.initial.items()}
    if started:
        initial = interpreter.forward(case.cell, case.params, case.x[::-1], initial).final
        assert np.abs(initial["m"]).min() > 0
    result = interpreter.forward(case.cell, case.params, case.x, initial)
    given = {"h": initial["h"], **{k: initial[k] * np.exp(initial["m"]) for k in "cn"}}
    leaves = {"x": case.x, **case.params}

    def outputs(now):
        y, final = more_cells.run(more_cells.unscaled_slstm(2), now, now["x"], given, None)
        return {"y": y, **final}

    expected = outputs(leaves)
    np.testing.assert_allclose(result.y, expected["y"], rtol=0, atol=1e-12)
    scale = np.exp(result.final["m"])
    for name in "cn":
        np.testing.assert_allclose(result.final[name] * scale, expected[name], rtol=1e-12)
    found = interpreter.backward(result, case.d_y)
    cases.hold_to_complex_steps(
        lambda now: np.sum(outputs(now)["y"] * case.d_y), leaves, {"x": found.x, **found.params}
    )


@pytest.mark.parametrize("i", [-2000.0, -100.0, 0.0, 100.0, 2000.0])
def test_slstm_starts_wherever_its_input_gate_is(i):
    """Nothing is stored and exp(i) may be no float32: outputs are o * tanh(z), as exactly as at i = 0, and all
    gradients are numbers, those of the states before the first step among them."""
    cell = cells.SLSTMCell(2, 3)
    params = {k: np.zeros(p.shape, np.float32) for k, p in cell.params().items()}
    params["b"] = np.repeat(np.float32([i, 0.0, 0.7, 0.0]), 3)
    result = interpreter.forward(cell, params, np.zeros((3, 1, 2), np.float32))
    np.testing.assert_allclose(result.y, 0.5 * np.tanh(0.7), rtol=1e-6)
    found = interpreter.backward(result, np.ones_like(result.y))
    for gradient in (found.x, *found.initial.values(), *found.params.values()):
        assert np.isfinite(gradient).all()
    assert found.params["b"][6:9].min() > 0


# ------------------------------------------------------------ zoneout, recurrent dropout, dropped weights


def test_zoneout_keeps_old_units_in_training():
    rate, steps, rows = 0.3, 40, 50
    cell = cells.ZoneoutCell(cells.ElmanCell(2, 3), rate)
    case = cases.draw(cell, "float64", rows=rows, steps=steps)
    outputs, _, _ = cases.agreeing(case, seed=7)
    before = np.concatenate([case.initial["h"][None], outputs["y"][:-1]])
    kept = outputs["y"] == before
    new = np.tanh(case.x @ case.params["W_x"] + before @ case.params["W_h"] + case.params["b"])
    np.testing.assert_allclose(np.where(kept, new, outputs["y"]), new, atol=1e-12)
    assert abs(kept.mean() - rate) < 0.02  # 6000 draws: three and a half standard deviations


def test_recurrent_dropout_has_one_mask_for_all_steps_or_one_a_step():
    inner = cells.GRUCell(cases.D, cases.H)
    case = cases.draw(cells.RecurrentDropoutCell(inner, 0.5), "float64", cases.LENGTHS["mixed"])
    _, _, masks = cases.agreeing(case)
    (mask,) = masks.values()
    assert mask.shape == (cases.B, cases.H) and set(np.unique(mask)) == {0.0, 2.0}
    each = replace(case, cell=cells.RecurrentDropoutCell(inner, 0.5, variational=False))
    repeated = {name: np.repeat(mask[None], cases.T, axis=0) for name in masks}
    of_each, expected = cases.interpreted(each, repeated)[0], cases.interpreted(case, masks)[0]
    compare.assert_all_close(of_each, expected, 1e-12, "a mask a step")


def test_recurrent_dropout_acts_on_what_the_matrix_reads():
    """By hand: the product reads the dropped state, the interpolation z * h the whole one."""
    case = cases.draw(cells.RecurrentDropoutCell(cells.GRUCell(cases.D, cases.H), 0.5), "float64", steps=1)
    mask = np.random.default_rng(2).integers(0, 2, (cases.B, cases.H)) * 2.0
    p, h = case.params, case.initial["h"]
    a, u = case.x[0] @ p["W_x"] + p["b"], (h * mask) @ p["W_h"] + p["b_h"]
    r, z = (1 / (1 + np.exp(-part)) for part in np.split((a + u)[:, : 2 * cases.H], 2, axis=1))
    n = np.tanh(a[:, 2 * cases.H :] + r * u[:, 2 * cases.H :])
    found, _ = cases.interpreted(case, {"mask0": mask})
    np.testing.assert_allclose(found["y"][0], (1 - z) * n + z * h, atol=1e-12)


# ------------------------------------------------------------ the door


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: cells.ElmanCell(2, 3, nonlinearity="swish"), "must be one of sigmoid"),
        (lambda: cells.LSTMVariantCell(2, 3, clip=0), "clip must be above 0"),
        (lambda: cells.SLSTMCell(2, 3, heads=2), "heads must divide"),
        *(
            (lambda options=options: cells.LinearAttentionCell(5, 6, **options), words)
            for options, words in (
                ({"decay": "key_head"}, "decay must be one of none, constant, head, key"),
                ({"decay": "tied", "delta": True}, "delta must be with decay constant, head"),
                ({"heads": 4}, "heads must divide hidden_size 6, got 4"),
                ({"window": -1}, "sizes must not be negative"),
            )
        ),
        (lambda: cells.QRNNCell(2, 3, window=0).params(), "must be at least 1"),
        (lambda: cells.DeepTransitionGRUCell(2, 3, 0), "must be at least 1"),
        (lambda: cells.ZoneoutCell(cells.LSTMCell(2, 3), {"z": 0.1}), "for h, c, got 0.1 for z"),
        (lambda: cells.ZoneoutCell(cells.LSTMCell(2, 3), 1.0), "less than 1"),
        (lambda: cells.ZoneoutCell(cells.LSTMCell(2, 3), "a"), "must be numbers .* got a for h"),
        (lambda: cells.RecurrentDropoutCell(cells.SRUCell(2, 3), 0.1), "among W_x, got W_h"),
        (lambda: cells.StackCell(cells.SRUCell(2, 3)), "cells must be a list of one or more, got"),
        (lambda: cells.AttentionCell(cells.SRUCell(5, 3), 4, 2, readout="no"), "readout must be tanh, linear, deep"),
        (
            lambda: cells.HeadsCell(cells.SRUCell(2, 3), 2, 4, 2),
            "make must be a class of cells or a function, got a SR",
        ),
        (lambda: cells.LinearCell(2, 3, "relu"), "nonlinearity must be none or tanh, got 'relu'"),
        (lambda: cells.Attention("dott", 2, 2, 2), "attention must be one of bahdanau, .*, got 'dott'"),
        (lambda: initial_params(cells.SRUCell, 1), "initial_params: the cell must be a Cell, got the class SRUCell"),
        (lambda: Shape(2.5, 2), "axes must be one or more sizes"),
        (lambda: Shape(2, 0), "sizes of at least 1"),
        (lambda: cells.UnrolledCell(cells.GRUCell(3, 4), 0), "at least 1"),
        (lambda: cells.Past("h", 3, 0), "must be at least 1"),
        (lambda: cells.Past("h", 4, 3).read({}, 4), "from 1 to 3 steps back, got 4"),
        (lambda: cells.SkipCell(cells.LearnedStartCell(cells.GRUCell(2, 3)), 2), "got learned ones"),
        (lambda: cells.LearnedStartCell(cells.LSTMCell(2, 3), ("z",)), "among h, c, got z"),
        (lambda: cells.StackCell([cells.LSTMCell(3, 4), cells.GRUCell(5, 4)]), "input_size must be 4, .* got 5"),
        (
            lambda: cells.AttentionCell(cells.LSTMCell(3, 4), 5, 6, attention="dot", input_feeding=False),
            "memory_size must be 4 for dot attention, got 5",
        ),
        (lambda: cells.StackCell([cells.SRUCell]), "StackCell: the cell must be a Cell, got the class SRUCell"),
        (lambda: cells.AttentionCell(cells.SRUCell, 4, 2), "AttentionCell: the cell must be a Cell, got the class SRU"),
        (lambda: cells.DropoutCell(cells.SRUCell, 0.1), "DropoutCell: .* the class SRUCell; make one of it, SRUCell.i"),
        (lambda: Scan(3), "Scan: the cell must be a Cell, got int; derive it from"),
        (lambda: Scan(cells.SRUCell(2, 3), threads=0), "SRUCell: threads must be at least 1, got 0"),
        (lambda: ChunkedScan(cells.SRUCell(2, 3), 2), "scan must be a Scan, got SRUCell"),
    ],
)
def test_impossible_options_are_one_line(make, words):
    refused(ShapeError, words, make)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: cells.LinearCell(2, 3, "none", "no"), "bias must be True or False, got 'no'"),
        (lambda: cells.LSTMCell(2, 3, 2), "LSTMCell: bias must be True or False, got 2"),
        (lambda: cells.MILSTMCell(2, 3, "no"), "layer_norm must be True or False, got 'no'"),
        (lambda: cells.DropoutCell(cells.SRUCell(2, 3), 0.1, "no"), "variational must be True or False, got 'no'"),
        (lambda: Scan(cells.SRUCell(2, 3), division="cols"), "division must be None or rows or units, got cols"),
    ],
)
def test_choices_that_are_not_there_are_one_line(make, words):
    refused(NMTError, words, make)
