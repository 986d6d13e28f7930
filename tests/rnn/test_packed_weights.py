"""Packed forms of weights: made when first used, and together after a change; whole scans with products of int8."""

import numpy as np
import pytest

from nmt.errors import NMTError, ShapeError
from nmt.rnn import GRU, LSTM, LSTMCell, Scan, Weights
from nmt.rnn.arrays.weights import PAIRS, check_device, packed_dtype, quantise
from nmt.rnn.kernels.products import packing
from nmt.rnn.kernels.products.packing import packed_weight
from tests.oracle import compare
from tests.refusals import refused
from tests.rnn import scan_cases as cases
from tests.rnn.test_compute_dtype import TOLERANCES, draw

DTYPES = [np.dtype("f4"), PAIRS]


def store(seed=0):
    rng = np.random.default_rng(seed)
    return Weights({name: rng.standard_normal((40, 24)).astype("f4") for name in ("a", "b", "c")})


@pytest.fixture
def packings(monkeypatch):
    """How many forms each launch of packing after a change has filled."""
    counts, run = [], packing.run_calls
    monkeypatch.setattr(packing, "run_calls", lambda parts, calls: (counts.append(len(calls)), run(parts, calls)))
    return counts


def forms(weights, names, dtype=DTYPES[0], threads=1):
    """Of each matrix all rows, and some of them transposed."""
    asked = [(name, *form) for name in names for form in ((0, 40, False), (8, 16, True))]
    return [packed_weight(weights, *one, threads=threads, dtype=dtype) for one in asked]


def write(weights, seed):
    for name, array in store(seed).items():
        weights[name][...] = array
    weights.changed()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_after_a_change_all_that_was_used_is_packed_in_one_launch(packings, dtype, threads):
    weights = store()
    first = [form.copy() for form in forms(weights, "abc", dtype, threads)]
    for seed in (1, 2):
        write(weights, seed)
        found = forms(weights, "abc", dtype, threads)
        assert packings.pop() == 6 and not packings
        compare.assert_same_arrays(found, forms(store(seed), "abc", dtype))
    assert not np.array_equal(found[0], first[0])


def test_two_changes_in_a_row_count_as_one(packings):
    weights = store()
    forms(weights, "abc")
    weights.changed()
    write(weights, 1)
    compare.assert_same_arrays(forms(weights, "abc"), forms(store(1), "abc"))
    assert packings == [6]


def test_what_was_not_used_since_the_change_before_waits_until_it_is(packings):
    weights = store()
    forms(weights, "abc")
    for seed, names, filled in ((1, "a", [6]), (2, "a", [2]), (3, "abc", [2, 1, 1, 1, 1])):
        write(weights, seed)
        compare.assert_same_arrays(forms(weights, names), forms(store(seed), names))
        assert packings == filled
        packings.clear()


def test_an_array_in_the_place_of_another_is_what_is_packed(packings):
    weights = store()
    forms(weights, "a")
    weights["a"] = store(5)["a"]
    write(weights, 6)
    weights["a"] = store(7)["a"]
    compare.assert_same_arrays(forms(weights, "a"), forms(store(7), "a"))
    assert packings == []


def test_a_matrix_of_int8_is_restored_and_packed_again(packings):
    weights, other = store(), store(3)["a"]
    weights.hold_quantised("a", quantise(store()["a"], by_rows=False))
    forms(weights, "a")
    weights.hold_quantised("a", quantise(other, by_rows=False))
    weights.changed()
    restored = Weights({"a": quantise(other, by_rows=False).restored()})
    compare.assert_same_arrays(forms(weights, "a"), forms(restored, "a"))
    assert packings == []


def test_views_share_what_is_packed(packings):
    weights = Weights({f"cell.{name}": array for name, array in store().items()})
    view = weights.view("cell")
    forms(view, "ab")
    weights.changed()
    (of_all, _), (of_view, _) = forms(weights, ["cell.a"]), forms(view, "a")
    assert of_all is of_view
    assert packings == [4]


