"""The plain search for a service: it has no last sentence. Sentences come and go while it runs, and each has the
translation that `search` finds for it, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from nmt.decode.hypotheses import Block, Hypothesis, SearchDecoder, SearchModel
from nmt.decode.options import SearchOptions
from nmt.decode.penalty import LengthPenalty, length_divisor
from nmt.decode.plain_search import admit_block, translations
from nmt.rnn.stepping.beam_settings import BeamSettings
from nmt.special_tokens import BOS_ID, EOS_ID

if TYPE_CHECKING:
    from nmt.rnn.stepping.compiled_beam import CompiledBeam

_STEPS = 4
"""Steps between two looks at who has come, ended or gone: a look costs a tenth of a millisecond or two."""


class Asked(Protocol):
    """A sentence that somebody wants translated."""

    src_ids: list[int]
    """Without EOS, at least one."""
    expected: float | None
    """Tokens of its translation, where the word reward is bounded."""

    @property
    def gone(self) -> bool:
        """Whether nobody wants it any more."""

    def found(self, hypotheses: list[Hypothesis]) -> None:
        """Called once with its translations, best first; with those so far or none where it is gone."""

    def failed(self, error: BaseException) -> None:
        """Called once, instead: the search it was in has ended by an error."""


class Waiting(Protocol):
    """Where sentences come from, for any number of searches at once."""

    def take(self, most: int, *, wait: bool) -> Sequence[Asked] | None:
        """Up to so many sentences that wait, at least one if `wait` is true; None when no other will come."""


class LiveSearch:
    """The plain search of a model for sentences that come and go; each thread that calls `run` searches by itself.

    Raises ValueError: The options leave no plain search, or the model has none (see `is_plain`).
    """

    def __init__(
        self,
        model: SearchModel,
        *,
        beam_size: int,
        length_penalty: LengthPenalty,
        n_best: int,
        max_length_ratio: float,
        max_length_extra: int,
        size: int,
        longest: int,
        options: SearchOptions | None = None,
    ) -> None:
        """Arguments as of `search`. size: sentences in work in a thread; longest: most subwords of a source."""
        self._model, self._size, self._n_best = model, size, n_best
        self._options = options or SearchOptions()
        self._ratio, self._extra = max_length_ratio, max_length_extra
        most = int(self._options.limits([[0] * longest], max_length_ratio, max_length_extra)[0])
        self._settings = BeamSettings(
            size=size,
            beam_size=beam_size,
            n_best=n_best,
            eos_id=EOS_ID,
            never=BOS_ID,
            first_token=self._options.first_token,
            divisors=length_divisor(length_penalty, np.arange(most + 2)),
            word_reward=self._options.word_reward,
        )
        if not self.is_plain:
            raise ValueError("LiveSearch: must be a plain search on the processor, got another; call search")

    @property
    def is_plain(self) -> bool:
        """Whether model and options allow the search as one computation: on the processor, no coverage penalty, no rule
        that changes the choice."""
        options = self._options
        plain = options.selector([[0]], self._settings.beam_size, EOS_ID).is_plain and not options.coverage_penalty
        if not plain or self._model.device.name != "cpu":
            return False
        decoder = self._model.search_decoder(1)
        is_plain = decoder.begin_loop(self._settings) is not None
        decoder.close()
        return is_plain

    def run(self, waiting: Waiting, threads: int = 1) -> None:
        """Search until `waiting` says that no other sentence will come and all have ended."""
        decoder = self._model.search_decoder(threads)
        loop = decoder.begin_loop(self._settings)
        if loop is None:
            raise ValueError("LiveSearch: must be a plain search, got a decoder without one; call search")
        places = _Places(
            2 * self._size
        )  # one for each slot of the loop: ended sentences keep theirs until they are read
        try:
            more = True
            while more or places.taken:
                if more and loop.wants_more and places.taken < self._size:
                    more = self._let_in(decoder, loop, places, waiting)
                if places.taken:
                    self._search_on(decoder, loop, places)
        except BaseException as error:
            for asked in places.everyone():
                asked.failed(error)
            raise
        decoder.close()

    def _let_in(self, decoder: SearchDecoder, loop: CompiledBeam, places: _Places, waiting: Waiting) -> bool:
        """Let those who wait come in, as far as there is room; whether others may come later."""
        came = waiting.take(self._size - places.taken, wait=not places.taken)
        if came:
            block = self._block(places, came)
            for place, hypotheses in admit_block(decoder, loop, block, places.limits, places.expected):
                places.free(place).found(hypotheses)
        return came is not None

    def _search_on(self, decoder: SearchDecoder, loop: CompiledBeam, places: _Places) -> None:
        """Some steps, and what has ended in them."""
        loop.abandon(places.gone())
        loop.run(more=False, most_steps=_STEPS)
        ended = loop.ended()
        decoder.release(np.array([one.sentence_id for one in ended], np.int64))
        for one in ended:
            places.free(one.sentence).found(translations(one.hypotheses, self._n_best))

    def _block(self, places: _Places, came: Sequence[Asked]) -> Block:
        """Sentences that come in together, with their places; the longest first, as they are encoded."""
        came = sorted(came, key=lambda one: -len(one.src_ids))
        sources = [one.src_ids for one in came]
        limits = self._options.limits(sources, self._ratio, self._extra)
        numbers = [places.give(one, int(limit)) for one, limit in zip(came, limits, strict=True)]
        candidates = None
        if self._options.shortlist is not None:
            candidates = [self._options.shortlist.candidates(source, []) for source in sources]
        return Block(np.array(numbers), sources, candidates)


class _Places:
    """Numbers of the sentences in work, used again and again, so that nothing grows with time. limits, expected [N]:
    most and expected tokens of each place's translations."""

    def __init__(self, count: int) -> None:
        self.limits, self.expected = np.zeros(count, np.int64), np.full(count, np.inf)
        self._free = list(range(count))
        self._asked: dict[int, Asked] = {}

    @property
    def taken(self) -> int:
        """How many sentences there are."""
        return len(self._asked)

    def give(self, asked: Asked, limit: int) -> int:
        """A place for a sentence."""
        place = self._free.pop()
        self._asked[place] = asked
        self.limits[place] = limit
        self.expected[place] = np.inf if asked.expected is None else asked.expected
        return place

    def free(self, place: int) -> Asked:
        """The sentence there has ended."""
        self._free.append(place)
        return self._asked.pop(place)

    def everyone(self) -> list[Asked]:
        """All sentences in work."""
        return list(self._asked.values())

    def gone(self) -> list[int]:
        """Places of sentences that nobody wants any more."""
        return [place for place, asked in self._asked.items() if asked.gone]
