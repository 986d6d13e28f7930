"""Brute force and the checker of gradients: by hand; the recurrent oracles are compared with programs and vectors."""

import numpy as np
import pytest

from tests.oracle import beam, compare, gradients


def test_brute_force_finds_everything_and_sums_to_one():
    logits = np.random.default_rng(5).normal(size=(4, 4)) * 2.0
    eos, table = 0, np.stack([compare.log_softmax(row) for row in logits])  # log p(next | last)

    def log_probs(prefix):
        return table[prefix[-1] if prefix else eos]

    found = beam.all_sequences(log_probs, eos=eos, max_length=3)
    assert len(found) == 1 + 3 + 9 + 27
    assert sum(np.exp(s.log_prob) for s in found) == pytest.approx(1.0)
    assert [s.score for s in found] == sorted((s.score for s in found), reverse=True)
    one = next(s for s in found if s.ids == (2, 1) and s.finished)
    assert one.log_prob == pytest.approx(table[0, 2] + table[2, 1] + table[1, 0])
    fewer = beam.all_sequences(log_probs, eos=eos, max_length=3, forbidden=(3,))
    assert {s.ids for s in fewer} == {s.ids for s in found if 3 not in s.ids}
    assert beam.greedy(log_probs, eos=eos, max_length=3).log_prob <= found[0].log_prob


def test_checker_accepts_right_gradients_and_names_wrong_ones():
    rng = np.random.default_rng(6)
    arrays = {"a": rng.normal(size=(3, 2)), "b": rng.normal(size=2)}
    before = {name: array.copy() for name, array in arrays.items()}

    def value():
        return np.sum(np.tanh(arrays["a"]) * arrays["b"] ** 2)

    slope = 1 - np.tanh(arrays["a"]) ** 2
    right = {"a": slope * arrays["b"] ** 2, "b": 2 * arrays["b"] * np.tanh(arrays["a"]).sum(axis=0)}
    assert gradients.check(value, arrays, right, rng, elements=3) == []
    wrong = {**right, "b": right["b"] * [1.0, 1.001]}
    assert any(line.startswith("b") for line in gradients.check(value, arrays, wrong, rng, elements=3))
    compare.assert_same_bits(before, arrays)
