"""Length penalties of the score by which hypotheses are ranked."""

import math
from functools import lru_cache

import numpy as np

from nmt.rnn.kernels.search.search_rules import best_length, score
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
    """Return the power of the C library, which an exported library takes too: that of NumPy's arrays depends on the
    processor."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


def final_scores(
    penalty: LengthPenalty,
    sums: np.ndarray,
    lengths: np.ndarray,
    word_reward: float = 0.0,
) -> np.ndarray:
    """Return the scores of ended hypotheses [R].

    sums [R]: sums of log-probabilities over lengths [R] tokens, including EOS. word_reward: added for each token (He et
    al. 2016, section 3.3).
    """
    return np.asarray(score(sums, length_divisor(penalty, lengths), word_reward, lengths))


def best_possible(
    penalty: LengthPenalty,
    sums: np.ndarray,
    lengths: np.ndarray,
    limits: np.ndarray,
    word_reward: float = 0.0,
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
