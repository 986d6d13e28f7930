"""The plain search for a service: sentences come and go while it runs, and each gets exactly the translation that
`search` finds for it. In each thread, long texts have a separate loop and a share of the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from nmt.decode.hypotheses import Block, Hypothesis, LoopDecoder, SearchModel
from nmt.decode.rules.options import SearchOptions, beam_settings
from nmt.decode.search import admit_block, translations

if TYPE_CHECKING:
    from nmt.rnn.stepping.compiled_beam import CompiledBeam

_STEPS = 4
"""Steps between two checks for new, ended and cancelled sentences: a check costs 0.1 to 0.2 milliseconds."""
_SENTENCES_PER_STEP = 4
"""With many sentences in progress, every this many allow one more step between two checks: new sentences are then
encoded in larger batches, which costs half as much per sentence for eight as for two, and the delay of a few steps is
small compared to the time that so many sentences take."""
_BULK_STEPS = 1
"""Steps between two checks for long texts, whose steps take longer: a new sentence waits for this many."""
_BULK_AT_ONCE = 8
"""Sentences of long texts admitted at one check."""

BULK_SHARE = 1 / 3
"""The share of a thread's time for long texts while there are other sentences, which then take half as long again."""

moment = time.thread_time
"""Return the seconds of CPU time of this thread: time spent waiting for a core is charged to no lane."""


class LiveRequest(Protocol):
    """A sentence to be translated. is_bulk: it belongs to a long text, which yields to other sentences."""

    src_ids: list[int]
    """The source ids without EOS, at least one."""

    @property
    def gone(self) -> bool:
        """Return whether the request was cancelled."""

    @property
    def is_bulk(self) -> bool:
        """Return whether the sentence belongs to a long text."""

    def failed(self, error: BaseException) -> None:
        """Deliver the error that ended its search; called once, instead of delivering its translations."""


class Waiting(Protocol):
    """A source of sentences for any number of concurrent searches."""

    def take(self, most: int, most_bulk: int, *, wait: bool) -> Sequence[LiveRequest] | None:
        """Return at most so many waiting sentences of each kind; with `wait`, one at least; None at the end."""


Found = list[tuple[Any, list[Hypothesis]]]
"""Sentences (`LiveRequest`) that ended together, each with its translations, best first: partial ones or none if the
request was cancelled."""


class LiveSearch:
    """The compiled search of a model, for sentences that come and go. Each thread that calls `run` searches
    independently. It finds what `search` does where `search_plan` says `COMPILED`. size: the number of sentences that a
    thread processes at a time; longest: the maximum length of a source in subwords; deliver: takes sentences as they
    end, each once."""

    def __init__(
        self, model: SearchModel, options: SearchOptions, *, size: int, longest: int, deliver: Callable[[Found], None]
    ) -> None:
        self._model, self._options, self.size, self.n_best = model, options, size, options.n_best
        self.deliver = deliver
        self._lanes: tuple[_Lane, ...] = ()  # of all searching threads
        self._lock = Lock()
        self._settings = beam_settings(options, size, int(options.limits([[0] * longest])[0]))

    @property
    def is_at_work(self) -> bool:
        """Return whether any thread is processing a sentence."""
        return any(lane.taken for lane in self._lanes)

    def run(self, waiting: Waiting, threads: int = 1) -> None:
        """Search until `waiting` has no more sentences and all have ended."""
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
                    turns.admit(came or ())
                turns.run_steps()
        except BaseException as error:
            for asked in [*single.places.asked.values(), *bulk.places.asked.values()]:
                asked.failed(error)
            raise
        finally:
            with self._lock:
                self._lanes = tuple(lane for lane in self._lanes if lane not in (single, bulk))
        single.close()
        bulk.close()

    def _block(self, places: _Places, came: Sequence[LiveRequest]) -> Block:
        """Return sentences that are admitted together as a block, with their places, the longest first."""
        came = sorted(came, key=lambda one: -len(one.src_ids))
        sources = [one.src_ids for one in came]
        limits = self._options.limits(sources)
        numbers = [places.give(one, int(limit)) for one, limit in zip(came, limits, strict=True)]
        candidates = None
        if self._options.shortlist is not None:
            candidates = [self._options.shortlist.candidates(source, []) for source in sources]
        return Block(np.array(numbers), sources, candidates)


