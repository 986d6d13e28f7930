"""Packed forms of weights: made when first used, and together after a change."""

import numpy as np
import pytest

from nmt.rnn.arrays.weights import PAIRS, Weights, quantise
from nmt.rnn.kernels.products import packing
from nmt.rnn.kernels.products.packing import packed_weight

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


def forms(weights, names, dtype, threads=1):
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
        for got, want in zip(found, forms(store(seed), "abc", dtype), strict=True):
            np.testing.assert_array_equal(got, want)
    assert not np.array_equal(found[0], first[0])


def test_two_changes_in_a_row_count_as_one(packings):
    weights = store()
    forms(weights, "abc", None)
    weights.changed()
    write(weights, 1)
    for got, want in zip(forms(weights, "abc", None), forms(store(1), "abc", None), strict=True):
        np.testing.assert_array_equal(got, want)
    assert packings == [6]


def test_what_was_not_used_since_the_change_before_waits_until_it_is(packings):
    weights = store()
    forms(weights, "abc", None)
    for seed, names, filled in ((1, "a", [6]), (2, "a", [2]), (3, "abc", [2, 1, 1, 1, 1])):
        write(weights, seed)
        for got, want in zip(forms(weights, names, None), forms(store(seed), names, None), strict=True):
            np.testing.assert_array_equal(got, want)
        assert packings == filled
        packings.clear()


def test_an_array_in_the_place_of_another_is_what_is_packed(packings):
    weights = store()
    forms(weights, "a", None)
    weights["a"] = store(5)["a"]
    write(weights, 6)
    weights["a"] = store(7)["a"]
    for got, want in zip(forms(weights, "a", None), forms(store(7), "a", None), strict=True):
        np.testing.assert_array_equal(got, want)
    assert packings == []


def test_a_matrix_of_int8_is_restored_and_packed_again(packings):
    weights, other = store(), store(3)["a"]
    weights.hold_quantised("a", quantise(store()["a"], by_rows=False))
    forms(weights, "a", None)
    weights.hold_quantised("a", quantise(other, by_rows=False))
    weights.changed()
    restored = Weights({"a": quantise(other, by_rows=False).restored()})
    for got, want in zip(forms(weights, "a", None), forms(restored, "a", None), strict=True):
        np.testing.assert_array_equal(got, want)
    assert packings == []


def test_views_share_what_is_packed(packings):
    weights = Weights({f"cell.{name}": array for name, array in store().items()})
    view = weights.view("cell")
    forms(view, "ab", None)
    weights.changed()
    assert packed_weight(weights, "cell.a", 0, 40, False) is packed_weight(view, "a", 0, 40, False)
    assert packings == [4]
