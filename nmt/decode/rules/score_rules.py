"""Rules on single tokens: what may not come next, and what counts more or less than its probability; length penalties
of the score by which hypotheses are ranked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from nmt.decode.hypotheses import Beam
from nmt.overriding import override
from nmt.rnn.kernels.search.search_rules import best_length, score
from nmt.rnn.kernels.search.token_rules import TokenRules, forbid_rows, reweight_rows
from nmt.search_settings import LengthPenalty


@lru_cache(maxsize=256)
def length_divisors(penalty: LengthPenalty, count: int) -> np.ndarray:
    """Return the divisors of 0, 1, ... tokens, so many, as an array that is not to be written to."""
    return length_divisor(penalty, np.arange(count))


def length_divisor(penalty: LengthPenalty, length: np.ndarray | int) -> np.ndarray:
    """Return the divisor of a sum of log-probabilities over `length` tokens (including EOS); it increases with the
    length.

    `none`: 1. `average`: the length. A number alpha: ((5 + length) / 6) ** alpha (Wu et al. 2016, section 7, equation
    14).
    """
    length = np.asarray(length, np.float64)
    if penalty == "none":
        return np.ones_like(length)
    if penalty == "average":
        return np.maximum(length, 1.0)
    return np.array([_power((5.0 + n) / 6.0, penalty) for n in length.ravel().tolist()]).reshape(length.shape)


def _power(base: float, exponent: float) -> float:
    """Return the power of the C library, as exported libraries do: NumPy's depends on the processor."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


def final_scores(penalty: LengthPenalty, sums: np.ndarray, lengths: np.ndarray, word_reward: float = 0.0) -> np.ndarray:
    """Return the scores of ended hypotheses [R].

    sums [R]: sums of log-probabilities over lengths [R] tokens, including EOS. word_reward: added for each token (He et
    al. 2016, section 3.3).
    """
    return np.asarray(score(sums, length_divisor(penalty, lengths), word_reward, lengths))


def best_possible(
    penalty: LengthPenalty, sums: np.ndarray, lengths: np.ndarray, limits: np.ndarray, word_reward: float = 0.0
) -> np.ndarray:
    """Return an upper bound on the final scores of hypotheses that have `lengths` tokens, may grow up to `limits`, and
    whose sums do not increase: `search_rules.best_score` for arrays."""
    rewarded = best_length(word_reward, lengths, limits)
    bound: np.ndarray = score(sums, length_divisor(penalty, limits), word_reward, rewarded)
    if (sums > 0).any():  # only then can the next length give a better score than the last
        bound = np.maximum(bound, score(sums, length_divisor(penalty, lengths + 1), word_reward, rewarded))
    return bound


def nth_best(scores: list[float], n: int, former: float) -> float:
    """Return the n-th best score, or `former` if there are fewer than n: `search_rules.score_to_beat` for any number of
    finished hypotheses. That rule compares all pairs, which is fastest for a beam and slow for thousands of samples."""
    return sorted(scores, reverse=True)[n - 1] if len(scores) >= n else former


Extra = dict[str, np.ndarray]


class Rule:
    """Base of all rules. `reweights`: whether it does more than forbid: then sums are no longer log-probabilities."""

    reweights = False

    def start(self, sentence: np.ndarray) -> Extra:
        """Return what the rule keeps of each row, for the first rows of these sentences."""
        return {}

    def look(self, scores: np.ndarray, beam: Beam, steps: np.ndarray) -> None:
        """See the log-probabilities before any rule is applied; they must stay as they are."""

    def apply(self, scores: np.ndarray, beam: Beam, steps: np.ndarray) -> None:
        """Change scores [R, V] of the next tokens, -inf to forbid; steps [R]: how many tokens each row has."""

    def reward_given(self, score: np.ndarray, extra: Extra, token: int) -> None:
        """Change the score [1] of a token that is given, as those of a prefix are, for the one row of `extra`."""

    def follow(self, extra: Extra, tokens: np.ndarray) -> None:
        """Bring what the rule keeps up to date; `extra` is that of the parents, `tokens` continue them."""

    def most_to_gain(self, beam: Beam, rows: np.ndarray) -> np.ndarray | float:
        """Return the most that it can still add to the sums of these rows."""
        return 0.0


class Reweighting(Rule):
    """Rules that change scores, such as a penalty of repetition: the log-probability of a token that the translation
    holds already is multiplied by a factor (after Keskar et al. 2019, section 4.1)."""

    reweights = True

    def __init__(self, rules: TokenRules) -> None:
        self.rules = rules

    @override
    def apply(self, scores: np.ndarray, beam: Beam, steps: np.ndarray) -> None:
        reweight_rows(scores, beam.history, steps, self.rules.reals)


class Forbidding(Rule):
    """Rules that forbid tokens: no sequence of some tokens twice (Paulus et al. 2018, section 2.5), none of a list (the
    avoid list of Sockeye), and no EOS before so many tokens."""

    def __init__(self, rules: TokenRules, eos_id: int) -> None:
        self.rules, self.eos_id, self._vocab_size = rules, eos_id, -1

    @override
    def apply(self, scores: np.ndarray, beam: Beam, steps: np.ndarray) -> None:
        if scores.shape[1] != self._vocab_size:
            self._vocab_size = scores.shape[1]
            self.rules.check(self._vocab_size)
        forbid_rows(scores, beam.history, steps, self.rules.numbers, self.rules.lists, self.eos_id)


class Prefix(Rule):
    """Translations begin with given tokens, whatever rules before this one say; prefixes[n] for sentence n."""

    def __init__(self, prefixes: Sequence[Sequence[int]]) -> None:
        self.lengths = np.array([len(p) for p in prefixes], np.int64)
        self.tokens = np.full((len(prefixes), int(self.lengths.max(initial=0))), -1, np.int64)
        for row, prefix in zip(self.tokens, prefixes, strict=True):
            row[: len(prefix)] = prefix
        self._kept = np.zeros(0)

    @override
    def look(self, scores: np.ndarray, beam: Beam, steps: np.ndarray) -> None:
        self._kept = scores[self._forced(beam, steps)]

    @override
    def apply(self, scores: np.ndarray, beam: Beam, steps: np.ndarray) -> None:
        rows, tokens = self._forced(beam, steps)
        scores[rows] = -np.inf
        scores[rows, tokens] = self._kept

    def _forced(self, beam: Beam, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = np.flatnonzero(steps < self.lengths[beam.sentence])
        return rows, self.tokens[beam.sentence[rows], steps[rows]]