class _Lane:
    """The sentences of one kind that a thread processes. `last`: the seconds that its last steps took."""

    def __init__(self, search: LiveSearch, threads: int, *, is_bulk: bool) -> None:
        self._search, self._threads, self._is_bulk = search, threads, is_bulk
        self._steps = _BULK_STEPS if is_bulk else _STEPS
        # One place per slot of the loop: ended sentences keep theirs until they are read.
        self.places = _Places(2 * search.size)
        self._loop: tuple[LoopDecoder, CompiledBeam] | None = None  # created for the first sentence
        self.last = 0.0

    @property
    def taken(self) -> int:
        """Return how many sentences are being processed."""
        return len(self.places.asked)

    @property
    def room(self) -> int:
        """Return how many sentences may be admitted now."""
        if self._loop is not None and not self._loop[1].wants_more:
            return 0
        return max(0, self._search.size - self.taken)

    def admit(self, came: Sequence[LiveRequest]) -> float:
        """Admit sentences; return the seconds that it took."""
        if not came:
            return 0.0
        began = moment()
        if self._loop is None:
            decoder = cast(LoopDecoder, self._search._model.search_decoder(self._threads))
            self._loop = decoder, decoder.begin_loop(self._search._settings)
        places, block = self.places, self._search._block(self.places, came)
        ended = admit_block(*self._loop, block, places.limits)
        self._deliver([(places.free(place), hypotheses) for place, hypotheses in ended])
        return moment() - began

    def run_steps(self) -> float:
        """Run some steps and deliver what has ended; return the seconds that it took."""
        if self._loop is None or not self.taken:
            return 0.0
        began = moment()
        (decoder, loop), places = self._loop, self.places
        loop.abandon([place for place, asked in places.asked.items() if asked.gone])
        loop.run(more=False, most_steps=max(self._steps, 0 if self._is_bulk else self.taken // _SENTENCES_PER_STEP))
        ended = loop.ended()
        decoder.release(np.array([one.sentence_id for one in ended], np.int64))
        n_best = self._search.n_best
        self._deliver([(places.free(one.sentence), translations(one.hypotheses, n_best)) for one in ended])
        self.last = moment() - began
        return self.last

    def _deliver(self, found: Found) -> None:
        if found:
            self._search.deliver(found)

    def close(self) -> None:
        """Close the decoder, if there is one."""
        if self._loop is not None:
            self._loop[0].close()


class _Turns:
    """A scheduler of the two lanes of a thread: bulk has all the time while it is alone, otherwise BULK_SHARE of it.

    There are two loops, not one with places for both: a step of many sentences takes several times as long as one of
    few, and a sentence that shared a loop with a long text would wait for all of it at each step. (Deficit round robin,
    Shreedhar and Varghese 1996: the time that a lane may spend grows with the time that the other has spent.)
    """

    def __init__(self, single: _Lane, bulk: _Lane) -> None:
        self._single, self._bulk = single, bulk
        self._credit = 0.0  # seconds that bulk may still spend; negative if it has overspent

    @property
    def bulk_room(self) -> int:
        """Return how many sentences of long texts may be admitted now: few at a time, because the others wait while
        they are encoded, and none before the last ones are paid for."""
        if self._single.taken and self._credit < 0:
            return 0
        return min(self._bulk.room, _BULK_AT_ONCE)

    def admit(self, came: Sequence[LiveRequest]) -> None:
        """Admit sentences to their lanes."""
        self._single.admit([one for one in came if not one.is_bulk])
        self._credit -= self._bulk.admit([one for one in came if one.is_bulk])

    def run_steps(self) -> None:
        """Run the next steps of the lane whose turn it is."""
        if not self._single.taken:
            self._bulk.run_steps()
            self._credit = 0.0
            return
        self._credit += BULK_SHARE / (1 - BULK_SHARE) * self._single.run_steps()
        if self._bulk.taken and self._credit >= self._bulk.last:
            self._credit -= self._bulk.run_steps()
        self._credit = min(self._credit, self._bulk.last)  # an idle lane saves nothing up


class _Places:
    """Reusable indices of the sentences being processed, `asked`, so that nothing grows with time. limits [N]: the
    maximum length of the translations at each place."""

    def __init__(self, count: int) -> None:
        self.limits = np.zeros(count, np.int64)
        self._free = list(range(count))
        self.asked: dict[int, LiveRequest] = {}

    def give(self, asked: LiveRequest, limit: int) -> int:
        """Assign a place to a sentence and return it."""
        place = self._free.pop()
        self.asked[place] = asked
        self.limits[place] = limit
        return place

    def free(self, place: int) -> LiveRequest:
        """Free a place and return its sentence."""
        self._free.append(place)
        return self.asked.pop(place)