def rounded_product(x, W):
    """x [B, K] @ W [K, N] with both sides rounded to whole numbers, in float64."""
    W = W.astype("f8")
    rows, columns = np.abs(x).max(1, keepdims=True) / 127, np.abs(W).max(0) / 127
    return np.rint(x / rows) @ np.rint(W / columns) * rows * columns


def test_an_lstm_is_that_of_rounded_products():
    """Step by step from the equations; where a number lies between two whole ones, float32 may round it otherwise."""
    case = cases.draw(LSTMCell(37, 50), "float32", rows=6, steps=9)
    p, h, c = case.params, case.initial["h"].astype("f8"), case.initial["c"].astype("f8")
    expected = []
    for x in case.x.astype("f8"):
        a = rounded_product(x, p["W_x"]) + rounded_product(h, p["W_h"]) + p["b"]
        i, f, g, o = (a[:, n * 50 : n * 50 + 50] for n in range(4))
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        expected.append(h)
    found = cases.inferred(case, compute_dtype="int8")["y"]
    assert compare.norm_error(found, np.array(expected)) < 1e-3
    exact, _ = cases.interpreted(case, None)
    assert compare.norm_error(np.array(expected), exact["y"]) > 2e-3


def test_weights_held_in_int8_give_the_bits_of_those_rounded_on_the_way():
    case = draw("lstm_bahdanau_feed")
    expected = cases.inferred(case, compute_dtype="int8")
    weights = Weights({"below.other": np.zeros(3, "f4"), **{f"cell.{k}": a for k, a in case.params.items()}})
    for name, array in case.params.items():
        if array.ndim == 2:
            weights.hold_quantised(f"cell.{name}", quantise(array, by_rows=False))
    scan = Scan(case.cell, compute_dtype="int8", threads=1)
    found = cases.named(scan.forward(weights.view("cell"), case.x, case.initial, **case.options))
    compare.assert_same_bits(found, expected)
    # Nobody restored a matrix on the way.
    assert not [key for key in weights._packed if "restored" in key]
    # All else may, and another product too.
    exact = Scan(case.cell, threads=1).forward(weights.view("cell"), case.x, case.initial, **case.options).y
    assert 1e-5 < compare.norm_error(found["y"], exact) < TOLERANCES["int8"]


def test_a_change_of_the_parameters_is_seen():
    case = draw("lstm")
    weights, scan = Weights(case.params), Scan(case.cell, compute_dtype="int8", threads=1)
    before = scan.forward(weights, case.x).y
    case.params["W_h"] *= 2
    weights.changed()
    assert compare.norm_error(scan.forward(weights, case.x).y, before) > TOLERANCES["int8"]
    weights.hold_quantised("W_h", quantise(case.params["W_h"] / 2, by_rows=False))
    np.testing.assert_array_equal(scan.forward(weights, case.x).y, before)


def test_a_quantised_matrix_of_another_shape_is_refused():
    case = draw("lstm")
    weights = Weights(case.params)
    weights.hold_quantised("W_h", quantise(case.params["W_h"][:-1], by_rows=False))
    refused(ShapeError, "parameter W_h must be float32", Scan(case.cell, compute_dtype="int8").forward, weights, case.x)


@pytest.mark.parametrize("kind", [LSTM, GRU])
def test_layers_for_inference(kind):
    x = np.random.default_rng(0).standard_normal((6, 4, 5)).astype("f4")
    exact, near = (kind(5, 7, 2, bidirectional=True, threads=1, compute_dtype=name) for name in (None, "int8"))
    assert 1e-5 < compare.norm_error(near(x)[0], exact(x)[0]) < TOLERANCES["int8"]
    refused(NMTError, "must be float32 or bfloat16 to train, got int8", near.forward, x)


def test_int8_is_refused_where_it_is_not():
    message = refused(NMTError, "", check_device, "X", packed_dtype("X", "float32", "int8"), "cuda")
    assert message == "X: compute_dtype int8 must be with device cpu, got cuda; use bfloat16 there"
