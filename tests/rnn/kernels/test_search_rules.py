"""The rules of search are the same for numbers, in compiled code, on a GPU, and for arrays."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

from nmt.decode.rules.options import SearchOptions
from nmt.decode.rules.penalty import best_possible, final_scores, length_divisor, nth_best
from nmt.rnn.kernels.machine_code.jit import exact_kernel, inlined, kernel
from nmt.rnn.kernels.search import search_rules
from nmt.rnn.kernels.search.token_rules import TokenRules, rules_of_rows

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
def test_scores_of_arrays_are_those_of_each_number(reward, penalty):
    for seed in range(5):
        sums, lengths, _ = hypotheses(seed)
        divisors = length_divisor(penalty, np.arange(50))
        found = final_scores(penalty, sums, lengths, reward)
        for n, (total, length) in enumerate(zip(sums.tolist(), lengths.tolist(), strict=True)):
            assert found[n] == search_rules.score(total, divisors[length], reward, length)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("reward", REWARDS)
def test_bounds_of_arrays_are_those_of_each_number(reward, penalty):
    for seed in range(5):
        sums, lengths, limits = hypotheses(seed)
        divisors = length_divisor(penalty, np.arange(50))
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


CASES = {
    "may_come": lambda rng: (int(rng.integers(-1, 5)), int(rng.integers(0, 4)), int(rng.integers(-1, 5))),
    "too_early": lambda rng: tuple(int(n) for n in rng.integers(1, 4, 4)),
    "occurs": lambda rng: (int(rng.integers(5)), rng.integers(0, 5, 9), int(rng.integers(3)), int(rng.integers(7))),
    "ends_with": lambda rng: (
        rng.integers(0, 2, 9),
        int(rng.integers(0, 3)),
        int(rng.integers(0, 7)),
        rng.integers(0, 2, 9),
        int(rng.integers(0, 3)),
        int(rng.integers(0, 4)),
    ),
    "penalised": lambda rng: tuple(rng.normal(0, 3, 2).tolist()),
    "mix": lambda rng: (rng.integers(0, 2**64, 1, np.uint64)[0],),
    "tokens_wanted": lambda rng: (int(rng.integers(1, 9)),),
    "wins": lambda rng: (float(rng.integers(-2, 2)), float(rng.integers(-2, 2))),
    "ends": lambda rng: tuple(int(n) for n in rng.integers(1, 4, 4)),
    "room_left": lambda rng: (int(rng.integers(1, 9)), 1),
    "score": lambda rng: tuple(rng.normal(0, 3, 4).tolist()),
    "best_length": lambda rng: (float(rng.choice(REWARDS)), int(rng.integers(1, 5)), int(rng.integers(5, 9))),
    "best_score": lambda rng: tuple(rng.normal(0, 3, 5).tolist()),
    "can_improve": lambda rng: (float(rng.integers(-2, 2)), float(rng.integers(-2, 2))),
    "score_to_beat": lambda rng: (
        rng.integers(-4, 0, 9) / 3,
        rng.integers(0, 2, 9),
        int(rng.integers(0, 3)),
        int(rng.integers(0, 7)),
        int(rng.integers(1, 5)),
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
