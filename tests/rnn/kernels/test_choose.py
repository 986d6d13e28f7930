"""Log-probabilities of all tokens, the best of a row, and tokens drawn from it, against NumPy."""

import numpy as np
import pytest

from nmt.rnn.kernels.search.best_tokens import best_tokens, log_probs
from nmt.rnn.kernels.search.choose import draw_tokens, top_tokens
from tests.rnn.kernels.test_search import packed


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("vocab", [5, 128, 129, 700])
def test_log_probs_are_the_bits_of_the_best_tokens_for_any_threads(vocab, dtype):
    rng = np.random.default_rng(vocab)
    y, W, bias = (rng.standard_normal(shape).astype(dtype) for shape in ((300, 20), (20, vocab), (vocab,)))
    logits = y.astype("f8") @ W + bias
    expected = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    found = log_probs(y, packed(W), bias, 1)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    tokens, scores = best_tokens(y, packed(W), bias, 0, 4, threads=1)
    np.testing.assert_array_equal(np.take_along_axis(found, tokens.astype(np.int64), 1), scores)
    for threads, rows in ((2, slice(None)), (3, slice(7, 8)), (1, slice(100, 290))):
        np.testing.assert_array_equal(log_probs(y[rows], packed(W), bias, threads), found[rows])


def test_top_tokens_are_those_of_a_stable_sort_and_never_forbidden_ones():
    rng = np.random.default_rng(0)
    rows = (rng.integers(-5, 5, (40, 30)) / 2).astype("f4")  # ties
    rows[rng.random(rows.shape) < 0.8] = -np.inf
    tokens, scores = top_tokens(rows, 7)
    for row, found, values in zip(rows, tokens, scores, strict=True):
        order = [v for v in np.argsort(-row, kind="stable") if row[v] > -np.inf][:7]
        assert found.tolist() == order + [-1] * (7 - len(order))
        assert values[: len(order)].tolist() == row[order].tolist()
    assert top_tokens(rows, 99)[0].shape == (40, 30)


@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.3, 1e-6])
@pytest.mark.parametrize("top_k", [0, 1, 5, 200])
@pytest.mark.parametrize("temperature", [1.0, 0.3, 2.0])
def test_drawn_tokens_are_those_of_the_inverse_distribution(temperature, top_k, top_p):
    rng = np.random.default_rng(1)
    rows = np.log(rng.dirichlet(np.full(150, 0.5), 60))
    rows[rng.random(rows.shape) < 0.2] = -np.inf
    uniforms = rng.random(60)
    assert_drawn(rows, uniforms, temperature, top_k, top_p)


@pytest.mark.parametrize("top_k", [0, 300])
@pytest.mark.parametrize("spread", [0.0, 0.001, 1.0, 50.0])
def test_tokens_are_drawn_from_flat_and_from_wide_distributions(spread, top_k):
    """All equal, all within a bucket, and scores of which many are too far from the best one for a bucket."""
    rng = np.random.default_rng(2)
    rows, uniforms = spread * rng.standard_normal((20, 500)), rng.random(20)
    for temperature in (1.0, 40.0):
        for top_p in (0.5, 0.99, 1 - 1e-12):
            assert_drawn(rows, uniforms, temperature, top_k, top_p)


def assert_drawn(rows, uniforms, temperature, top_k, top_p):
    """The tokens are those of NumPy's sums over sorted probabilities."""
    found = draw_tokens(rows, uniforms, temperature=temperature, top_k=top_k, top_p=top_p)
    for row, u, token in zip(rows, uniforms, found.tolist(), strict=True):
        chances = np.exp((row - row.max()) / temperature)
        order = np.argsort(-row, kind="stable")
        plain = top_k == 0 and top_p == 1.0
        kept = np.arange(len(row)) if plain else order[: top_k or len(row)]
        weights = chances[kept]
        if not plain:
            before = (np.cumsum(weights) - weights) / weights.sum()
            kept, weights = kept[before < top_p], weights[before < top_p]
        assert token == kept[np.searchsorted(np.cumsum(weights), u * weights.sum(), side="right")]


def test_a_row_without_tokens_gives_none():
    rows = np.full((2, 9), -np.inf)
    rows[1, 4] = -3.0
    for options in ({"top_k": 0, "top_p": 1.0}, {"top_k": 3, "top_p": 0.5}):
        assert draw_tokens(rows, np.array([0.5, 0.999]), temperature=1.0, **options).tolist() == [-1, 4]


@pytest.mark.parametrize("top_k", [0, 300])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_survived(bad, top_k):
    """A model that has diverged."""
    rows = np.random.default_rng(0).standard_normal((3, 500)).astype("f4")
    rows[0, ::3], rows[1] = bad, bad
    found = draw_tokens(rows, np.full(3, 0.5), temperature=1.0, top_k=top_k, top_p=0.9)
    assert ((found >= -1) & (found < 500)).all()
    assert found[2] == draw_tokens(rows[2:], np.full(1, 0.5), temperature=1.0, top_k=top_k, top_p=0.9)


def test_rows_may_be_a_part_of_an_array():
    """A chooser of one's own may hand over some columns, or what it has transposed."""
    rng = np.random.default_rng(0)
    whole, uniforms = rng.standard_normal((8, 30)).astype("f4"), rng.random(16)
    for rows in (whole[:, ::2], np.asfortranarray(whole), whole[::-1]):
        copied, drawn = rows.copy("C"), {"temperature": 1.0, "top_k": 0, "top_p": 0.9}
        for found, expected in zip(top_tokens(rows, 3), top_tokens(copied, 3), strict=True):
            np.testing.assert_array_equal(found, expected)
        found, expected = (
            draw_tokens(a, b, **drawn) for a, b in ((rows, uniforms[::2]), (copied, uniforms[::2].copy()))
        )
        np.testing.assert_array_equal(found, expected)
