"""What all protocols share: texts in, texts out, within the limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from nmt.documents import Passage, read_passage
from nmt.documents.passage import Markup, Sentence
from nmt.errors import NMTError
from nmt.inference.translation import Translation
from nmt.serve.detection import Detector
from nmt.serve.engine import BULK, Ask, Engine
from nmt.serve.errors import RequestError
from nmt.serve.fair_queue import ClosedError, FullError
from nmt.serve.files import Files
from nmt.serve.gate import Gate
from nmt.serve.measures import Measures
from nmt.serve.memory import keep_for_good
from nmt.serve.models import Models, ServedModel, load_models
from nmt.serve.settings import ServerSettings

_PIECE = 256
"""Sentences of a long text that wait at a time, twice."""
_FEW = 64
"""Sentences up to which the loop that answers everybody looks for placeholders itself."""
_AT_ONCE = 2_000
"""Characters from which texts are cut by a thread of their own: others go on meanwhile."""


@dataclass(frozen=True)
class Wanted:
    """What is asked of the texts of a request."""

    markup: Markup = "text"
    split: bool = True
    alternatives: int = 0
    glossary: tuple[tuple[str, str], ...] = ()
    ignored: frozenset[str] = frozenset()  # elements whose content stays as it is


@dataclass
class Service:
    """A server's models and what is counted of them."""

    settings: ServerSettings
    models: Models
    gate: Gate
    detector: Detector
    files: Files = field(default_factory=Files)
    measures: Measures = field(init=False)
    is_ending: bool = False

    def __post_init__(self) -> None:
        self.measures = Measures(lambda: self.models.waiting)
        self.measures.models.set(len(self.models.all))

    @classmethod
    def begin(cls, settings: ServerSettings) -> Service:
        """Load all models. Raises NMTError."""
        gate = Gate(settings.read_keys(), settings.limits)
        found = cls(settings, load_models(settings), gate, Detector())
        keep_for_good()
        return found

    async def reload(self) -> None:
        """Load all models and the keys anew; requests that have begun end with the former ones. Raises NMTError, and
        goes on with the former ones."""
        keys = await asyncio.to_thread(self.settings.read_keys)
        fresh = await asyncio.to_thread(load_models, self.settings)
        self.gate.renew(keys)
        former, self.models = self.models, fresh
        self.measures.models.set(len(fresh.all))
        # Whoever has found a former model and not asked yet asks the new one, see `_engine`.
        await asyncio.to_thread(former.close)
        del former
        keep_for_good()

    async def pair(
        self, source: str, target: str, texts: Sequence[str], name: str | None = None
    ) -> tuple[ServedModel, float]:
        """The model for texts in `source`, which may be auto, and how sure that language is, 0 to 1. Raises
        RequestError."""
        if source.lower() != "auto":
            return self.models.find(source, target, name), 1.0
        text, among = " ".join(texts)[:5000], self._sources_of(target)
        code, confidence = await asyncio.to_thread(self.detector.best, text, among)
        return self.models.find(code, target, name), confidence

    def _sources_of(self, target: str) -> list[str]:
        targets = self.models.targets
        found = [source for source, to in targets.items() if any(t.lower() == target.lower() for t in to)]
        return found or list(targets)

    async def translate(self, model: ServedModel, texts: Sequence[str], wanted: Wanted, client: str) -> list[list[str]]:
        """Of each text the translation, and with `alternatives` others, the best first. Raises RequestError."""
        self.check(texts, wanted.alternatives)
        splitter = model.splitter if wanted.split else None

        def read() -> list[Passage]:
            return [read_passage(text, wanted.markup, splitter, wanted.ignored) for text in texts]

        characters = sum(map(len, texts))
        passages = await asyncio.to_thread(read) if characters > _AT_ONCE else read()
        sentences = [one for passage in passages for one in passage.sentences]
        count = wanted.alternatives + 1
        async with self._in_time():
            found = await self.sentences(model, sentences, Ask(count, glossary=wanted.glossary), client)
        self.count(model, sentences, client, characters)
        return await self._joined(passages, found, count, characters)

    async def _joined(
        self, passages: list[Passage], found: list[list[Translation]], count: int, characters: int
    ) -> list[list[str]]:
        """Passages in the other language: of each rank those of all sentences, their best where they have no such."""

        def join() -> list[list[str]]:
            results, at = [], 0
            for passage in passages:
                own = found[at : at + len(passage.sentences)]
                at += len(own)
                most = min(count, max(map(len, own), default=1))
                texts = [passage.joined([ts[rank] if rank < len(ts) else ts[0] for ts in own]) for rank in range(most)]
                results.append(list(dict.fromkeys(texts)))
            return results

        return await asyncio.to_thread(join) if characters > _AT_ONCE else join()

    async def ask(self, model: ServedModel, sentences: list[str], ask: Ask, client: str) -> list[list[Translation]]:
        """What a model finds. Raises RequestError: 503 where too many wait, 504 where it takes too long."""
        async with self._in_time():
            return await self._in_pieces(model, sentences, ask, client, None)

    async def sentences(
        self,
        model: ServedModel,
        sentences: Sequence[Sentence],
        ask: Ask,
        client: str,
        note: Callable[[int], None] | None = None,
    ) -> list[list[Translation]]:
        """What a model finds for sentences of passages, however long it takes; details for those that need them. note:
        told how many more are done. Raises RequestError."""

        def look() -> list[tuple[bool, str]]:
            return [(one.needs_detail, one.asked) for one in sentences]

        asked = await asyncio.to_thread(look) if len(sentences) > _FEW else look()
        found: list[list[Translation]] = [[]] * len(sentences)
        for details in (False, True):
            chosen = [n for n, (needed, _) in enumerate(asked) if needed == details]
            if chosen:
                texts = [asked[n][1] for n in chosen]
                answers = await self._in_pieces(model, texts, replace(ask, details=details), client, note)
                for n, translations in zip(chosen, answers, strict=True):
                    found[n] = translations
        return found

    def count(self, model: ServedModel, sentences: Sequence[object], client: str, characters: int) -> None:
        """Note what a client has had translated."""
        self.measures.translated(model.name, len(sentences), characters)
        self.gate.used(client, characters)

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        """Within the time that a request has. Raises RequestError: 504."""
        limit = self.settings.limits.seconds
        try:
            async with asyncio.timeout(limit or None):
                yield
        except TimeoutError:
            raise RequestError(504, f"request: must be done in {limit:g} s, got a longer one; send less text") from None

    async def _in_pieces(
        self, model: ServedModel, sentences: list[str], ask: Ask, client: str, note: Callable[[int], None] | None
    ) -> list[list[Translation]]:
        """What a model finds; of a long text two pieces wait at a time, so that little is kept of what nobody may want
        any more, and nobody else waits until all of it is cut into subwords. Raises RequestError."""
        is_bulk = len(sentences) >= BULK
        if len(sentences) <= _PIECE:
            found = await self._translate(model, sentences, ask, client, accepted=False, is_bulk=is_bulk)
            if note is not None:
                note(len(sentences))
            return found
        turn = asyncio.Semaphore(2)

        async def translate(at: int) -> list[list[Translation]]:
            async with turn:
                piece = sentences[at : at + _PIECE]
                found = await self._translate(model, piece, ask, client, accepted=at > 0, is_bulk=is_bulk)
                if note is not None:
                    note(len(piece))
                return found

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(translate(at)) for at in range(0, len(sentences), _PIECE)]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [one for task in tasks for one in task.result()]

    async def _translate(
        self, model: ServedModel, sentences: list[str], ask: Ask, client: str, **more: bool
    ) -> list[list[Translation]]:
        """What the model of today finds. Raises RequestError."""
        try:
            while True:
                engine = self._engine(model)
                try:
                    return await engine.translate(sentences, ask, client, **more)
                except ClosedError:
                    if engine is self._engine(model):  # no other one has taken its place
                        raise RequestError(503, "server: is ending; try again later", 5) from None
        except FullError:
            raise RequestError(503, "server: has more to translate than may wait; try again later", 5) from None
        except MemoryError:
            raise RequestError(503, "server: has too little memory for this request; send less text", 60) from None
        except NMTError as error:
            raise RequestError(400, str(error)) from None

    def _engine(self, model: ServedModel) -> Engine:
        """That of the model of today: another one, where models were loaded anew since it was found."""
        if model in self.models.all:
            return model.engine
        names = {one.name for one in self.models.all if (one.source, one.target) == (model.source, model.target)}
        return self.models.find(model.source, model.target, model.name if model.name in names else None).engine

    def check(self, texts: Sequence[str], alternatives: int = 0) -> None:
        """Raise RequestError for what is beyond the limits, or no text."""
        limits = self.settings.limits
        checks: list[tuple[str, int, int]] = [
            (
                "q: must have at most {} characters, got {:,}; send less at a time",
                limits.characters,
                sum(map(len, texts)),
            ),
            ("q: must be at most {} texts, got {:,}; send fewer at a time", limits.texts, len(texts)),
        ]
        for message, most, got in checks:
            if most and got > most:
                raise RequestError(400, message.format(f"{most:,}", got))
        if not 0 <= alternatives <= limits.alternatives:
            raise RequestError(400, f"alternatives: must be 0 to {limits.alternatives}, got {alternatives}")
        for text in texts:
            try:
                text.encode()
            except UnicodeEncodeError:
                raise RequestError(400, "q: must be Unicode text, got half a surrogate pair; send UTF-8") from None
