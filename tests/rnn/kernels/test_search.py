"""The best tokens of a row and the best continuations of a sentence, against sorting."""

import numpy as np
import pytest

from nmt.rnn.kernels.search import best_continuations, best_tokens
from nmt.rnn.kernels.threads import run_parallel


@pytest.mark.parametrize("vocab", [5, 63, 64, 65, 1000])
@pytest.mark.parametrize("places", [1, 3, 7])
def test_best_tokens_are_those_of_a_stable_sort(vocab, places):
    rng = np.random.default_rng(vocab)
    bias = (rng.integers(-8, 8, vocab) / 4).astype("f4")  # quarters: sums are exact
    # few distinct numbers: ties, of which the lower token comes first
    logits = rng.integers(-3, 3, (9, vocab)).astype("f4") - bias
    whole = logits + bias
    expected = whole - np.log(np.exp(whole.astype("f8")).sum(1, keepdims=True))
    tokens, scores = np.empty((9, places), np.int32), np.empty((9, places), "f4")
    run_parallel(best_tokens, 2, logits.copy(), bias, 1, tokens, scores)
    for row in range(9):
        order = 1 + np.argsort(-whole[row, 1:], kind="stable")[:places]
        assert tokens[row, : len(order)].tolist() == order.tolist()
        assert (tokens[row, len(order) :] == -1).all()
        np.testing.assert_allclose(scores[row, : len(order)], expected[row, order], atol=2e-5)


def test_best_continuations_are_the_largest_sums_of_each_sentence():
    rng = np.random.default_rng(0)
    rows = np.array([0, 3, 4, 9])
    tokens = np.tile(np.arange(4, 8, dtype=np.int32), (9, 1))
    scores = -np.sort(rng.random((9, 4)).astype("f4"), axis=1)
    sums, room = -rng.random(9), np.array([5, 2, 4])
    parents, chosen, totals = np.empty((3, 5), np.int64), np.empty((3, 5), np.int32), np.empty((3, 5))
    best_continuations(tokens, scores, sums, rows, room, 6, parents, chosen, totals)
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
