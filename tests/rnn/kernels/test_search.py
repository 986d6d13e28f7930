"""The best tokens of a row and the best continuations of a sentence, against sorting."""

import numpy as np
import pytest

from nmt.rnn.kernels.products.packing import pack, packed_size
from nmt.rnn.kernels.search.best_tokens import best_continuations, best_tokens


def packed(W):
    out = np.empty(packed_size(*W.shape, W.dtype), W.dtype)
    pack(0, 1, W, 0, len(W), out)
    return out


@pytest.mark.parametrize("vocab", [5, 63, 64, 129, 1000])
@pytest.mark.parametrize("places", [1, 3, 7])
def test_best_tokens_are_those_of_a_stable_sort(vocab, places):
    rng = np.random.default_rng(vocab)
    bias = (rng.integers(-8, 8, vocab) / 4).astype("f4")  # quarters: sums are exact
    # few distinct numbers: ties, of which the lower token comes first
    logits = rng.integers(-3, 3, (9, vocab)).astype("f4") - bias
    whole = logits + bias
    expected = whole - np.log(np.exp(whole.astype("f8")).sum(1, keepdims=True))
    tokens, scores = best_tokens(np.eye(9, dtype="f4"), packed(logits), bias, 1, places, threads=2)
    for row in range(9):
        order = 1 + np.argsort(-whole[row, 1:], kind="stable")[:places]
        assert tokens[row, : len(order)].tolist() == order.tolist()
        assert (tokens[row, len(order) :] == -1).all()
        np.testing.assert_allclose(scores[row, : len(order)], expected[row, order], atol=2e-5)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_best_tokens_do_not_depend_on_threads_or_other_rows(dtype):
    rng = np.random.default_rng(3)
    y, W, bias = (rng.standard_normal(shape).astype(dtype) for shape in ((300, 20), (20, 700), (700,)))
    tokens, scores = best_tokens(y, packed(W), bias, 1, 5, threads=1)
    for threads, rows in ((2, slice(None)), (3, slice(7, 8)), (1, slice(100, 290))):
        some, their_scores = best_tokens(y[rows], packed(W), bias, 1, 5, threads=threads)
        np.testing.assert_array_equal(some, tokens[rows])
        np.testing.assert_array_equal(their_scores, scores[rows])


def test_best_continuations_are_the_largest_sums_of_each_sentence():
    rng = np.random.default_rng(0)
    rows = np.array([0, 3, 4, 9])
    tokens = np.tile(np.arange(4, 8, dtype=np.int32), (9, 1))
    scores = -np.sort(rng.random((9, 4)).astype("f4"), axis=1)
    sums, room = -rng.random(9), np.array([5, 2, 4])
    parents, chosen, totals = np.empty((3, 5), np.int64), np.empty((3, 5), np.int32), np.empty((3, 5))
    found = (array.reshape(-1) for array in (parents, chosen, totals))
    best_continuations(tokens.reshape(-1), scores.reshape(-1), 4, sums, rows, 3, room, 6, *found, 5)
    for n in range(3):
        all_sums = [
            (-(sums[r] + scores[r, k]), r, tokens[r, k])
            for r in range(rows[n], rows[n + 1])
            for k in range(4)
            if tokens[r, k] != 6
        ]
        expected = sorted(all_sums)[: room[n]]
        assert parents[n, : len(expected)].tolist() == [r for _, r, _ in expected]
        assert chosen[n, : len(expected)].tolist() == [token for _, _, token in expected]
        np.testing.assert_allclose(totals[n, : len(expected)], [-s for s, _, _ in expected])
        assert (parents[n, len(expected) :] == -1).all()
