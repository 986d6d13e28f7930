"""Rules on single tokens: what may not come next, and what counts more or less than its probability."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.decode.hypotheses import Beam
from nmt.overriding import override
from nmt.rnn.kernels.search.token_rules import TokenRules, forbid_rows, reweight_rows

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
    """Translations begin with given tokens, whatever the rules before this one say of them; prefixes[n] are those of
    sentence n."""

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
