"""Beam search as a recurrent computation: a cell whose state is the decoder's state plus the live hypotheses of every
sentence.

One step runs the decoder, finds the best tokens of each row and the best continuations of each sentence, and continues
the rows by parent. A hypothesis that ends leaves the beam, which is then one narrower, and its row leaves the batch; a
sentence that ends makes room for the next one. Sentences are therefore at different steps. The cell uses five methods
of its decoder; the selector chooses the continuations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nmt.decode.hypotheses import Beam, Block, Decoder, Hypothesis, States, best_of
from nmt.decode.rules.options import SearchOptions
from nmt.decode.rules.score_rules import best_possible, final_scores, nth_best
from nmt.rnn.kernels.memory.arrays import distinct, identity, run_bounds
from nmt.rnn.kernels.search.search_rules import can_improve, ends, room_left


class BeamCell:
    """A search over sentences 0, 1, ... N - 1; see `Search`. limits [N]: the maximum length of each sentence's
    translations, including EOS. Sentences enter by `extend` and are returned by `ended`."""

    def __init__(
        self, options: SearchOptions, decoder: Decoder, src_ids: Sequence[Sequence[int]], limits: np.ndarray
    ) -> None:
        count, self.decoder, self.limits = len(limits), decoder, limits
        self.n_best, self.first_token = options.n_best, options.first_token
        self.length_penalty, self.word_reward = options.length_penalty, options.word_reward
        self.selector = options.selector(src_ids, decoder.eos_id)
        self._hypotheses: dict[int, list[Hypothesis]] = {}
        self._ended: list[int] = []
        self._sentence_ids = np.zeros(count, np.int64)  # ids in the decoder
        self.steps = np.zeros(count, np.int64)
        self.room = np.full(count, options.beam_size, np.int64)
        self._to_beat = np.full(count, -np.inf)  # the n-th best score of the finished hypotheses

    def extend(self, beam: Beam | None, sentence: np.ndarray, sentence_ids: np.ndarray, first: Beam) -> Beam:
        """Add sentences to the beam: `first` has one hypothesis per sentence, empty or of the same length for all."""
        self._sentence_ids[sentence] = sentence_ids
        self._hypotheses.update((n, []) for n in sentence.tolist())
        self.steps[sentence] = first.history.shape[1]
        for n in sentence[self.limits[sentence] <= 0].tolist():
            self._hypotheses[n].append(Hypothesis([], 0.0, 0.0, False))
        self._leave(sentence[self.limits[sentence] <= 0])
        first = self.selector.start(_keep(first, np.flatnonzero(self.limits[sentence] > 0)))
        return first if beam is None or not len(beam) else _join(beam, first)

    def step(self, beam: Beam) -> Beam:
        """Extend every live hypothesis by one token and keep the best."""
        sentence_ids = self._sentence_ids[beam.sentence]
        outputs, states = self.decoder.step(beam.tokens, beam.states, beam.parent, sentence_ids)
        bounds = run_bounds(beam.sentence)
        live = beam.sentence[bounds[:-1]]
        parent, tokens, sums, extra = self.selector.choose(self, beam, outputs, live, bounds)
        self.steps[live] += 1
        sentence = beam.sentence[parent]
        history = _append(beam.history[parent], self.steps[sentence], tokens)
        after = Beam(states, parent, tokens, sums, sentence, history, extra)
        return self._prune_beam(after, live)

    def _prune_beam(self, beam: Beam, live: np.ndarray) -> Beam:
        """Remove ended hypotheses from the beam, and sentences that can no longer improve."""
        of = beam.sentence
        out = ends(beam.tokens, self.decoder.eos_id, self.steps[of], self.limits[of])
        going = np.flatnonzero(~out)
        if len(going) < len(of):
            self._finish_hypotheses(beam, np.flatnonzero(out))
            of = of[going]
        bounds = run_bounds(of)
        alive = of[bounds[:-1]]
        hopeful = self._can_improve(beam, going, bounds, alive)
        if not hopeful.all():
            going = going[np.repeat(hopeful, np.diff(bounds))]
            alive = alive[hopeful]
        if len(alive) < len(live):
            self._leave(live[~np.isin(live, alive)])
        return _keep(beam, going)

    def _can_improve(self, beam: Beam, going: np.ndarray, bounds: np.ndarray, alive: np.ndarray) -> np.ndarray:
        """Return which sentences may still find a translation among their n best; sentence alive[n] has the rows
        going[bounds[n]] to going[bounds[n + 1]]."""
        best, to_beat = self.selector.best_sums(beam, going, bounds[:-1]), self._to_beat[alive]
        if (to_beat == -np.inf).all():
            return np.asarray(can_improve(best, to_beat))
        steps, limits = self.steps[alive], self.limits[alive]
        bound = best_possible(self.length_penalty, best, steps, limits, self.word_reward)
        return np.asarray(can_improve(bound, to_beat))

    def _finish_hypotheses(self, beam: Beam, rows: np.ndarray) -> None:
        """Turn the rows whose hypotheses have ended or were truncated into translations."""
        of = beam.sentence[rows]
        sums, steps = beam.sums[rows], self.steps[of]
        scores = final_scores(self.length_penalty, sums, steps, self.word_reward)
        log_probs = beam.extra.get("log_prob", beam.sums)
        for row, n, score in zip(rows.tolist(), of.tolist(), scores.tolist(), strict=True):
            finished = int(beam.tokens[row]) == self.decoder.eos_id
            ids = beam.history[row, : self.steps[n] - finished].tolist()
            self._hypotheses[n].append(Hypothesis(ids, float(log_probs[row]), score, finished))
            self.room[n] = room_left(self.room[n], 1)
            if finished and can_improve(score, self._to_beat[n]):
                found = [h.score for h in self._hypotheses[n] if h.finished]
                self._to_beat[n] = nth_best(found, self.n_best, self._to_beat[n])

    def _leave(self, sentence: np.ndarray) -> None:
        self.decoder.release(self._sentence_ids[sentence])
        self._ended += sentence.tolist()

    @property
    def working(self) -> int:
        """Return how many sentences have entered and are not returned yet."""
        return len(self._hypotheses)

    def ended(self) -> list[tuple[int, list[Hypothesis]]]:
        """Return the sentences ended since the last call with their n best: finished ones first, then by score."""
        ended, self._ended = self._ended, []
        found = [(n, self._hypotheses.pop(n)) for n in ended]
        return [(n, best_of(hypotheses, self.n_best)) for n, hypotheses in found]


def _append(history: np.ndarray, steps: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Write a token to each row of history [R, W] at steps[r] - 1; return the array, widened if necessary."""
    if steps.max(initial=0) > history.shape[1]:
        history = np.pad(history, ((0, 0), (0, max(16, history.shape[1]))))
    history[identity(len(history)), steps - 1] = tokens
    return history


