"""What a cell may read besides its input: further sequences, values of several steps ago, arrays of several axes,
learned first states; each held against plain loops, gradients by complex steps of these, and the interpreter."""

import numpy as np
import pytest

from nmt.errors import ShapeError
from nmt.rnn import Scan, Shape, Weights, check
from nmt.rnn.cells import GRUCell, LearnedStartCell, LSTMCell, SkipCell, StackCell, UnrolledCell
from tests.oracle import compare
from tests.refusals import refused
from tests.rnn import interface_cases as cases
from tests.rnn import scan_cases

OWN = {
    "sequences": (cases.driven_cell, cases.driven),
    "lags": (cases.narx_cell, cases.narx),
    "axes": (cases.grid_cell, cases.grid),
}
WAYS = {
    "all": {},
    "lengths, reverse": {"lengths": (3, 7, 1, 0, 5), "reverse": True},
    "mask": {"mask": cases.masked()},
    "mask, reverse": {"mask": cases.masked(), "reverse": True},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OWN)
def test_what_a_cell_may_read_equals_loops_and_interpreter(name, way):
    cell, step = OWN[name]
    run = cases.draw(cell(), step, **WAYS[way])
    found, slopes = cases.program(run)
    cases.check(run, found, slopes)
    cases.check_interpreter(run, found, slopes)


@pytest.mark.parametrize("name", OWN)
def test_threads_and_recomputing_change_nothing(name):
    cell, step = OWN[name]
    run = cases.draw(cell(), step, mask=cases.masked())
    found = cases.program(run)
    for division in ("rows", "units"):
        scan_cases.assert_same_run(cases.program(run, threads=2, division=division), found)
    for again, expected in zip(cases.program(run, recompute="gates"), found, strict=True):
        for key, value in expected.items():
            np.testing.assert_allclose(again[key], value, rtol=0, atol=1e-12, err_msg=key)


@pytest.mark.parametrize("name", OWN)
def test_the_stepper_reads_the_same(name):
    cell, step = OWN[name]
    run = cases.draw(cell(), step)
    scan, weights, expected = Scan(run.cell, dtype=np.float64, threads=1), Weights(run.params), cases.oracle(run)
    found = scan_cases.stepped(scan, weights, run.x, run.initial, run.captured, sequences=run.sequences)
    for key, value in found.items():
        np.testing.assert_allclose(value, expected[key], rtol=0, atol=1e-12)


def test_a_new_cell_with_all_of_it_passes_the_check(capsys):
    assert check(cases.grid_cell()) and check(cases.driven_cell()) and check(LearnedStartCell(LSTMCell(5, 7)))
    assert "WRONG" not in capsys.readouterr().out


@pytest.mark.parametrize("axes", [(6,), (2, 3), (1, 2, 3)])
def test_any_number_of_trailing_axes_is_a_view(axes):
    """The same cell, the same program: arrays look different from outside, and are not copied."""
    case = scan_cases.draw(GRUCell(6, 5), "float64")
    flat = scan_cases.compiled(case)
    cell = GRUCell(Shape(*axes), 5)
    scan, lead = Scan(cell, dtype=np.float64, threads=1), case.x.shape[:2]
    x = case.x.reshape(*lead, *axes)
    result = scan.forward(Weights(case.params), x, case.initial, training=True)
    assert np.shares_memory(result.tape.arrays["x"], x)
    np.testing.assert_array_equal(result.y, flat[0]["y"])
    d_x = scan.backward(result.tape, case.d_y, case.d_final).x
    assert d_x.shape == x.shape
    np.testing.assert_array_equal(d_x.reshape(case.x.shape), flat[1]["d_x"])
    refused(ShapeError, "x must be float64", scan.forward, Weights(case.params), np.zeros((*lead, 7)))


# ------------------------------------------------------------ lags


@pytest.mark.parametrize("lag", [1, 2, 3])
def test_a_skipping_cell_is_so_many_cells_that_take_turns(lag):
    """Row by row: every lag-th step, on its own."""
    inner = LSTMCell(3, 4)
    run = cases.draw(SkipCell(inner, lag), None)
    found, _ = cases.program(run)
    scan, weights = Scan(inner, dtype=np.float64, threads=1), Weights(run.params)
    for turn in range(lag):
        # The turn that starts k steps in reads what was there lag - k steps before the first.
        at = lag - turn
        first = {k: run.initial[k if at == 1 else f"{k}.{at}"] for k in inner.states()}
        x = np.ascontiguousarray(run.x[turn::lag])
        np.testing.assert_allclose(found["y"][turn::lag], scan.forward(weights, x, first).y, rtol=0, atol=1e-13)


