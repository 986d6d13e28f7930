"""Interactive completion: the decoder states after the typed tokens are kept, and only new tokens are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from nmt.decode.beam import BeamCell
from nmt.decode.hypotheses import Beam, Decoder, Hypothesis, SearchModel, States
from nmt.decode.rules.options import SearchOptions, Settings
from nmt.decode.search import check_session, limits_of
from nmt.errors import DeviceError

_PLACES = 32
"""The maximum number of kept positions; see `Session`."""


@dataclass
class _Place:
    """A position between typed tokens: the decoder states there, and the token to read next."""

    states: States
    token: np.ndarray


class Session:
    """One source sentence, encoded once, whose translation is completed again and again.

    If a prefix extends the previous one, only the new tokens are read. If something was deleted, reading starts at the
    last kept position before the change. Memory does not grow with the text: at most 32 positions are kept; when
    another one is added, every second one is dropped. With a shortlist, the typed tokens become candidates; a token
    that was not one changes all probabilities, so then everything is read again.
    """

    def __init__(self, model: SearchModel, src_ids: Sequence[int], threads: int = 1) -> None:
        """Encode `src_ids` (without EOS). Raises DeviceError for a model on a GPU."""
        if not model.device.is_cpu:
            raise DeviceError(
                f"session: must run on the processor, got the device {model.device.name}; use device cpu, every model "
                "runs there"
            )
        self.src_ids = list(src_ids)
        self.tokens_read = 0  # how many typed tokens the decoder has read so far
        self._model, self._threads = model, threads
        self._begin(None)

    def _begin(self, candidates: list[int] | None) -> None:
        """Encode the sentence, with these candidates or none, and forget what was typed."""
        self._candidates = candidates
        self._decoder: Decoder = self._model.search_decoder(self._threads, len(self.src_ids) + 1)
        narrow = None if candidates is None else [np.array(candidates, np.int32)]
        self._sentence_ids, states, token = self._decoder.admit([self.src_ids], narrow)
        self._typed: list[int] = []
        self._log_probs: list[np.floating] = []  # of the typed tokens
        self._places: dict[int, _Place] = {0: _Place(states, token)}
        self._gap = 1  # places are kept at multiples of it

    def complete(
        self, prefix: Sequence[int] = (), *, options: SearchOptions | None = None, **settings: Unpack[Settings]
    ) -> list[Hypothesis]:
        """Return the n best translations that begin with the tokens `prefix`; their ids include it. The result is the
        same as that of `search` with `SearchOptions(prefixes=[prefix])`, with identical results. Options are those of a
        single sentence, and `settings` replace theirs. Raises ConfigError for options that a session cannot have."""
        options = SearchOptions.of(options, settings)
        check_session(options)
        cell, beam = self._begin_search(prefix, options)
        while not (ended := cell.ended()):
            beam = cell.step(beam)
        return [replace(one, ids=self._model.written(one.ids)) for one in ended[0][1]]

    def _begin_search(self, prefix: Sequence[int], options: SearchOptions) -> tuple[BeamCell, Beam]:
        """Read a prefix; return a search, and its beam of one hypothesis: the prefix."""
        candidates = None
        if options.shortlist is not None:
            candidates = replace(options, prefixes=[prefix]).candidates(0, self.src_ids).tolist()
        if candidates != self._candidates:
            self._begin(candidates)
        place = self._read(list(prefix))
        limits = limits_of(self._model, [self.src_ids], options) + len(prefix)
        cell = BeamCell(options, _KeptDecoder(self._decoder), [self.src_ids], limits)
        zero, history = np.zeros(1, np.int64), np.array(prefix, np.int32)[None]
        beam = cell.extend(
            None, zero, self._sentence_ids, Beam(place.states, zero, place.token, np.zeros(1), zero, history)
        )
        for token, log_prob in zip(prefix, self._log_probs, strict=True):
            beam.sums += cell.selector.follow_given(beam.extra, token, log_prob)
            if "log_prob" in beam.extra:
                beam.extra["log_prob"] += log_prob
        return cell, beam

    def _read(self, prefix: list[int]) -> _Place:
        """Return the position after a prefix; the decoder reads the tokens after the last kept position."""
        same = next((n for n, (a, b) in enumerate(zip(prefix, self._typed, strict=False)) if a != b), None)
        same = min(len(prefix), len(self._typed)) if same is None else same
        self._places = {at: place for at, place in self._places.items() if at <= same}
        self._typed = prefix  # the kept positions belong to this prefix, even if reading is interrupted
        start = max(self._places)
        place, self._log_probs = self._places[start], self._log_probs[:start]
        for at, token in enumerate(prefix[start:], start=start + 1):
            outputs, states = self._decoder.step(place.token, place.states, np.zeros(1, np.int64), self._sentence_ids)
            self._log_probs.append(self._decoder.log_probs(outputs)[0, token])
            kept = {name: array.copy() for name, array in states.items()}
            place = _Place(kept, np.array([token], np.int32))
            self.tokens_read += 1
            if at % self._gap == 0 or at == len(prefix):
                self._keep(at, place, len(prefix))
        return place

    def _keep(self, at: int, place: _Place, last: int) -> None:
        """Store a position; if there are too many, drop every second one except `last`."""
        self._places[at] = place
        while len(self._places) > _PLACES:
            self._gap *= 2
            self._places = {n: p for n, p in self._places.items() if n % self._gap == 0 or n == last}


class _KeptDecoder:
    """A decoder that keeps its sentence when a search over it has ended."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder, self.eos_id = decoder, decoder.eos_id
        self.admit, self.step, self.close = decoder.admit, decoder.step, decoder.close
        self.best_tokens, self.log_probs = decoder.best_tokens, decoder.log_probs

    def release(self, sentence_ids: np.ndarray) -> None:
        """Do nothing: the session keeps the sentence."""
