"""Candidate selectors: the part of the beam search that chooses continuations, and that options replace."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from nmt.decode.hypotheses import Beam, Search
from nmt.decode.rules.score_rules import Extra, Rule
from nmt.overriding import override
from nmt.rnn.kernels.memory.arrays import identity
from nmt.rnn.kernels.search.best_tokens import best_continuations
from nmt.rnn.kernels.search.choose import draw_tokens, top_tokens
from nmt.rnn.kernels.search.search_rules import may_come, mix, tokens_wanted
from nmt.special_tokens import BOS_ID

Choice = tuple[np.ndarray, np.ndarray, np.ndarray, Extra]
"""Parent rows int64 [R'], the tokens that continue them int32 [R'], the new sums float64 [R'], and the extra state of
the new rows. Rows of a sentence are adjacent, sentences stay in order."""


class CandidateSelector:
    """Keeps the best continuations of all hypotheses of a sentence: beam search, or greedy search with a beam of one.
    A compiled loop does the same. The log-probabilities of all tokens are never stored. Other selectors derive from
    it."""

    def start(self, first: Beam) -> Beam:
        """Return the first beam of this selector, given one with an empty hypothesis per sentence."""
        return first

    def follow_given(self, extra: Extra, token: int, log_prob: np.floating) -> float:
        """Update the extra state of a single row by a given token; return what the token adds to its sum."""
        return float(log_prob)

    def choose(self, search: Search, beam: Beam, outputs: np.ndarray, live: np.ndarray, bounds: np.ndarray) -> Choice:
        """Choose the continuations of the rows of a beam from the decoder outputs [R, H]. Sentence live[n] has the rows
        bounds[n] to bounds[n + 1]."""
        room = search.room[live]
        tokens, scores = search.decoder.best_tokens(outputs, search.first_token, tokens_wanted(int(room.max())))
        parent, chosen, sums = continuations(tokens, scores, beam.sums, bounds, room, BOS_ID)
        return parent, chosen, sums, {}

    def best_sums(self, beam: Beam, rows: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Return an upper bound on the final sum of each sentence; rows[first[n]] is the first row of sentence n."""
        return np.maximum.reduceat(beam.sums[rows], first) if len(first) else np.empty(0)


class RuledSelector(CandidateSelector):
    """Keep the best continuations after applying rules that forbid tokens or change their scores."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = list(rules)
        self._reweights = any(rule.reweights for rule in rules)

    @override
    def start(self, first: Beam) -> Beam:
        if self._reweights:
            first.extra["log_prob"] = np.zeros(len(first))
        for rule in self.rules:
            first.extra |= rule.start(first.sentence)
        return first

    @override
    def choose(self, search: Search, beam: Beam, outputs: np.ndarray, live: np.ndarray, bounds: np.ndarray) -> Choice:
        log_probs, steps = search.decoder.log_probs(outputs), search.steps[beam.sentence]
        for rule in self.rules:
            rule.look(log_probs, beam, steps)
        scores = log_probs.copy() if self._reweights else log_probs
        banned = ~may_come(identity(scores.shape[1]), search.first_token, BOS_ID)
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

    def follow(self, extra: Extra, tokens: np.ndarray) -> None:
        """Update the extra state of rows, a copy of their parents', in place by `tokens`, which continue them."""
        for rule in self.rules:
            rule.follow(extra, tokens)

    def select(
        self, search: Search, beam: Beam, scores: np.ndarray, live: np.ndarray, bounds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return parent rows and the tokens that continue them, by scores [R, V]; forbidden ones are -inf."""
        room = search.room[live]
        tokens, best = top_tokens(scores, int(room.max()))
        return continuations(tokens, best, beam.sums, bounds, room, -1)[:2]

    @override
    def best_sums(self, beam: Beam, rows: np.ndarray, first: np.ndarray) -> np.ndarray:
        sums = beam.sums[rows] + sum(rule.most_to_gain(beam, rows) for rule in self.rules if rule.reweights)
        return np.maximum.reduceat(sums, first) if len(first) else np.empty(0)


def continuations(
    tokens: np.ndarray, scores: np.ndarray, sums: np.ndarray, bounds: np.ndarray, room: np.ndarray, never: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return parents, tokens and sums of the `room[n]` best continuations; see `best_continuations`."""
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


class SamplingSelector(RuledSelector):
    """Draw the next token of each row from the model's distribution; a sentence has `count` rows. A random number is a
    function of the seed, the source tokens, the index of the sample and the step: neither batches nor threads nor the
    order of the sentences change a sample."""

    def __init__(self, rules: Sequence[Rule], count: int, keys: np.ndarray, drawing: tuple[float, int, float]) -> None:
        super().__init__(rules)
        self.count, self._keys = count, keys
        self._temperature, self._top_k, self._top_p = drawing

    @override
    def start(self, first: Beam) -> Beam:
        sentences = len(first)
        first = super().start(first.chosen(np.repeat(np.arange(sentences), self.count)))
        first.extra["sample"] = np.tile(np.arange(self.count, dtype=np.uint64), sentences)
        return first

    @override
    def select(
        self, search: Search, beam: Beam, scores: np.ndarray, live: np.ndarray, bounds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        steps = search.steps[beam.sentence].astype(np.uint64)
        numbers = mix(mix(self._keys[beam.sentence] + beam.extra["sample"]) + steps)
        uniforms = (numbers >> np.uint64(11)).astype(np.float64) * 2.0**-53
        tokens = draw_tokens(scores, uniforms, temperature=self._temperature, top_k=self._top_k, top_p=self._top_p)
        parent = np.flatnonzero(tokens >= 0)
        return parent, tokens[parent]


def sample_keys(src_ids: Sequence[Sequence[int]], seed: int) -> np.ndarray:
    """Return the random key of each sentence, uint64 [N]: a hash of its tokens and the seed."""
    digests = [hashlib.blake2b(np.array(ids, "<i4").tobytes(), digest_size=8).digest() for ids in src_ids]
    return mix(np.frombuffer(b"".join(digests), "<u8") ^ np.uint64(seed % 2**64))
