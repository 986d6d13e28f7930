"""Run one model for many callers, whose sentences share a search that never ends. Requests that it cannot serve
(several translations, details, glossaries, no compiled search) go to one more thread, in small batches."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from threading import Lock, Thread

from nmt.decode import Hypothesis, LiveSearch, SearchPath, search_plan
from nmt.decode.live_search import Found
from nmt.errors import NMTError
from nmt.inference import translation
from nmt.inference.pipeline import learnt_for, phrases_for, search_model, source_ids, translations_of, with_details
from nmt.inference.translator import Translator
from nmt.serve.limits import FairQueue

_logger = logging.getLogger("nmt.serve")

BULK = 16
"""Number of sentences from which a request counts as a long text, which gives way to others."""
_SIDE_BATCH = 16
"""Sentences in a batch of the side thread; small, so that no request waits long."""
_SIDE_BULK = 4
"""Sentences of long texts in such a batch while others wait."""


@dataclass(frozen=True)
class Ask:
    """Options of a request for each of its sentences. `glossary`: pairs of phrases."""

    n_best: int = 1
    details: bool = False
    glossary: tuple[tuple[str, str], ...] = ()

    @property
    def is_plain(self) -> bool:
        """Return whether the live search can answer it; details can be computed from its result."""
        return self.n_best == 1 and not self.glossary

    @property
    def glossary_digest(self) -> bytes:
        """Return a fingerprint of the glossary, for keys that do not keep it."""
        return hashlib.sha256(repr(self.glossary).encode()).digest() if self.glossary else b""


@dataclass
class Admission:
    """Whether the request was admitted to the queue. Only its first sentences are checked against the queue's limit, so
    that nothing that has begun is refused. `waits`: whether it waits for room instead of being refused."""

    is_in: bool = False
    waits: bool = False


class _Outbox:
    """Finished requests on their way to the event loop that waits for them. The loop is woken when all that have
    ended together are there: each wake-up is a system call, and lets the loop take the interpreter from a search."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._done: deque[tuple[_Job, BaseException | None]] = deque()
        self._is_woken = False

    def put(self, job: _Job, error: BaseException | None) -> None:
        """Add a finished request, for the next `wake`. May be called from any thread."""
        self._done.append((job, error))

    def wake(self) -> None:
        """Wake the loop, unless it has been woken and has not emptied the outbox yet. May be called from any thread."""
        # Two threads may both see False here: the loop is then woken twice, and finds nothing the second time.
        if not self._is_woken:
            self._is_woken = True
            try:
                self.loop.call_soon_threadsafe(self._empty)
            except RuntimeError:
                pass  # the loop is closed, so no caller waits

    def _empty(self) -> None:
        self._is_woken = False  # cleared first, so that a later request wakes the loop again
        while self._done:
            job, error = self._done.popleft()
            if not job.future.done():
                job.future.set_exception(error) if error is not None else job.future.set_result(None)


@dataclass
class _Job:
    """The sentences of one request, and the future on which its caller waits."""

    ask: Ask
    is_bulk: bool
    outbox: _Outbox
    future: asyncio.Future[None]
    found: list[list[translation.Translation]]
    missing: int
    gone: bool = False
    lock: Lock = field(default_factory=Lock)

    def answer(self, index: int, translations: list[translation.Translation]) -> bool:
        """Store the result of one sentence. Return whether it was the last one: the request is in its outbox then."""
        with self.lock:
            self.found[index] = translations
            self.missing -= 1
            done = self.missing == 0
        if done:
            self.outbox.put(self, None)
        return done

    def fail(self, error: BaseException) -> None:
        """Fail the whole request with an error."""
        self.gone = True
        self.outbox.put(self, error)
        self.outbox.wake()


@dataclass
class _Sentence:
    """A sentence of a job, as a ticket. `terms_in`: the text that contains its glossary's phrases."""

    job: _Job
    index: int
    text: str
    src_ids: list[int]
    is_cut: bool
    terms_in: str
    hypotheses: list[Hypothesis] | None = None  # set if only the details are missing

    @property
    def gone(self) -> bool:
        """Return whether its request has been cancelled or has failed."""
        return self.job.gone

    @property
    def is_bulk(self) -> bool:
        """Return whether it belongs to a long text."""
        return self.job.is_bulk

    def failed(self, error: BaseException) -> None:
        """Take an error of the live search, which calls this."""
        self.job.fail(error)