def _keep(beam: Beam, rows: np.ndarray) -> Beam:
    """Return the given rows of a beam, in order, with the states that they continue."""
    beam = beam if len(rows) == len(beam) else beam.chosen(rows)
    used, parent = distinct(beam.parent)
    return replace(beam, states={name: v[used] for name, v in beam.states.items()}, parent=parent)


def _join(one: Beam, other: Beam) -> Beam:
    """Return the rows of two beams one after another, with the states that they continue."""
    states = {name: np.concatenate([v, other.states[name]]) for name, v in one.states.items()}
    parent = np.concatenate([one.parent, other.parent + len(next(iter(one.states.values()), ()))])
    width = max(one.history.shape[1], other.history.shape[1])
    history = np.concatenate([np.pad(b.history, ((0, 0), (0, width - b.history.shape[1]))) for b in (one, other)])
    pairs = ((one.tokens, other.tokens), (one.sums, other.sums), (one.sentence, other.sentence))
    tokens, sums, sentence = (np.concatenate(pair) for pair in pairs)
    extra = {name: np.concatenate([v, other.extra[name]]) for name, v in one.extra.items()}
    return Beam(states, parent, tokens, sums, sentence, history, extra)


@dataclass
class _Waiting:
    """Encoded sentences in order, one row each; the first `taken` of them have entered the beam."""

    sentence: np.ndarray
    sentence_ids: np.ndarray
    states: States
    tokens: np.ndarray
    taken: int = 0

    def take(self, count: int) -> tuple[np.ndarray, np.ndarray, Beam]:
        rows = slice(self.taken, self.taken + count)
        self.taken = min(len(self.sentence_ids), self.taken + count)
        sentence, tokens = self.sentence[rows], self.tokens[rows]
        states = {name: v[rows] for name, v in self.states.items()}
        history = np.zeros((len(tokens), 0), np.int32)
        first = Beam(states, np.arange(len(tokens)), tokens, np.zeros(len(tokens)), sentence, history)
        return sentence, self.sentence_ids[rows], first


def run(cell: BeamCell, blocks: Iterator[Block], size: int) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Step the cell until all sentences are translated; yield each sentence's hypotheses as soon as it has ended. A
    block is encoded as a whole, ahead of time; `size` sentences are processed at a time."""
    beam: Beam | None = None
    waiting: _Waiting | None = None
    while True:
        while cell.working < size:
            if waiting is None or waiting.taken == len(waiting.sentence_ids):
                block = next(blocks, None)
                if block is None:
                    break
                sentence_ids, states, tokens = cell.decoder.admit(block.src_ids, block.candidates)
                waiting = _Waiting(block.sentences, sentence_ids, states, tokens)
            sentence, sentence_ids, first = waiting.take(size - cell.working)
            beam = cell.extend(beam, sentence, sentence_ids, first)
            yield from cell.ended()
        if beam is None or not len(beam):
            return
        beam = cell.step(beam)
        yield from cell.ended()
