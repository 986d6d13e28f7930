"""Beam search as a recurrent computation: a cell whose state is the decoder's state plus the live hypotheses of
every sentence.

One step: decoder step, output layer, the best tokens of each row, the best continuations of each sentence, rows
taken by parent. A
hypothesis that ends leaves the beam, which is then one narrower, and its row leaves the batch. The cell knows its
decoder by one method.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from nmt.decode.penalty import LengthPenalty, length_divisor
from nmt.rnn.kernels.search import best_continuations, best_tokens
from nmt.rnn.kernels.threads import run_parallel

States = dict[str, np.ndarray]


@dataclass(frozen=True)
class Hypothesis:
    """A translation: token ids without EOS, the sum of their log-probabilities (EOS counted), the score by which it
    is ranked.

    `finished` is False where the maximum length cut it off.
    """

    ids: list[int]
    log_prob: float
    score: float
    finished: bool


class Decoder(Protocol):
    """What search needs to know of a model: one step for some rows, giving logits."""

    eos_id: int
    bias: np.ndarray

    def first(self) -> tuple[States, np.ndarray]:
        """States of one row per sentence, and the first token of each."""

    def step(self, tokens: np.ndarray, states: States, sentence: np.ndarray) -> tuple[np.ndarray, States]:
        """tokens [R], states [R, n], sentence [R] -> logits without bias [R, V] and the states after."""


@dataclass
class Beam:
    """The state of the search. One row per live hypothesis; rows of a sentence are neighbours."""

    states: States
    tokens: np.ndarray  # int32 [R], the last token
    sums: np.ndarray  # float64 [R], log-probability so far
    sentence: np.ndarray  # int64 [R]
    place: np.ndarray  # int64 [R], which of the last step's continuations each row is
    steps: int = 0


@dataclass
class _Ended:
    """A hypothesis that has left the beam: where its history starts, and its numbers."""

    step: int
    place: int
    log_prob: float
    score: float
    finished: bool


@dataclass
class BeamCell:
    """The search over a batch of sentences.

    limits [N]: the most tokens of each sentence's translations, EOS counted. first_token: tokens below it are never
    produced.
    """

    decoder: Decoder
    limits: np.ndarray
    beam_size: int
    length_penalty: LengthPenalty
    n_best: int = 1
    first_token: int = 1
    never: int = -1
    threads: int = 1
    _history: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    _ended: list[list[_Ended]] = field(default_factory=list)
    _room: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def initial(self) -> Beam:
        """One live, empty hypothesis a sentence."""
        states, tokens = self.decoder.first()
        count = len(tokens)
        self._ended = [[] for _ in range(count)]
        self._history = []
        self._room = np.where(self.limits > 0, self.beam_size, 0).astype(np.int64)
        for n in np.flatnonzero(self.limits <= 0):
            self._ended[n].append(_Ended(0, -1, 0.0, 0.0, False))
        everyone = np.arange(count, dtype=np.int64)
        beam = Beam(states, tokens, np.zeros(count), everyone, everyone)
        return beam if (self.limits > 0).all() else _take(beam, np.flatnonzero(self.limits > 0))

    def step(self, beam: Beam) -> Beam:
        """Extend every live hypothesis by one token and keep the best."""
        logits, states = self.decoder.step(beam.tokens, beam.states, beam.sentence)
        R = len(beam.tokens)
        # A row cannot give more continuations than its sentence has room for (one more where a token is passed over).
        places = int(min(self._room.max() + 1, logits.shape[1]))
        tokens, scores = np.empty((R, places), np.int32), np.empty((R, places), logits.dtype)
        run_parallel(best_tokens, min(self.threads, R), logits, self.decoder.bias, self.first_token, tokens, scores)
        live, starts = np.unique(beam.sentence, return_index=True)
        bounds = np.append(starts, R).astype(np.int64)
        room = self._room[live]
        shape = (len(live), int(room.max()))
        parents, chosen, totals = np.empty(shape, np.int64), np.empty(shape, np.int32), np.empty(shape)
        best_continuations(tokens, scores, beam.sums, bounds, room, self.never, parents, chosen, totals)
        there = parents >= 0
        parent = parents[there]
        self._history.append((beam.place[parent], chosen[there]))
        extended = Beam(states, beam.tokens, beam.sums, beam.sentence, beam.place, beam.steps + 1)
        return self._sort_out(extended, parent, chosen[there], totals[there])

    def _sort_out(self, beam: Beam, parent: np.ndarray, token: np.ndarray, total: np.ndarray) -> Beam:
        """Ended continuations leave; sentences that can no longer improve leave altogether; the others' rows are
        taken by parent."""
        of = beam.sentence[parent]
        scores = total / length_divisor(self.length_penalty, beam.steps)
        ends = token == self.decoder.eos_id
        cut = ~ends & (beam.steps >= self.limits[of])
        for i in np.flatnonzero(ends | cut):
            self._ended[of[i]].append(_Ended(beam.steps, int(i), float(total[i]), float(scores[i]), bool(ends[i])))
        self._room -= np.bincount(of[ends | cut], minlength=len(self._room))
        going = np.flatnonzero(~(ends | cut))
        going = going[~self._hopeless(of[going], total[going])[of[going]]]
        taken = _take(beam, parent[going])
        taken.tokens, taken.sums, taken.place = token[going], total[going], going
        return taken

    def _hopeless(self, of: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Sentences whose n-th best finished hypothesis beats whatever a live one can still become.

        Log-probabilities only fall, so a live hypothesis can at best keep its sum up to the maximum length.
        """
        hopeless = np.zeros(len(self.limits), bool)
        bound = np.full(len(self.limits), -np.inf)
        np.maximum.at(bound, of, total / length_divisor(self.length_penalty, self.limits[of]))
        for n in np.unique(of):
            finished = sorted((e.score for e in self._ended[n] if e.finished), reverse=True)
            hopeless[n] = len(finished) >= self.n_best and finished[self.n_best - 1] >= bound[n]
        return hopeless

    def done(self, beam: Beam) -> bool:
        """Nothing is alive."""
        return len(beam.tokens) == 0

    def hypotheses(self) -> list[list[Hypothesis]]:
        """For each sentence its n best, finished ones first, then by score."""
        return [
            [
                Hypothesis(self._ids(e), e.log_prob, e.score, e.finished)
                for e in sorted(ended, key=lambda e: (not e.finished, -e.score))[: self.n_best]
            ]
            for ended in self._ended
        ]

    def _ids(self, ended: _Ended) -> list[int]:
        ids: list[int] = []
        place = ended.place
        for parents, tokens in reversed(self._history[: ended.step]):
            ids.append(int(tokens[place]))
            place = int(parents[place])
        ids.reverse()
        return ids[:-1] if ended.finished else ids


def _take(beam: Beam, rows: np.ndarray) -> Beam:
    states = {name: np.ascontiguousarray(v[rows]) for name, v in beam.states.items()}
    return Beam(states, beam.tokens[rows], beam.sums[rows], beam.sentence[rows], beam.place[rows], beam.steps)


def run(cell: BeamCell) -> list[list[Hypothesis]]:
    """Scan the cell until nothing is alive."""
    beam = cell.initial()
    while not cell.done(beam):
        beam = cell.step(beam)
    return cell.hypotheses()