# ------------------------------------------------------------ learned first states


@pytest.mark.parametrize("reverse", [False, True])
def test_learned_first_states(reverse):
    """The same as handing the vectors in for every row; their gradient is the sum over the rows."""
    cell = StackCell([LearnedStartCell(LSTMCell(3, 4), ("h",)), LearnedStartCell(GRUCell(4, 5))])
    run = cases.draw(cell, None, lengths=(3, 7, 1, 0, 5), reverse=reverse)
    assert {k for k in run.params if "start" in k} == {"0.start_h", "1.start_h"}
    given = {k: np.tile(run.params[f"{k[0]}.start_h"], (cases.B, 1)) for k in ("0.h", "1.h")}
    given["0.c"] = np.zeros((cases.B, 4))
    run.initial = {}
    found, slopes = cases.program(run)
    run.initial = given
    expected, expected_slopes = cases.program(run)
    compare.assert_same_bits(found, expected)
    for name, value in expected_slopes.items():
        if "start" not in name:
            np.testing.assert_array_equal(slopes[name], value)
        else:
            assert not value.any()  # nothing started there
            layer = f"d_initial {name.removeprefix('d_').replace('start_', '')}"
            np.testing.assert_allclose(slopes[name], expected_slopes[layer].sum(axis=0), rtol=0, atol=1e-13)
    run.initial = {}
    cases.check_interpreter(run, found, slopes)


# ------------------------------------------------------------ unrolled


def unrolled(array, steps):
    """[T, B, ...] as [T / steps, B, steps, ...]."""
    T, B, *rest = array.shape
    return np.ascontiguousarray(np.swapaxes(array.reshape(T // steps, steps, B, *rest), 1, 2))


UNROLLED = {
    "lstm": lambda: LSTMCell(3, 4),
    "gru": lambda: GRUCell(3, 4),
    "stack": lambda: StackCell([StackCell([GRUCell(3, 4), LSTMCell(4, 4)]), LSTMCell(4, 2)]),
    "sequences": cases.driven_cell,
    "axes": cases.grid_cell,
}


@pytest.mark.parametrize(("name", "steps"), [("lstm", 6), ("gru", 2), ("stack", 2), ("sequences", 3), ("axes", 2)])
def test_an_unrolled_cell_gives_the_same_numbers(name, steps):
    """Some steps at a time, and all of them in one graph."""
    run = cases.draw(UNROLLED[name](), None, steps=6)
    found, slopes = cases.program(run)
    own = cases.draw(UnrolledCell(run.cell, steps), None, steps=6 // steps)
    own.params, own.initial, own.captured = run.params, run.initial, run.captured
    own.x, own.sequences = unrolled(run.x, steps), {k: unrolled(v, steps) for k, v in run.sequences.items()}
    own.d_y, own.d_final = unrolled(run.d_y, steps), run.d_final
    again, again_slopes = cases.program(own)
    for key, value in (found | slopes).items():
        value = unrolled(value, steps) if key == "y" or key.removeprefix("d_") in run.inputs else value
        np.testing.assert_allclose((again | again_slopes)[key], value, rtol=0, atol=1e-12, err_msg=key)


def test_what_unrolling_costs():
    """Products grow with the steps, those of inputs leave the loop all the same, and weights stay those of one cell."""
    plans = {n: Scan(UnrolledCell(GRUCell(3, 4), n)).plan(True) for n in (1, 4)}
    for n, plan in plans.items():
        assert len(plan.forward.before.products) == len(plan.forward.loop.products) == n
        assert len(plan.backward.loop.products) == n
    assert UnrolledCell(GRUCell(3, 4), 4).params() == GRUCell(3, 4).params()


# ------------------------------------------------------------ the door


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"sequences": {}}, r"sequences must be \['g', 'z'\], got none"),
        ({"sequences": {"g": np.zeros((7, 5, 4)), "z": np.zeros((7, 5, 4))}}, r"z must be float64 \[7, 5, 5\]"),
        ({"mask": np.ones((7, 4), bool)}, r"mask must be bool \[7, 5\], got bool \[7, 4\]"),
        ({"mask": np.ones((7, 5))}, "got float64"),
        ({"mask": np.ones((7, 5), bool), "lengths": [7] * 5}, "lengths must be None with a mask"),
    ],
)
def test_wrong_arrays_are_one_line(wrong, words):
    run = cases.draw(cases.driven_cell(), cases.driven)
    scan = Scan(run.cell, dtype=np.float64)
    refused(ShapeError, words, scan.forward, Weights(run.params), run.x, **{**run.keywords, **wrong})
