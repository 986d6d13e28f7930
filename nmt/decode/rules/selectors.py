"""Candidate selectors: the part of the beam search that chooses continuations, and that options replace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.decode.hypotheses import Beam, Search
from nmt.decode.rules.score_rules import Rule
from nmt.overriding import override
from nmt.rnn.kernels.memory.runs import identity
from nmt.rnn.kernels.search.best_tokens import best_continuations
from nmt.rnn.kernels.search.choose import top_tokens
from nmt.rnn.kernels.search.search_rules import may_come, tokens_wanted

Extra = dict[str, np.ndarray]
Choice = tuple[np.ndarray, np.ndarray, np.ndarray, Extra]
"""Parent rows int64 [R'], the tokens that continue them int32 [R'], the new sums float64 [R'], and the extra state of
the new rows. Rows of a sentence are adjacent, sentences stay in order."""


class CandidateSelector:
    """Base class of all selectors."""

    def start(self, search: Search, first: Beam) -> Beam:
        """Return the first beam of this selector, given one with an empty hypothesis per sentence."""
        return first

    def follow(self, extra: Extra, tokens: np.ndarray) -> None:
        """Update the extra state of rows in place: `extra` is a copy of that of their parents, `tokens` continue
        them."""

    def follow_given(self, extra: Extra, token: int, log_prob: np.floating) -> float:
        """Update the extra state of a single row by a given token, and return what the token adds to the sum of the
        row."""
        return float(log_prob)

    def choose(self, search: Search, beam: Beam, outputs: np.ndarray, live: np.ndarray, bounds: np.ndarray) -> Choice:
        """Choose the continuations of the rows of a beam from the decoder outputs [R, H]. Sentence live[n] has the rows
        bounds[n] to bounds[n + 1]."""
        raise NotImplementedError

    def best_sums(self, beam: Beam, rows: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Return an upper bound on the final sum of each sentence; rows[first[n]] is the first row of sentence n."""
        return np.maximum.reduceat(beam.sums[rows], first) if len(first) else np.empty(0)


class BestSelector(CandidateSelector):
    """Keep the best continuations of all hypotheses of a sentence: beam search, or greedy search with a beam of one.

    A compiled loop does the same. The log-probabilities of all tokens are never stored.
    """

    @override
    def choose(self, search: Search, beam: Beam, outputs: np.ndarray, live: np.ndarray, bounds: np.ndarray) -> Choice:
        room = search.room(live)
        tokens, scores = search.decoder.best_tokens(outputs, search.first_token, tokens_wanted(int(room.max())))
        parent, chosen, sums = continuations(tokens, scores, beam.sums, bounds, room, search.never)
        return parent, chosen, sums, {}


class RuledSelector(CandidateSelector):
    """Keep the best continuations after applying rules that forbid tokens or change their scores."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = list(rules)
        self._reweights = any(rule.reweights for rule in rules)

    @override
    def start(self, search: Search, first: Beam) -> Beam:
        if self._reweights:
            first.extra["log_prob"] = np.zeros(len(first))
        for rule in self.rules:
            first.extra |= rule.start(first.sentence)
        return first

    @override
    def choose(self, search: Search, beam: Beam, outputs: np.ndarray, live: np.ndarray, bounds: np.ndarray) -> Choice:
        log_probs, steps = search.decoder.log_probs(outputs), search.steps(beam.sentence)
        for rule in self.rules:
            rule.look(log_probs, beam, steps)
        scores = log_probs.copy() if self._reweights else log_probs
        banned = ~may_come(identity(scores.shape[1]), search.first_token, search.never)
        scores[:, np.flatnonzero(banned)] = -np.inf
        for rule in self.rules:
            rule.apply(scores, beam, steps)
        parent, tokens = self.select(search, beam, scores, live, bounds)
        sums = beam.sums[parent] + scores[parent, tokens]
        extra = {name: v[parent] for name, v in beam.extra.items()}
        if self._reweights:
            extra["log_prob"] += log_probs[parent, tokens]
        self.follow(extra, tokens)
        return parent, tokens, sums, extra

    @override
    def follow_given(self, extra: Extra, token: int, log_prob: np.floating) -> float:
        score = np.array([log_prob])
        for rule in self.rules:
            rule.reward_given(score, extra, token)
        self.follow(extra, np.array([token], np.int32))
        return float(score[0])

    @override
    def follow(self, extra: Extra, tokens: np.ndarray) -> None:
        for rule in self.rules:
            rule.follow(extra, tokens)

    def select(
        self, search: Search, beam: Beam, scores: np.ndarray, live: np.ndarray, bounds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return parent rows and the tokens that continue them, by scores [R, V], which are -inf for forbidden
        tokens."""
        room = search.room(live)
        tokens, best = top_tokens(scores, int(room.max()))
        return continuations(tokens, best, beam.sums, bounds, room, -1)[:2]

    @override
    def best_sums(self, beam: Beam, rows: np.ndarray, first: np.ndarray) -> np.ndarray:
        sums = beam.sums[rows] + sum(rule.most_to_gain(beam, rows) for rule in self.rules if rule.reweights)
        return np.maximum.reduceat(sums, first) if len(first) else np.empty(0)


def continuations(
    tokens: np.ndarray, scores: np.ndarray, sums: np.ndarray, bounds: np.ndarray, room: np.ndarray, never: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the parents, tokens and sums of the `room[n]` best continuations of each sentence (see
    `best_continuations`)."""
    width = int(room.max())
    size = len(room) * width
    parents, chosen, totals = np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size)
    best_continuations(
        tokens.reshape(-1),
        scores.reshape(-1),
        tokens.shape[1],
        sums,
        bounds,
        len(room),
        room,
        never,
        parents,
        chosen,
        totals,
        width,
    )
    there = parents >= 0
    return parents[there], chosen[there], totals[there]
