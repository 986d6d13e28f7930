"""The plain search for a service: it has no last sentence. Sentences come and go while it runs, and each has the
translation that `search` finds for it, bit for bit. Long texts have a loop of their own in each thread, and a share of
its time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Protocol

import numpy as np

from nmt.decode.hypotheses import Block, Hypothesis, SearchDecoder, SearchModel
from nmt.decode.plain_search import admit_block, translations
from nmt.decode.rules.options import SearchOptions
from nmt.decode.rules.penalty import LengthPenalty, length_divisor
from nmt.rnn.stepping.beam_settings import BeamSettings
from nmt.special_tokens import BOS_ID, EOS_ID

if TYPE_CHECKING:
    from nmt.rnn.stepping.compiled_beam import CompiledBeam

_STEPS = 4
"""Steps between two looks at who has come, ended or gone: a look costs a tenth of a millisecond or two."""
_TAKEN_A_STEP = 4
"""Of many sentences in work so many make one step more between two looks: those that come are then encoded more at a
time, which costs half as much each by eight as by two, and what a few steps are to each is little beside the steps that
so many take."""
_BULK_STEPS = 1
"""The same for long texts, whose steps are longer: a sentence that comes while they are in work waits for so many."""
_BULK_AT_ONCE = 8
"""Sentences of long texts that come in at one look."""

BULK_SHARE = 1 / 3
"""Of a thread's time, what long texts get while other sentences are in work: these then take half as long again."""

moment = time.thread_time
"""Seconds that the thread has computed: what it waits for a core is nobody's doing."""


class Asked(Protocol):
    """A sentence that somebody wants translated. is_bulk: of a long text, which gives way to others."""

    src_ids: list[int]
    """Without EOS, at least one."""
    expected: float | None
    """Tokens of its translation, where the word reward is bounded."""

    @property
    def gone(self) -> bool:
        """Return whether nobody wants it any more."""

    @property
    def is_bulk(self) -> bool:
        """Return whether it is of a long text."""

    def found(self, hypotheses: list[Hypothesis]) -> None:
        """Called once with its translations, best first; with those so far or none where it is gone."""

    def failed(self, error: BaseException) -> None:
        """Called once, instead: the search it was in has ended by an error."""


class Waiting(Protocol):
    """Where sentences come from, for any number of searches at once."""

    def take(self, most: int, most_bulk: int, *, wait: bool) -> Sequence[Asked] | None:
        """Up to so many sentences that wait, and up to so many of long texts; at least one if `wait` is true; None when
        no other will come."""


