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


class MinLength(Rule):
    """No end of sentence before `least` tokens, EOS not counted."""

    def __init__(self, least: int, eos_id: int) -> None:
        self.least, self.eos_id = least, eos_id

    @override
    def apply(self, scores: np.ndarray, beam: Beam, steps: np.ndarray) -> None:
        scores[steps < self.least, self.eos_id] = -np.inf


class Forbidden(Rule):
    """Sequences of tokens that are never produced; a sequence of one forbids that token (the avoid list of Sockeye)."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        self.single = np.array(sorted({s[0] for s in sequences if len(s) == 1}), np.int64)
        self.longer = [np.array(s, np.int32) for s in sorted({tuple(s) for s in sequences}) if len(s) > 1]

    @override
    def apply(self, scores: np.ndarray, beam: Beam, steps: np.ndarray) -> None:
        scores[:, self.single] = -np.inf
        for sequence in self.longer:
            before = last_tokens(beam.history, steps, len(sequence) - 1)
            scores[(before == sequence[:-1]).all(1), sequence[-1]] = -np.inf


class NoRepeat(Rule):
    """No sequence of `size` tokens twice in a translation (Paulus et al. 2018, section 2.5)."""

    def __init__(self, size: int) -> None:
        self.size = size

    @override
    def apply(self, scores: np.ndarray, beam: Beam, steps: np.ndarray) -> None:
        if beam.history.shape[1] < self.size:
            return
        last = last_tokens(beam.history, steps, self.size - 1)
        windows = np.lib.stride_tricks.sliding_window_view(beam.history, self.size, axis=1)  # [R, W - size + 1, size]
        there = np.arange(windows.shape[1])[None] + self.size <= steps[:, None]
        rows, at = np.nonzero((windows[:, :, :-1] == last[:, None]).all(2) & there)
        scores[rows, windows[rows, at, -1]] = -np.inf


class RepetitionPenalty(Rule):
    """The log-probability of a token that the translation holds already is multiplied by `factor` (after Keskar et
    al. 2019, section 4.1); above 1 it makes repetition less likely."""

    reweights = True

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @override
    def apply(self, scores: np.ndarray, beam: Beam, steps: np.ndarray) -> None:
        rows, at = np.nonzero(np.arange(beam.history.shape[1])[None] < steps[:, None])
        tokens = beam.history[rows, at]
        scores[rows, tokens] = scores[rows, tokens] * self.factor


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


def last_tokens(history: np.ndarray, steps: np.ndarray, count: int) -> np.ndarray:
    """Return the last `count` of the first steps[r] entries of each row [R, count]; -1 where there are fewer."""
    at = steps[:, None] + np.arange(-count, 0)[None]
    found = np.take_along_axis(history, np.maximum(at, 0), axis=1) if history.shape[1] else np.full(at.shape, -1)
    return np.where(at < 0, -1, found)
