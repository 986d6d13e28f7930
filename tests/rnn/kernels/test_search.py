"""Best tokens, continuations, log-probabilities and draws against NumPy; the rules of search for numbers and arrays."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

from nmt.decode.rules.options import SearchOptions
from nmt.decode.rules.score_rules import best_possible, final_scores, length_divisor, nth_best
from nmt.rnn.kernels.machine_code.jit import exact_kernel, inlined, kernel
from nmt.rnn.kernels.search import search_rules
from nmt.rnn.kernels.search.best_tokens import best_continuations, best_tokens, log_probs
from nmt.rnn.kernels.search.choose import draw_tokens, top_tokens
from nmt.rnn.kernels.search.token_rules import TokenRules, rules_of_rows
from tests.rnn.kernels.company import packed


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
        places = [(r, k) for r in range(rows[n], rows[n + 1]) for k in range(4) if tokens[r, k] != 6]
        expected = sorted((-(sums[r] + scores[r, k]), r, tokens[r, k]) for r, k in places)[: room[n]]
        assert parents[n, : len(expected)].tolist() == [r for _, r, _ in expected]
        assert chosen[n, : len(expected)].tolist() == [token for _, _, token in expected]
        np.testing.assert_allclose(totals[n, : len(expected)], [-s for s, _, _ in expected])
        assert (parents[n, len(expected) :] == -1).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("vocab", [5, 128, 129, 700])
def test_log_probs_are_the_bits_of_the_best_tokens_for_any_threads_and_other_rows(vocab, dtype):
    rng = np.random.default_rng(vocab)
    y, W, bias = (rng.standard_normal(shape).astype(dtype) for shape in ((300, 20), (20, vocab), (vocab,)))
    logits = y.astype("f8") @ W + bias
    expected = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    found = log_probs(y, packed(W), bias, 1)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    tokens, scores = best_tokens(y, packed(W), bias, 0, 4, threads=1)
    np.testing.assert_array_equal(np.take_along_axis(found, tokens.astype(np.int64), 1), scores)
    places = min(5, vocab - 1)
    best = best_tokens(y, packed(W), bias, 1, places, threads=1)
    for threads, rows in ((2, slice(None)), (3, slice(7, 8)), (1, slice(100, 290))):
        np.testing.assert_array_equal(log_probs(y[rows], packed(W), bias, threads), found[rows])
        for some, of_all in zip(best_tokens(y[rows], packed(W), bias, 1, places, threads=threads), best, strict=True):
            np.testing.assert_array_equal(some, of_all[rows])


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


PENALTIES = ("none", "average", 0.0, 0.6, 1.0, 3.0)
REWARDS = (0.0, 0.4, -0.3)


def hypotheses(seed):
    """Sums, lengths and limits of some hypotheses; a few sums are positive, as rules make them."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 30, 50)
    sums = np.round(rng.normal(-5, 4, 50), rng.integers(0, 8))
    return sums, lengths, lengths + rng.integers(1, 9, 50)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("reward", REWARDS)
def test_scores_and_bounds_of_arrays_are_those_of_each_number(reward, penalty):
    for seed in range(5):
        sums, lengths, limits = hypotheses(seed)
        divisors = length_divisor(penalty, np.arange(50))
        found = final_scores(penalty, sums, lengths, reward)
        for n, (total, length) in enumerate(zip(sums.tolist(), lengths.tolist(), strict=True)):
            assert found[n] == search_rules.score(total, divisors[length], reward, length)
        for shift in (0.0, 100.0, -100.0):  # positive sums among them, alone, and none
            found = best_possible(penalty, sums + shift, lengths, limits, reward)
            for n in range(len(lengths)):
                steps, limit = int(lengths[n]), int(limits[n])
                rewarded = search_rules.best_length(reward, steps, limit)
                total, following, last = sums[n] + shift, divisors[steps + 1], divisors[limit]
                assert found[n] == search_rules.best_score(total, following, last, reward, rewarded)


def test_the_score_to_beat_is_the_nth_of_the_sorted_finished_ones():
    rng = np.random.default_rng(0)
    for _ in range(300):
        count, n_best = int(rng.integers(0, 9)), int(rng.integers(1, 6))
        scores, finished = rng.integers(-4, 0, count + 3) / 2, rng.integers(0, 2, count + 3)
        best = scores[2 : 2 + count][finished[2 : 2 + count] != 0].tolist()
        assert nth_best(best, n_best, -9.0) == search_rules.score_to_beat(scores, finished, 2, count, n_best, -9.0)
        best.sort(reverse=True)
        expected = best[n_best - 1] if len(best) >= n_best else -9.0
        assert search_rules.score_to_beat(scores, finished, 2, count, n_best, -9.0) == expected


