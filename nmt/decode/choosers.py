"""Which continuations of its hypotheses a sentence keeps: the part of the beam's cell that options exchange."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nmt.decode.rules import Rule
from nmt.rnn.kernels.choose import top_tokens
from nmt.rnn.kernels.search import best_continuations

if TYPE_CHECKING:
    from nmt.decode.beam import Beam, BeamCell

Extra = dict[str, np.ndarray]
Choice = tuple[np.ndarray, np.ndarray, np.ndarray, Extra]
"""Parent rows int64 [R'], their tokens int32 [R'], the sums after them float64 [R'], what else is kept of the new
rows. Rows of a sentence are neighbours, sentences in their order."""


class Chooser:
    """Base of all choosers."""

    def start(self, cell: BeamCell, first: Beam) -> Beam:
        """A beam with one empty hypothesis a sentence, as this chooser wants it."""
        return first

    def follow(self, extra: Extra, tokens: np.ndarray) -> None:
        """Bring what is kept of rows up to date; `extra` is that of their parents, `tokens` continue them."""

    def choose(self, cell: BeamCell, beam: Beam, outputs: np.ndarray, live: np.ndarray, bounds: np.ndarray) -> Choice:
        """Continue the rows of a beam, whose decoder outputs are [R, H]. Sentence live[n] has the rows bounds[n] up
        to bounds[n + 1]."""
        raise NotImplementedError

    def best_sums(self, beam: Beam, rows: np.ndarray, first: np.ndarray) -> np.ndarray:
        """The most that a sum can become, of each sentence; rows[first[n]] is the first row of sentence n."""
        return np.maximum.reduceat(beam.sums[rows], first) if len(first) else np.empty(0)


class BestChooser(Chooser):
    """The best continuations of all hypotheses of a sentence together: beam search, and greedy with a beam of one.

    The log-probabilities of all tokens never are in memory.
    """

    def choose(self, cell: BeamCell, beam: Beam, outputs: np.ndarray, live: np.ndarray, bounds: np.ndarray) -> Choice:
        """See `Chooser`."""
        room = cell.room(live)
        # A row cannot give more continuations than its sentence has room for (one more where a token is passed over).
        tokens, scores = cell.decoder.best_tokens(outputs, cell.first_token, int(room.max()) + 1)
        parent, chosen, sums = continuations(tokens, scores, beam.sums, bounds, room, cell.never)
        return parent, chosen, sums, {}


class RuledChooser(Chooser):
    """The same with rules that forbid tokens or change their scores."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = list(rules)
        self._reweights = any(rule.reweights for rule in rules)

    def start(self, cell: BeamCell, first: Beam) -> Beam:
        """See `Chooser`."""
        if self._reweights:
            first.extra["log_prob"] = np.zeros(len(first))
        for rule in self.rules:
            first.extra |= rule.start(first.sentence)
        return first

    def choose(self, cell: BeamCell, beam: Beam, outputs: np.ndarray, live: np.ndarray, bounds: np.ndarray) -> Choice:
        """See `Chooser`."""
        log_probs, steps = cell.decoder.log_probs(outputs), cell.steps(beam.sentence)
        for rule in self.rules:
            rule.look(log_probs, beam, steps)
        scores = log_probs.copy() if self._reweights else log_probs
        scores[:, : cell.first_token] = -np.inf
        if cell.never >= 0:
            scores[:, cell.never] = -np.inf
        for rule in self.rules:
            rule.apply(scores, beam, steps)
        parent, tokens = self.select(cell, beam, scores, live, bounds)
        sums = beam.sums[parent] + scores[parent, tokens]
        extra = {name: v[parent] for name, v in beam.extra.items()}
        if self._reweights:
            extra["log_prob"] += log_probs[parent, tokens]
        self.follow(extra, tokens)
        return parent, tokens, sums, extra

    def follow(self, extra: Extra, tokens: np.ndarray) -> None:
        """See `Chooser`."""
        for rule in self.rules:
            rule.follow(extra, tokens)

    def select(
        self, cell: BeamCell, beam: Beam, scores: np.ndarray, live: np.ndarray, bounds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Parent rows and tokens that continue them, by scores [R, V], -inf where a token is forbidden."""
        room = cell.room(live)
        tokens, best = top_tokens(scores, int(room.max()))
        return continuations(tokens, best, beam.sums, bounds, room, -1)[:2]

    def best_sums(self, beam: Beam, rows: np.ndarray, first: np.ndarray) -> np.ndarray:
        """See `Chooser`."""
        sums = beam.sums[rows] + sum(rule.most(beam, rows) for rule in self.rules if rule.reweights)
        return np.maximum.reduceat(sums, first) if len(first) else np.empty(0)


def continuations(
    tokens: np.ndarray, scores: np.ndarray, sums: np.ndarray, bounds: np.ndarray, room: np.ndarray, never: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parents, tokens and sums of the `room[n]` best continuations of each sentence (see `best_continuations`)."""
    width = int(room.max())
    size = len(room) * width
    parents, chosen, totals = np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size)
    given = tokens.reshape(-1), scores.reshape(-1), tokens.shape[1], sums, bounds, len(room), room, never
    best_continuations(*given, parents, chosen, totals, width)
    there = parents >= 0
    return parents[there], chosen[there], totals[there]