class LiveSearch:
    """The plain search of a model for sentences that come and go; each thread that calls `run` searches by itself. Not
    every model and not all options have one: see `obstacle`.
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
        self._model, self.size, self.n_best = model, size, n_best
        self._lanes: tuple[_Lane, ...] = ()  # of all threads that search
        self._lock = Lock()
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

    @cached_property
    def obstacle(self) -> str:
        """Why model and options do not allow the search as one computation, in words; empty where they do."""
        options = self._options
        if self._model.device.name != "cpu":
            return f"the model is on {self._model.device.name}"
        if options.coverage_penalty:
            return "there is a coverage penalty"
        if not options.selector([[0]], self._settings.beam_size, EOS_ID).is_plain:
            return "the settings change which words may come next, or how they count"
        decoder = self._model.search_decoder(1)
        has_loop = decoder.begin_loop(self._settings) is not None
        decoder.close()
        return "" if has_loop else "the decoder has no compiled search"

    @property
    def is_at_work(self) -> bool:
        """Return whether a sentence is in work in any thread."""
        return any(lane.taken for lane in self._lanes)

    def run(self, waiting: Waiting, threads: int = 1) -> None:
        """Search until `waiting` says that no other sentence will come and all have ended. Raises ValueError where
        there is an obstacle."""
        if self.obstacle:
            raise ValueError(f"LiveSearch: must be a plain search, got none, as {self.obstacle}; call search")
        single, bulk = _Lane(self, threads, is_bulk=False), _Lane(self, threads, is_bulk=True)
        turns = _Turns(single, bulk)
        with self._lock:
            self._lanes = (*self._lanes, single, bulk)
        try:
            more = True
            while more or single.taken or bulk.taken:
                rooms = single.room, turns.bulk_room
                if more and any(rooms):
                    came = waiting.take(*rooms, wait=not single.taken and not bulk.taken)
                    more = came is not None
                    turns.let_in(came or ())
                turns.search_on()
        except BaseException as error:
            for asked in single.everyone() + bulk.everyone():
                asked.failed(error)
            raise
        finally:
            with self._lock:
                self._lanes = tuple(lane for lane in self._lanes if lane not in (single, bulk))
        single.close()
        bulk.close()

    def _block(self, places: _Places, came: Sequence[Asked]) -> Block:
        """Return sentences that come in together, with their places; the longest first, as they are encoded."""
        came = sorted(came, key=lambda one: -len(one.src_ids))
        sources = [one.src_ids for one in came]
        limits = self._options.limits(sources, self._ratio, self._extra)
        numbers = [places.give(one, int(limit)) for one, limit in zip(came, limits, strict=True)]
        candidates = None
        if self._options.shortlist is not None:
            candidates = [self._options.shortlist.candidates(source, []) for source in sources]
        return Block(np.array(numbers), sources, candidates)

    def _begin(self, threads: int) -> tuple[SearchDecoder, CompiledBeam]:
        """Return a loop in which nobody is in work, and its decoder."""
        decoder = self._model.search_decoder(threads)
        loop = decoder.begin_loop(self._settings)
        if loop is None:
            raise ValueError("LiveSearch: must be a plain search, got a decoder without one; call search")
        return decoder, loop


class _Lane:
    """The sentences of one kind that are in work in a thread: all the others, or those of long texts. `last`: seconds
    of its last steps."""

    def __init__(self, search: LiveSearch, threads: int, *, is_bulk: bool) -> None:
        self._search, self._threads, self._is_bulk = search, threads, is_bulk
        self._steps = _BULK_STEPS if is_bulk else _STEPS
        # A place for each slot of the loop: ended sentences keep theirs until they are read.
        self._places = _Places(2 * search.size)
        self._loop: tuple[SearchDecoder, CompiledBeam] | None = None  # begun when the first sentence comes
        self.last = 0.0

    @property
    def taken(self) -> int:
        """Return how many are in work."""
        return self._places.taken

    @property
    def room(self) -> int:
        """Return how many may come in now."""
        if self._loop is not None and not self._loop[1].wants_more:
            return 0
        return max(0, self._search.size - self.taken)

    def everyone(self) -> list[Asked]:
        """Return all sentences in work."""
        return self._places.everyone()

    def let_in(self, came: Sequence[Asked]) -> float:
        """Let sentences come in; the seconds that it has taken."""
        if not came:
            return 0.0
        began = moment()
        if self._loop is None:
            self._loop = self._search._begin(self._threads)
        places, block = self._places, self._search._block(self._places, came)
        for place, hypotheses in admit_block(*self._loop, block, places.limits, places.expected):
            places.free(place).found(hypotheses)
        return moment() - began

    def search_on(self) -> float:
        """Return some steps, and what has ended in them; the seconds that it has taken."""
        if self._loop is None or not self.taken:
            return 0.0
        began = moment()
        (decoder, loop), places = self._loop, self._places
        loop.abandon(places.gone())
        loop.run(more=False, most_steps=max(self._steps, 0 if self._is_bulk else self.taken // _TAKEN_A_STEP))
        ended = loop.ended()
        decoder.release(np.array([one.sentence_id for one in ended], np.int64))
        for one in ended:
            places.free(one.sentence).found(translations(one.hypotheses, self._search.n_best))
        self.last = moment() - began
        return self.last

    def close(self) -> None:
        """Nobody is in work any more."""
        if self._loop is not None:
            self._loop[0].close()


class _Turns:
    """How two lanes share a thread: bulk has all the time while it is alone, and else BULK_SHARE of it.

    Two loops, not one with places for both: a step of many sentences takes several times as long as one of few, and
    whoever shares a loop with a long text waits for all of it at each step. (Deficit round robin, Shreedhar and
    Varghese 1996: what a lane may spend grows with what the other has spent.)
    """

    def __init__(self, single: _Lane, bulk: _Lane) -> None:
        self._single, self._bulk = single, bulk
        self._credit = 0.0  # seconds that bulk may spend beside the others, or has spent too much

    @property
    def bulk_room(self) -> int:
        """Return how many sentences of long texts may come in now: few at a time, as the others wait until they are
        encoded, and none before the last ones are paid for."""
        if self._single.taken and self._credit < 0:
            return 0
        return min(self._bulk.room, _BULK_AT_ONCE)

    def let_in(self, came: Sequence[Asked]) -> None:
        """Let sentences come into their lanes."""
        self._single.let_in([one for one in came if not one.is_bulk])
        self._credit -= self._bulk.let_in([one for one in came if one.is_bulk])

    def search_on(self) -> None:
        """The next steps of those whose turn it is."""
        if not self._single.taken:
            self._bulk.search_on()
            self._credit = 0.0
            return
        self._credit += BULK_SHARE / (1 - BULK_SHARE) * self._single.search_on()
        if self._bulk.taken and self._credit >= self._bulk.last:
            self._credit -= self._bulk.search_on()
        self._credit = min(self._credit, self._bulk.last)  # who was not there saves nothing up


class _Places:
    """Numbers of the sentences in work, used again and again, so that nothing grows with time. limits, expected [N]:
    most and expected tokens of each place's translations."""

    def __init__(self, count: int) -> None:
        self.limits, self.expected = np.zeros(count, np.int64), np.full(count, np.inf)
        self._free = list(range(count))
        self._asked: dict[int, Asked] = {}

    @property
    def taken(self) -> int:
        """Return how many sentences there are."""
        return len(self._asked)

    def give(self, asked: Asked, limit: int) -> int:
        """Return a place for a sentence."""
        place = self._free.pop()
        self._asked[place] = asked
        self.limits[place] = limit
        self.expected[place] = np.inf if asked.expected is None else asked.expected
        return place

    def free(self, place: int) -> Asked:
        """Return the sentence there has ended."""
        self._free.append(place)
        return self._asked.pop(place)

    def everyone(self) -> list[Asked]:
        """Return all sentences in work."""
        return list(self._asked.values())

    def gone(self) -> list[int]:
        """Return places of sentences that nobody wants any more."""
        return [place for place, asked in self._asked.items() if asked.gone]
