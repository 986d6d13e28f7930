"""Whole scans with products in bfloat16: near the exact ones, but not them; nothing else changes."""

import numpy as np
import pytest

from nmt.errors import NMTError
from nmt.rnn import GRU, LSTM, RNN, LSTMCell, Scan, Weights
from tests.oracle import compare
from tests.rnn import scan_cases as cases

CELLS = ["lstm", "gru", "gru_reset_before", "rnn_tanh", "stack", "lstm_bahdanau_feed"]


def draw(name, lengths="mixed", **sizes):
    return cases.draw(cases.CELLS[name](), "float32", cases.LENGTHS[lengths], **sizes)


def assert_near(found, expected, what):
    """Rounded, and to what bfloat16 allows. Gradients of initial states of rows without a step are exact."""
    assert set(found) == set(expected)
    for name, value in expected.items():
        error = compare.norm_error(found[name], value)
        assert error < compare.BFLOAT16_TOLERANCE, f"{what} {name}: off by {error:.2e} of its norm"
        assert error > 1e-5, f"{what} {name}: was not computed in bfloat16"
        assert found[name].dtype == np.float32


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("name", CELLS)
def test_a_scan_is_near_the_exact_one(name, reverse):
    case = draw(name)
    outputs, found, masks = cases.compiled(case, reverse=reverse, compute_dtype="bfloat16")
    expected, expected_gradients = cases.interpreted(case, masks, reverse=reverse)
    assert_near(outputs, expected, "training")
    assert_near(found, expected_gradients, "gradient")
    plain, _ = cases.interpreted(case, None, reverse=reverse)
    assert_near(cases.inferred(case, reverse=reverse, compute_dtype="bfloat16"), plain, "inference")


@pytest.mark.parametrize("K", [35, 64])
def test_threads_that_divide_units_find_their_panels(K):
    """Wide enough for several panels a thread, with an odd and an even number of rows in each."""
    case = cases.draw(LSTMCell(5, K), "float32", rows=3, places=4)
    one = cases.compiled(case, compute_dtype="bfloat16")
    for threads in (2, 3):
        found = cases.compiled(case, threads=threads, division="units", compute_dtype="bfloat16")
        compare.assert_same_bits(found[0], one[0])
        compare.assert_same_bits(found[1], one[1])


def test_both_kinds_of_products_share_one_set_of_weights():
    case = draw("lstm")
    weights = Weights(case.params)
    results = []
    for compute_dtype in ("float32", "bfloat16", "float32", "bfloat16"):
        scan = Scan(case.cell, compute_dtype=compute_dtype, threads=1)
        results.append(scan.forward(weights, case.x).y)
    np.testing.assert_array_equal(results[2], results[0])
    np.testing.assert_array_equal(results[3], results[1])
    assert 1e-5 < compare.norm_error(results[1], results[0]) < compare.BFLOAT16_TOLERANCE
    case.params["W_h"] *= 2
    weights.changed()
    changed = Scan(case.cell, compute_dtype="bfloat16", threads=1).forward(weights, case.x).y
    assert compare.norm_error(changed, results[1]) > compare.BFLOAT16_TOLERANCE


@pytest.mark.parametrize("kind", [LSTM, GRU, RNN])
def test_layers_take_the_type_of_their_products(kind):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 4, 5)).astype("f4")
    options = {"num_layers": 2, "bidirectional": True, "threads": 1}
    layers = [kind(5, 7, compute_dtype=name, **options) for name in (None, "float32", "bfloat16")]
    exact, same, near = (layer.forward(x)[0] for layer in layers)
    np.testing.assert_array_equal(same, exact)
    assert 1e-5 < compare.norm_error(near, exact) < compare.BFLOAT16_TOLERANCE
    exact, _, near = (layer.backward(np.ones_like(exact)) for layer in layers)
    for name, g in exact.params.items():
        assert 1e-5 < compare.norm_error(near.params[name], g) < 2 * compare.BFLOAT16_TOLERANCE, name


@pytest.mark.parametrize(
    ("dtype", "compute_dtype", "choices"),
    [
        ("float32", "float16", "float32 or bfloat16 or int8"),
        ("float64", "bfloat16", "float64"),
        ("float64", "float32", "float64"),
    ],
)
def test_another_type_is_refused_in_one_line(dtype, compute_dtype, choices):
    with pytest.raises(NMTError) as caught:
        Scan(LSTMCell(5, 7), dtype=dtype, compute_dtype=compute_dtype)
    assert str(caught.value) == f"LSTMCell: compute_dtype must be {choices} with {dtype}, got {compute_dtype}"
