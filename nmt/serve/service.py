"""The service behind all protocols: translate texts within the limits, and sessions kept between keystrokes."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from threading import Lock

from nmt.documents.passage import Markup, Passage, Rules
from nmt.documents.tagged_text import read_passage
from nmt.errors import ConfigError, NMTError
from nmt.inference.translation import Translation
from nmt.inference.translator import TypingSession
from nmt.serve.box.box import Box, BoxJob
from nmt.serve.box.text_work import Answer, joined
from nmt.serve.engine import BULK, Admission, Ask
from nmt.serve.limits import Bodies, ClosedError, Files, FullError, Gate, SentenceCache, Shelf, Turns
from nmt.serve.log import Measures
from nmt.serve.models import Detector, Learning, Models, ServedModel, load_models
from nmt.serve.settings import RequestError, ServerSettings
from nmt.system.heap import keep_for_good

_PIECE = 256
"""Sentences in a piece of a long text; two pieces wait at a time, and take at most half of the queue."""
_ROOM_SECONDS = 0.05
"""Seconds between two looks of a file for room in the queue."""
_SMALL, _SMALL_MARKUP = 2_000, 200
"""Characters up to which plain texts, and texts with markup, are split in the event loop instead of the box."""
_FEW_MARKS = 40
"""Marks and placeholders up to which translations are also joined in the event loop."""
_AT_ONCE = 16
"""Sentences to look up in the cache, or to put into it, before other requests run: 2 ms with word alignments."""
_SECONDS, _CHARACTERS_A_SECOND = 1.0, 25_000
"""CPU time in the box for any text, and the characters that allow one second more."""


@dataclass(frozen=True)
class TextOptions:
    """The options of a request for its texts."""

    markup: Markup = "text"
    split: bool = True
    alternatives: int = 0
    glossary: tuple[tuple[str, str], ...] = ()
    ignored: frozenset[str] = frozenset()  # elements whose content is not translated


@dataclass(frozen=True)
class Cut:
    """Texts split into sentences. `rows`: for each sentence whether it needs details, and the text to translate;
    `passages`: what `join` needs, as bytes if the box made them; `characters`: the total length."""

    rows: list[tuple[bool, str]]
    passages: list[Passage] | bytes
    characters: int


_MOST_KEPT = 64
_AT_A_TIME = 2
"""Completions that run at a time; more wait, so that the search keeps the rest of the CPU."""


class Sessions:
    """The most recently used sessions, separate for each client."""

    def __init__(self) -> None:
        self._kept: Shelf[tuple[TypingSession, Lock]] = Shelf(_MOST_KEPT, _MOST_KEPT)
        self._lock = Lock()
        self._generations: set[int] | None = None
        self._turns = Turns(_AT_A_TIME, _AT_A_TIME - 1)
        self._threads = ThreadPoolExecutor(_AT_A_TIME, "nmt-serve-complete")

    def renew(self, generations: set[int]) -> None:
        """Drop all sessions, since the models have been replaced by those of these generations."""
        with self._lock:
            self._generations = generations
            self._kept.clear()

    async def complete(
        self, model: ServedModel, client: str, sentence: str, typed: str, count: int
    ) -> list[Translation]:
        """Return translations that begin with `typed`. Clients take turns."""
        async with self._turns.of(client):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._complete, model, client, sentence, typed, count)

    def _complete(self, model: ServedModel, client: str, sentence: str, typed: str, count: int) -> list[Translation]:
        name = f"{model.generation} {client} {sentence}"
        with self._lock:
            kept = self._kept.pop(name)
        if kept is None:
            kept = model.engine.translator.session(sentence), Lock()
        with self._lock:
            if self._generations is None or model.generation in self._generations:
                self._kept.put(client, name, kept)
        with kept[1]:
            return kept[0].complete(typed, n_best=count, beam_size=max(5, count))


@dataclass
class Service:
    """The models of a server with its limits, metrics and stores."""

    settings: ServerSettings
    models: Models
    gate: Gate
    detector: Detector
    files: Files = field(default_factory=Files)
    sessions: Sessions = field(default_factory=Sessions)
    box: Box = field(default_factory=Box)
    bodies: Bodies = field(init=False)
    measures: Measures = field(init=False)
    cache: SentenceCache = field(init=False)
    learning: Learning | None = None
    is_ending: bool = False

    def __post_init__(self) -> None:
        self.bodies = Bodies(self.settings.limits)
        self.cache = SentenceCache(self.settings.cache)
        self.measures = Measures(lambda: self.models.waiting, lambda: self.cache.size)
        self.measures.loaded(self.models.loaded)

    @classmethod
    def begin(cls, settings: ServerSettings) -> Service:
        """Load all models. Raises NMTError."""
        gate = Gate(settings.read_keys(), settings.limits)
        box = Box()
        box.start()  # its imports run while the models are loaded
        try:
            found = cls(settings, load_models(settings), gate, Detector(), box=box)
            if settings.learn:
                found.learning = Learning(found.models, settings, found.publish)
        except BaseException:
            box.close()
            raise
        keep_for_good()
        return found

    def publish(self, models: Models) -> None:
        """Serve other models from now on, from any thread. Requests under way end with the former ones, or with these
        where the former are closed already."""
        self.models = models
        self.sessions.renew({one.generation for one in models.all})
        self.measures.loaded(models.loaded)

    async def close(self) -> None:
        """Finish all accepted requests, then stop models and memories."""
        if self.learning is not None:
            await asyncio.to_thread(self.learning.close)
        await asyncio.to_thread(self.models.close)
        self.box.close()

    async def reload(self) -> None:
        """Reload models and keys while requests end with the old ones, which stay on an error. Raises NMTError."""
        keys = await asyncio.to_thread(self.settings.read_keys)
        if self.learning is not None:  # a memory belongs to the model that was loaded, and is open once
            self.gate.keys = keys
            raise ConfigError("--learn: models must stay those that were loaded, got a reload; start the server again")
        fresh = await asyncio.to_thread(load_models, self.settings)
        self.gate.keys = keys
        former = self.models
        self.publish(fresh)
        self.cache.clear()  # entries of former models would never be asked for
        # A request that has found an old model but not used it yet gets the new one, see `_current`.
        await asyncio.to_thread(former.close)
        del former
        keep_for_good()

    async def pair(
        self, source: str, target: str, texts: Sequence[str], name: str | None = None
    ) -> tuple[ServedModel, float]:
        """Return the model for a language, or auto, and the confidence in it, 0 to 1. Raises RequestError."""
        if source.lower() != "auto":
            return self.models.find(source, target, name), 1.0
        # At most 5,000 characters: a few milliseconds, which do not hold up other requests in a thread.
        text, targets = " ".join(texts)[:5000], self.models.targets
        among = [one for one, to in targets.items() if any(t.lower() == target.lower() for t in to)] or list(targets)
        code, confidence = await asyncio.to_thread(self.detector.best, text, among)
        return self.models.find(code, target, name), confidence

    async def translate(
        self, model: ServedModel, texts: Sequence[str], wanted: TextOptions, client: str
    ) -> list[list[Answer]]:
        """Return each text's translation with its confidence, then alternatives. Raises RequestError."""
        self.check(texts, wanted.alternatives)
        count = wanted.alternatives + 1
        async with self.in_time(self.settings.limits.seconds):
            cut = await self.cut(model, texts, wanted, client)
            found = await self.sentences(model, cut.rows, Ask(count, glossary=wanted.glossary), client)
            results = await self.join(cut, found, count, client)
        self.count(model, cut.rows, client, sum(map(len, texts)))
        return results

    async def cut(
        self, model: ServedModel, texts: Sequence[str], wanted: TextOptions, client: str, *, aside: bool = False
    ) -> Cut:
        """Split texts into sentences: in the box, but short ones here, unless `aside`. Raises RequestError."""
        splitter, rules = model.splitter if wanted.split else None, Rules(model.source, model.target)
        characters = sum(map(len, texts))
        if not aside and characters <= (_SMALL if wanted.markup == "text" else _SMALL_MARKUP):
            passages = [read_passage(text, wanted.markup, splitter, wanted.ignored, rules) for text in texts]
            sentences = [one for passage in passages for one in passage.sentences]
            return Cut([(one.needs_detail, one.asked) for one in sentences], passages, characters)
        language = None if splitter is None else model.source
        args = (texts, wanted.markup, language, wanted.ignored, rules)
        pieces = await self.box.run(BoxJob("cut", args, "q", _SECONDS + characters / _CHARACTERS_A_SECOND), client)
        rows = [(needed, asked) for piece in pieces if isinstance(piece, list) for needed, asked in piece]
        return Cut(rows, b"".join(piece for piece in pieces if isinstance(piece, bytes)), characters)

    async def join(self, cut: Cut, found: list[list[Translation]], count: int, client: str) -> list[list[Answer]]:
        """Return for each text its translations of each rank; see `text_work.joined`. Raises RequestError."""
        if isinstance(cut.passages, list):
            sentences = [one for passage in cut.passages for one in passage.sentences if one.needs_detail]
            if sum(len(one.marks) + len(one.placeholders) for one in sentences) * count <= _FEW_MARKS:
                return joined(cut.passages, found, count)
        packed = pickle.dumps(cut.passages) if isinstance(cut.passages, list) else cut.passages
        seconds = _SECONDS + cut.characters * count / _CHARACTERS_A_SECOND
        return await self.box.run(BoxJob("join", (packed, found, count), "q", seconds), client)

    async def sentences(
        self, model: ServedModel, rows: Sequence[tuple[bool, str]], ask: Ask, client: str
    ) -> list[list[Translation]]:
        """Return translations for the rows of a `Cut`, some with details. Raises RequestError."""
        found: list[list[Translation]] = [[]] * len(rows)
        admission = Admission()
        for details in (False, True):
            if chosen := [n for n, (needed, _) in enumerate(rows) if needed == details]:
                texts = [rows[n][1] for n in chosen]
                answers = await self.in_pieces(model, texts, replace(ask, details=details), client, admission)
                for n, translations in zip(chosen, answers, strict=True):
                    found[n] = translations
        return found

    def count(self, model: ServedModel, sentences: Sequence[object], client: str, characters: int) -> None:
        """Record what a client has had translated."""
        self.measures.translated(model.name, len(sentences), characters)
        self.gate.used(client, characters)

    @asynccontextmanager
    async def in_time(self, limit: float) -> AsyncIterator[None]:
        """Limit the block to `limit` seconds, 0 for no limit. Raises RequestError: 504."""
        try:
            async with asyncio.timeout(limit or None):
                yield
        except TimeoutError:
            raise RequestError(504, f"request: must be done in {limit:g} s, got a longer one; send less text") from None

    async def in_pieces(
        self,
        model: ServedModel,
        sentences: list[str],
        ask: Ask,
        client: str,
        admission: Admission | None = None,
        take: Callable[[int, list[list[Translation]]], Awaitable[None]] | None = None,
    ) -> list[list[Translation]]:
        """Return a model's translations. A long text is sent in pieces, two at a time, which takes little memory and
        lets others in. `admission`: that of the request, if it has more sentences; `take`: called with each piece,
        which is then not kept, and its offset. Raises RequestError."""
        is_bulk, admission = len(sentences) >= BULK, admission or Admission()
        size = max(1, min(_PIECE, self.settings.limits.waiting // 4))
        if len(sentences) <= size and take is None:
            return await self._translate(model, sentences, ask, client, admission, is_bulk)
        turn = asyncio.Semaphore(2)

        async def translate(at: int) -> list[list[Translation]]:
            async with turn:
                found = await self._translate(model, sentences[at : at + size], ask, client, admission, is_bulk)
                if take is None:
                    return found
                await take(at, found)
                return []

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(translate(at)) for at in range(0, len(sentences), size)]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [one for task in tasks for one in task.result()]

    async def _translate(
        self, model: ServedModel, sentences: list[str], ask: Ask, client: str, admission: Admission, is_bulk: bool
    ) -> list[list[Translation]]:
        """Return translations of the current model, from the cache or its engine. Raises RequestError."""
        try:
            while True:
                current = self._current(model)
                options = current.generation, ask.n_best, ask.details, ask.glossary_digest
                found: dict[str, list[Translation]] = {}
                missing: list[str] = []
                for one in dict.fromkeys(sentences):
                    if (known := self.cache.get(options, one)) is None:
                        missing.append(one)
                        continue
                    found[one] = known
                    await _pause(len(found))
                try:
                    if missing:
                        answers = await current.engine.translate(
                            missing, ask, client, admission=admission, is_bulk=is_bulk
                        )
                        for number, (one, translations) in enumerate(zip(missing, answers, strict=True), start=1):
                            found[one] = translations
                            self.cache.put(options, one, translations)
                            await _pause(number)
                    self.measures.looked_up(len(sentences), len(sentences) - len(missing))
                    return [found[one] for one in sentences]
                except ClosedError:
                    if current is self._current(model):  # the models were not reloaded
                        raise RequestError(503, "server: is ending; try again later", 5) from None
                except FullError:
                    if not admission.waits:
                        raise
                    await asyncio.sleep(_ROOM_SECONDS)
        except FullError:
            raise RequestError(503, "server: has more to translate than may wait; try again later", 5) from None
        except MemoryError:
            raise RequestError(503, "server: has too little memory for this request; send less text", 60) from None
        except NMTError as error:
            raise RequestError(400, str(error)) from None

    def _current(self, model: ServedModel) -> ServedModel:
        """Return the current model, which differs from `model` if the models were reloaded since."""
        if model in self.models.all:
            return model
        names = {one.name for one in self.models.all if (one.source, one.target) == (model.source, model.target)}
        return self.models.find(model.source, model.target, model.name if model.name in names else None)

    def check(self, texts: Sequence[str], alternatives: int = 0) -> None:
        """Raise RequestError for texts beyond the limits or with invalid Unicode."""
        limits, characters = self.settings.limits, sum(map(len, texts))
        for message, most, got in (
            ("q: must have at most {:,} characters, got {:,}; send less at a time", limits.characters, characters),
            ("q: must be at most {:,} texts, got {:,}; send fewer at a time", limits.texts, len(texts)),
        ):
            if most and got > most:
                raise RequestError(400, message.format(most, got))
        if not 0 <= alternatives <= limits.alternatives:
            raise RequestError(400, f"alternatives: must be 0 to {limits.alternatives}, got {alternatives}")
        for text in texts:
            try:
                text.encode()
            except UnicodeEncodeError:
                raise RequestError(400, "q: must be Unicode text, got half a surrogate pair; send UTF-8") from None


async def _pause(number: int) -> None:
    """Let other requests run after every few sentences."""
    if number % _AT_ONCE == 0:
        await asyncio.sleep(0)