def _answer(sentences: Sequence[_Sentence], answers: Sequence[list[translation.Translation]]) -> None:
    """Store the results of sentences, and wake each event loop once for all requests that have all of theirs."""
    pairs = zip(sentences, answers, strict=True)
    for outbox in {one.job.outbox for one, translations in pairs if one.job.answer(one.index, translations)}:
        outbox.wake()


class Engine:
    """A translator that answers any number of requests at once, each with the result of `translate_nbest`.

    Args:
        translator: The model and its settings; its number of threads is ignored.
        threads: Number of parallel searches, one per core.
        most_waiting, shortlist: Most sentences that wait; whether the model's shortlist is used.
    """

    def __init__(
        self, translator: Translator, *, threads: int = 1, most_waiting: int = 20_000, shortlist: bool = False
    ) -> None:
        self.translator, self._shortlist = translator, shortlist
        self._chosen = translation.chosen_settings(translator.config.decoding, {})
        size = -(-self._chosen.batch_size // threads)
        self._queue: FairQueue[_Sentence] = FairQueue(most_waiting)
        self._side: FairQueue[_Sentence] = FairQueue(most_waiting)
        self._live = self._live_search(size)
        self._outbox: _Outbox | None = None  # of the event loop that called last
        # While searches keep every core busy, a team of threads would spend more time waiting than computing.
        self._single_threaded = copy.copy(translator)
        self._single_threaded.num_threads = 1
        self._threads = [Thread(target=self._run_side, name="nmt-serve-aside", daemon=True)]
        if self._live is not None:
            self._threads += [
                Thread(target=self._search, args=(self._live,), name=f"nmt-serve-{n}", daemon=True)
                for n in range(threads)
            ]
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError:  # the system gives no more; those that run end
            self._queue.close()
            self._side.close()
            raise

    @property
    def waiting(self) -> int:
        """Return how many sentences wait."""
        return len(self._queue) + len(self._side)

    async def translate(
        self,
        sentences: Sequence[str],
        ask: Ask | None = None,
        client: str = "",
        *,
        admission: Admission | None = None,
        is_bulk: bool = False,
        terms_in: Sequence[str] | None = None,
    ) -> list[list[translation.Translation]]:
        """Return the translations of each sentence, best first, at least one each. Cancelling it removes the sentences
        from the search. `admission`: the request's, if it has more sentences; `is_bulk`: they belong to a long text;
        `terms_in`: texts with the phrases of the glossary. Raises FullError, ClosedError, NMTError."""
        ask = ask or Ask()
        if self.translator.config.model.decoder.edit_actions:  # their scores are not those of the tokens that are shown
            ask = replace(ask, details=False)
        cut: set[int] = set()
        if sum(map(len, sentences)) > 2000:
            ids = await asyncio.to_thread(source_ids, self.translator, sentences, cut)
        else:
            ids = source_ids(self.translator, sentences, cut)
        there = [n for n, row in enumerate(ids) if row]
        loop = asyncio.get_running_loop()
        found = [[translation.Translation("", 0.0, 0.0)] for _ in sentences]
        if not there:
            return found
        if self._outbox is None or self._outbox.loop is not loop:
            self._outbox = _Outbox(loop)
        job = _Job(ask, is_bulk or len(there) >= BULK, self._outbox, loop.create_future(), found, len(there))
        live = self._live is not None and ask.is_plain
        terms_in = sentences if terms_in is None else terms_in
        tickets = [_Sentence(job, n, sentences[n], ids[n], n in cut, terms_in[n]) for n in there]
        admission = admission or Admission()
        queue = self._queue if live else self._side
        queue.put(client, tickets, accepted=admission.is_in)
        admission.is_in = True
        try:
            await job.future
        except BaseException:
            job.gone = True
            queue.drop(client)
            raise
        return job.found

    def close(self) -> None:
        """Finish all accepted requests, then stop the threads; blocks until then."""
        self._queue.close()
        for thread in self._threads[1:]:
            thread.join()
        self._side.close()
        self._threads[0].join()

    # ------------------------------------------------------------ the live search

    def _live_search(self, size: int) -> LiveSearch | None:
        """Return this model's live search, None if it cannot have one; the log says why."""
        model, name = search_model(self.translator), self.translator.config.name
        options = translation.search_options(self._chosen, 1, **learnt_for(self.translator, self._shortlist))
        plan = search_plan(model, options)
        compares = self._chosen.mbr != "none"
        is_live = plan.path is SearchPath.COMPILED and not compares
        how = "share one search" if is_live else "are translated in small batches"
        why = "mbr compares several translations" if compares else plan.why
        _logger.info("%s: requests %s, %s: %s", name, how, plan.path.value, why)
        if not is_live:
            return None
        return LiveSearch(model, options, size=size, longest=translation.MAX_SOURCE_SUBWORDS, deliver=self._live_found)

    def _search(self, live: LiveSearch) -> None:
        """Run the live search: the body of a search thread. An error fails the requests in progress, not later ones."""
        while True:
            try:
                live.run(self._queue)
                return
            except Exception:
                _logger.exception("a search has failed; its requests get an error")

    def _live_found(self, ended: Found) -> None:
        """Pass on the results of sentences that have left the live search."""
        wanted = [(one, hypotheses) for one, hypotheses in ended if not one.gone]
        plain = [(one, hypotheses) for one, hypotheses in wanted if not (one.job.ask.details and hypotheses)]
        try:
            texts = iter(translations_of(self.translator, [each for _, hypotheses in plain for each in hypotheses]))
            answers = [
                translation.with_warnings(list(islice(texts, len(hypotheses))), cut=one.is_cut)
                for one, hypotheses in plain
            ]
            _answer([one for one, _ in plain], answers)
            for one, hypotheses in wanted:
                if one.job.ask.details and hypotheses:
                    one.hypotheses = hypotheses
                    self._side.put("", [one], accepted=True)
        except BaseException as error:
            for one, _ in wanted:
                one.failed(error)
            raise

    # ------------------------------------------------------------ the side thread

    @property
    def _side_translator(self) -> Translator:
        """Return the translator of the side thread: with all threads while the live search is idle, else one."""
        return self._single_threaded if self._live is not None and self._live.is_at_work else self.translator

    def _run_side(self) -> None:
        """Answer what the live search cannot: the body of the side thread."""
        while (taken := self._side.take(_SIDE_BATCH - _SIDE_BULK, _SIDE_BULK, wait=True)) is not None:
            if all(one.is_bulk for one in taken):
                taken += self._side.take(0, _SIDE_BATCH - len(taken), wait=False) or []
            groups: dict[tuple[bool, Ask], list[_Sentence]] = {}
            for one in taken:
                groups.setdefault((one.hypotheses is not None, one.job.ask), []).append(one)
            for (is_found, ask), group in groups.items():
                try:
                    _answer(group, self._detailed(group) if is_found else self._searched(ask, group))
                except Exception as error:  # noqa: BLE001 - it is raised where the request was made
                    if not isinstance(error, NMTError):
                        _logger.exception("a request outside the shared search has failed")
                    for one in group:
                        one.job.fail(error)

    def _detailed(self, group: list[_Sentence]) -> list[list[translation.Translation]]:
        """Return the best translations that the live search found, with details."""
        found = [one.hypotheses or [] for one in group]
        texts, ids = [one.text for one in group], [one.src_ids for one in group]
        detailed = with_details(self._side_translator, texts, ids, found, None)
        return [translation.with_warnings(ts[:1], cut=one.is_cut) for one, ts in zip(group, detailed, strict=True)]

    def _searched(self, ask: Ask, group: list[_Sentence]) -> list[list[translation.Translation]]:
        """Return translations by the translator's own search."""
        texts = [one.text for one in group]
        constraints = None
        if ask.glossary:
            constraints = translation.Constraints(
                glossary=[phrases_for(self.translator, one.terms_in, ask.glossary) for one in group]
            )
        beam = max(self._chosen.beam_size, ask.n_best)
        return self._side_translator.translate_nbest(
            texts,
            n_best=ask.n_best,
            beam_size=beam,
            details=ask.details,
            constraints=constraints,
            shortlist=self._shortlist,
        )