def ints(rng, *ranges):
    return [int(rng.integers(*one)) for one in ranges]


CASES = {
    "may_come": lambda rng: ints(rng, (-1, 5), (0, 4), (-1, 5)),
    "too_early": lambda rng: ints(rng, *[(1, 4)] * 4),
    "occurs": lambda rng: (*ints(rng, (5,)), rng.integers(0, 5, 9), *ints(rng, (3,), (7,))),
    "ends_with": lambda rng: [n for most in (7, 4) for n in (rng.integers(0, 2, 9), *ints(rng, (0, 3), (0, most)))],
    "penalised": lambda rng: tuple(rng.normal(0, 3, 2).tolist()),
    "mix": lambda rng: (rng.integers(0, 2**64, 1, np.uint64)[0],),
    "tokens_wanted": lambda rng: ints(rng, (1, 9)),
    "wins": lambda rng: (float(rng.integers(-2, 2)), float(rng.integers(-2, 2))),
    "ends": lambda rng: ints(rng, *[(1, 4)] * 4),
    "room_left": lambda rng: (*ints(rng, (1, 9)), 1),
    "score": lambda rng: tuple(rng.normal(0, 3, 4).tolist()),
    "best_length": lambda rng: (float(rng.choice(REWARDS)), *ints(rng, (1, 5), (5, 9))),
    "best_score": lambda rng: tuple(rng.normal(0, 3, 5).tolist()),
    "can_improve": lambda rng: (float(rng.integers(-2, 2)), float(rng.integers(-2, 2))),
    "score_to_beat": lambda rng: (
        rng.integers(-4, 0, 9) / 3,
        rng.integers(0, 2, 9),
        *ints(rng, (0, 3), (0, 7), (1, 5)),
        -9.0,
    ),
}


def rows_of_tokens(seed, V):
    """Rows of up to 8 tokens below V, and how many each has."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, V, (40, 8)).astype(np.int32), rng.integers(0, 9, 40)


@pytest.mark.parametrize(
    "options",
    [
        *({"no_repeat_ngram_size": size} for size in (1, 2, 3)),
        {"forbidden": [(0,), (1, 2), (2, 1, 2), (1, 1, 0, 2)]},
        {"repetition_penalty": 1.5, "min_length": 4},
    ],
    ids=str,
)
def test_rules_of_rows_are_those_of_python(options):
    history, steps = rows_of_tokens(7, 3)
    found, expected = np.ones((2, len(history), 3))
    given = TokenRules.of(SearchOptions(**options))
    reweight, forbid = rules_of_rows(lambda rule: rule, lambda: None, lambda scores, number: number)
    for n, (row, count) in enumerate(zip(history, steps.tolist(), strict=True)):
        reweight(expected[n], 0, row, 0, count, given.reals, 0, 1)
        forbid(expected[n], 0, row, 0, count, given.numbers, given.lists, 2, 0, 1)
    for rule in SearchOptions(**options).rules(eos_id=2):
        rule.apply(found, SimpleNamespace(history=history), steps)
    assert (found == expected).all() and not (found == 1).all()


def test_all_rules_are_here():
    rules = inspect.getmembers(search_rules, inspect.isfunction)
    assert {name for name, rule in rules if rule.__module__ == search_rules.__name__} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_compiled_rules_are_those_of_python(name):
    rule, rng = getattr(search_rules, name), np.random.default_rng(0)
    compiled = inlined(rule)
    names = ", ".join(inspect.signature(rule).parameters)
    scope = {"compiled": compiled, "kernel": kernel, "__name__": __name__}
    exec(f"def exact({names}):\n    return compiled({names})\n", scope)  # noqa: S102
    scope["exact"] = exact_kernel(scope["exact"])
    exec(f"def call({names}, out):\n    out[0] = exact({names})\n", scope)  # noqa: S102
    call, out = kernel(scope["call"]), np.zeros(1)
    for _ in range(50):
        given = CASES[name](rng)
        call(*given, out)
        with np.errstate(over="ignore"):  # `mix` is modulo 2**64
            assert out[0] == rule(*given)


def test_hashed_numbers_are_those_of_splitmix():
    """The first numbers of SplitMix64 from seed 0, as published with the generator."""
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC, 0x1B39896A51A8749B]
    with np.errstate(over="ignore"):
        found = search_rules.mix(np.arange(5, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    assert found.tolist() == published
