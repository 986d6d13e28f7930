"""The models of a server: their language pairs and names, and how they are loaded, replaced, and learn from confirmed
pairs (`--learn`): after each pair the model of its project is replaced by one with another engine, as at a reload."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, partial
from importlib.util import find_spec
from itertools import count, product
from pathlib import Path
from threading import Lock, Thread
from typing import Any, TypeVar

from nmt.config.data_section import UNNAMED
from nmt.data.tokens.factors import feature_ids
from nmt.documents.passage import Splitter, sentence_splitter
from nmt.errors import ConfigError, NMTError
from nmt.inference.pipeline import check_no_factors
from nmt.inference.pivot import Pivot, base, through
from nmt.inference.translation import Translation
from nmt.inference.translator import Translator
from nmt.learning.learning_translator import LearningTranslator
from nmt.rnn.devices import resolved_dtype
from nmt.serve.engine import Admission, Ask, Engine
from nmt.serve.settings import RequestError, ServerSettings
from nmt.storage.model_folder import check_folder
from nmt.system.paths import is_file


class PivotEngine:
    """Answers as an `Engine` does: `last` translates the best translations of `first`. Their models close both."""

    waiting = 0

    def __init__(self, first: Engine | PivotEngine, last: Engine | PivotEngine) -> None:
        self._first, self._last = first, last

    def close(self) -> None:
        """Do nothing."""

    @cached_property
    def translator(self) -> Pivot:
        """Return both translators in a row, for completions."""
        return Pivot(self._first.translator, self._last.translator)

    async def translate(
        self,
        sentences: Sequence[str],
        ask: Ask | None = None,
        client: str = "",
        *,
        admission: Admission | None = None,
        is_bulk: bool = False,
        terms_in: Sequence[str] | None = None,
    ) -> list[list[Translation]]:
        """Translate; see `Engine.translate`. Glossary phrases are in the source, for the last model."""
        ask, terms_in = ask or Ask(), sentences if terms_in is None else terms_in
        found = await self._first.translate(
            sentences, Ask(details=ask.details), client, admission=admission, is_bulk=is_bulk
        )
        between = [translations[0] for translations in found]
        texts, admitted = [one.text for one in between], Admission(is_in=True)
        last = await self._last.translate(texts, ask, client, admission=admitted, is_bulk=is_bulk, terms_in=terms_in)
        return await asyncio.to_thread(through, between, last) if ask.details else through(between, last)


_logger = logging.getLogger("nmt.serve")

WARM_UP = "nmt-serve-warm-up"
"""The name of the threads that compile the code of less common requests."""
_FINGERPRINT = 12
"""Hexadecimal digits of a model's fingerprint that are shown."""

_GENERATIONS = count()


@dataclass(frozen=True)
class ServedModel:
    """A loaded model, or two in a row, `via` a third language. `scores`: those of its validation; `fingerprint`: the
    beginning of `ModelFacts.digest`; `generation`: unique to this load."""

    name: str
    source: str
    target: str
    engine: Engine | PivotEngine
    splitter: Splitter | None
    scores: dict[str, float]
    updates: int
    parameters: int
    compute_dtype: str
    via: str | None = None
    fingerprint: str = ""
    generation: int = field(default_factory=lambda: next(_GENERATIONS))

    @property
    def about(self) -> dict[str, object]:
        """Return the public description of the model."""
        return {
            "name": self.name,
            "source": self.source,
            "target": self.target,
            "validation": self.scores,
            "signature": bleu_signature() if "bleu" in self.scores else None,
            "updates": self.updates,
            "via": self.via,
            **self.identity,
        }

    @property
    def identity(self) -> dict[str, str | int]:
        """Return what tells this model from others of its name."""
        return {"fingerprint": self.fingerprint, "parameters": self.parameters, "compute_dtype": self.compute_dtype}


class Models:
    """The models; the first of a language pair is its default. With `pivots`, `all` has two of them for other pairs."""

    def __init__(self, models: Sequence[ServedModel], *, pivots: bool = True) -> None:
        self.loaded, self.pivots = tuple(models), pivots
        self.all = (*self.loaded, *(_pivots(self.loaded) if pivots else ()))

    @cached_property
    def targets(self) -> dict[str, list[str]]:
        """Return the target languages by source language."""
        found: dict[str, list[str]] = {}
        for one in self.all:
            targets = found.setdefault(one.source, [])
            if one.target not in targets:
                targets.append(one.target)
        return found

    @property
    def waiting(self) -> int:
        """Return how many sentences wait."""
        return sum(one.engine.waiting for one in self.loaded)

    def find(self, source: str, target: str, name: str | None = None) -> ServedModel:
        """Return the model of a language pair, of this name if given; regions may differ. Raises RequestError."""
        pairs = (source.lower(), target.lower()), (base(source), base(target))
        for wanted in pairs:
            for one in self.all:
                if (one.source.lower(), one.target.lower()) == wanted and (not name or one.name == name):
                    return one
        known = ", ".join(f"{one.source} to {one.target} ({one.name})" for one in self.all[:10])
        what = f"{source:.40} to {target:.40}" + (f" by {name:.80}" if name else "")
        raise RequestError(400, f"{what} is not supported; there are {known}")

    def close(self) -> None:
        """Finish all accepted requests, then stop the engines."""
        for one in self.loaded:
            one.engine.close()


def replaced(models: Models, base: str, name: str, engine: Engine) -> tuple[Engine | PivotEngine | None, Models]:
    """Return the engine that a model has had, and all models with another engine for it. A name that is new becomes a
    model like that named `base`, after all others, so that no language pair gets another default."""
    found = list(models.loaded)
    places = {one.name: place for place, one in enumerate(found)}
    new = replace(found[places[base]], name=name, engine=engine, generation=next(_GENERATIONS))
    if name not in places:
        return None, Models([*found, new], pivots=models.pivots)
    former = found[places[name]].engine
    found[places[name]] = new
    return former, Models(found, pivots=models.pivots)


def _pivots(models: Sequence[ServedModel]) -> Iterator[ServedModel]:
    """Yield two models in a row, the first in order, for each language pair that no model translates."""
    taken = {(base(one.source), base(one.target)) for one in models}
    for first, last in product(models, repeat=2):
        pair = base(first.source), base(last.target)
        if base(first.target) != base(last.source) or pair[0] == pair[1] or pair in taken:
            continue
        taken.add(pair)
        yield ServedModel(
            name=f"{first.name}+{last.name}",
            source=first.source,
            target=last.target,
            engine=PivotEngine(first.engine, last.engine),
            splitter=first.splitter,
            scores={},
            updates=0,
            parameters=first.parameters + last.parameters,
            compute_dtype=last.compute_dtype,
            via=last.source,
            fingerprint=f"{first.fingerprint}+{last.fingerprint}",
        )


@cache
def bleu_signature() -> str:
    """Return the sacrebleu signature of the validation BLEU (Post 2018, section 4)."""
    from nmt.evaluate.scores import score_translations

    return score_translations(["a"], ["a"], metrics=("bleu",))["bleu"].signature


def load_models(settings: ServerSettings) -> Models:
    """Load all models and translate a line with each, so that no request waits for code. Raises NMTError."""
    for path in settings.models:  # a wrong path is an error before work begins
        if not is_file(path):
            check_folder(path)
    count = len(settings.models)
    _logger.info("loading %s", "1 model" if count == 1 else f"{count} models")
    found: list[ServedModel] = []
    try:
        for path in settings.models:
            began = time.monotonic()
            found.append(_load(path, settings, {one.name for one in found}))
            fields = {"model": found[-1].name, **found[-1].identity, "path": str(path)}
            _logger.info("loaded %s in %.1f s", found[-1].name, time.monotonic() - began, extra={"fields": fields})
    except BaseException:
        Models(found, pivots=False).close()
        raise
    models = Models(found, pivots=settings.pivot)
    if pairs := [f"{one.source} to {one.target} by {one.name}" for one in models.all[len(found) :]]:
        _logger.info("through a third language: %s", ", ".join(pairs))
    return models


def _warm_up(translator: Translator) -> None:
    """Compile the code of less common requests, while others are answered."""
    try:
        translator.translate_nbest(["."], n_best=2, beam_size=5, details=True)
        translator.session(".").complete("")
    except NMTError:
        pass  # a request for it gets the error


def _load(path: Path, settings: ServerSettings, taken: set[str]) -> ServedModel:
    translator = Translator.load(
        path,
        threads=settings.threads,
        checkpoint=settings.checkpoint,
        compute_dtype=settings.compute_dtype,
        cells=settings.cells,
        share=False,
    )
    check_no_factors(translator, str(path))
    config = translator.config
    name = config.name
    if name in taken:
        name = next(f"{name}-{n}" for n in range(2, 10_000) if f"{name}-{n}" not in taken)
    if settings.shortlist and translator.shortlist is None:
        raise ConfigError(f"{path}: must have a shortlist for --shortlist, got none; run nmt-shortlist {path}")
    reads_words = bool(feature_ids(translator.src_subwords))  # a line is a word; in its features a point ends nothing
    (loaded,) = translator.loaded
    scores = loaded.scores
    translator.translate_nbest(["."])  # unlike `translate`, it logs no warning about this text
    Thread(target=_warm_up, args=(translator,), name=WARM_UP, daemon=True).start()
    engine = Engine(
        translator, threads=settings.threads, most_waiting=settings.limits.waiting, shortlist=settings.shortlist
    )
    return ServedModel(
        name=name,
        source=config.data.src.lang,
        target=config.data.tgt.lang,
        engine=engine,
        splitter=sentence_splitter(config.data.src.lang) if settings.split and not reads_words else None,
        scores={key: float(value) for key, value in scores.items() if key != "update" and value is not None},
        updates=int(scores["update"] or 0),
        parameters=loaded.parameters,
        compute_dtype=resolved_dtype(settings.compute_dtype or config.compute_dtype),
        fingerprint=loaded.digest[:_FINGERPRINT],
    )


class Detector:
    """A language detector, loaded on first use; one thread at a time runs it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._identifier: Any = None

    @property
    def is_there(self) -> bool:
        """Return whether the library is installed."""
        return find_spec("py3langid") is not None

    def ranked(self, text: str, among: Sequence[str]) -> list[tuple[str, float]]:
        """Return the languages `among` with their probabilities over all languages, most probable first. One that the
        detector does not know has 0: it comes first if its script is the text's, and no language of that script and of
        `among` is the most probable of all. Raises RequestError: 501 without the library."""
        if not self.is_there:
            raise RequestError(501, "source: must be a language, got auto and no py3langid to detect it; name one")
        with self._lock:
            if self._identifier is None:
                from py3langid.langid import MODEL_FILE, LanguageIdentifier

                self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
            scores = {code: float(score) for code, score in self._identifier.rank(text)}
        codes = {base(one): one for one in among}
        known = [(codes[code], score) for code, score in scores.items() if code in codes]
        unknown = [(one, 0.0) for code, one in codes.items() if code not in scores]
        script = _script_of(text) if unknown else ""
        first = [one for one in unknown if _is_written_in(one[0], script)]
        if known and next(iter(scores)) == base(known[0][0]) and _is_written_in(known[0][0], script):
            first = []
        return [*first, *known, *(one for one in unknown if one not in first)]

    def best(self, text: str, among: Sequence[str]) -> tuple[str, float]:
        """Return the most probable of the languages `among`, and its probability."""
        if len(among) == 1 and not self.is_there:
            return among[0], 0.0
        return self.ranked(text, among)[0]


def _script_of(text: str) -> str:
    """Return the script of most letters of a text: the first word of their Unicode names, in lower case."""
    names = Counter(unicodedata.name(one, "").split(" ", 1)[0].lower() for one in text if one.isalpha())
    return max(names, key=names.__getitem__, default="")


def _is_written_in(code: str, script: str) -> bool:
    """Return whether a language is mostly written in a script, as Unicode's locale data (CLDR) has it."""
    language = _language(code)
    name = "" if language is None else language.maximize().script_name()
    return bool(script) and script in re.findall(r"\w+", name.replace("’", "").lower())


@lru_cache(maxsize=512)
def language_name(code: str) -> str:
    """Return the name of a language; the code itself if it has no name, or the library is missing."""
    if code in UNNAMED:
        return UNNAMED[code]
    language = _language(code)
    found = "Unknown language" if language is None else str(language.display_name())
    return code if found.startswith("Unknown language") else found


def _language(code: str) -> Any:
    """Return what langcodes knows of a language; None if the code is none, or the library is missing."""
    try:
        from langcodes import Language
        from langcodes.tag_parser import LanguageTagError
    except ImportError:
        return None
    try:
        return Language.get(code)
    except LanguageTagError:
        return None


MARK = "@"
"""Between the name of a model and that of a project, in the name of the project's model."""
_MOST_PROJECTS, _MOST_NAME, _MOST_WAITING = 50, 60, 200

T = TypeVar("T")


class Learning:
    """The learning translators of a server, by the names of their models, each with its memory next to its files.
    `publish`: called with all models after each change, by the thread that learns. Raises NMTError."""

    def __init__(self, models: Models, settings: ServerSettings, publish: Callable[[Models], None]) -> None:
        self._settings, self._models, self._publish = settings, models, publish
        self._lock = Lock()
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, "nmt-serve-learn")  # one pair after the other
        self._of: dict[str, LearningTranslator] = {}
        for one in models.loaded:
            translator: Any = one.engine.translator
            self._of[one.name] = LearningTranslator(translator, changed=partial(self._changed, one.name))

    def close(self) -> None:
        """Finish the pairs that were accepted, then close the memories."""
        self._thread.shutdown()
        for one in self._of.values():
            one.close()

    def place(self, model: ServedModel, project: str) -> tuple[LearningTranslator, str]:
        """Return the learning translator and project that a model's name stands for. Raises RequestError."""
        name, mark, of_model = model.name.partition(MARK)
        if name not in self._of:
            raise RequestError(400, f"model: must be one that was loaded, got {model.name:.80}, two in a row")
        if project and mark and project != of_model:
            raise RequestError(400, f"project: must be that of the model, {of_model:.60}, got {project:.60}")
        project = project or of_model
        if len(project) > _MOST_NAME or not project.isprintable() or MARK in project or project != project.strip():
            raise RequestError(
                400, f"project: must be a name of at most {_MOST_NAME} characters without {MARK}, got {project!r:.80}"
            )
        return self._of[name], project

    def confirmed(self) -> list[tuple[str, str]]:
        """Return the pairs of all memories that were not taken back."""
        return [
            (pair.source, pair.target) for one in self._of.values() for name in one.projects for pair in one.pairs(name)
        ]

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of work with a memory, done in the thread that learns. Raises RequestError."""
        if self._waiting >= _MOST_WAITING:
            raise RequestError(503, "server: has more to learn than may wait; try again later", 5)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except NMTError as error:
            raise RequestError(400, str(error)) from None
        finally:
            self._waiting -= 1

    def _changed(self, name: str, project: str, translator: Translator) -> None:
        """Serve the new translator of a project of a model."""
        settings = self._settings
        with self._lock:
            own = f"{name}{MARK}{project}" if project else name
            engine = Engine(
                translator,
                threads=settings.threads,
                most_waiting=settings.limits.waiting,
                shortlist=settings.shortlist and translator.shortlist is not None,
            )
            former, self._models = replaced(self._models, name, own, engine)
            self._publish(self._models)
        if former is not None:  # it ends its requests first
            Thread(target=former.close, name="nmt-serve-former", daemon=True).start()


def check_room(learning: LearningTranslator, project: str) -> None:
    """Raise RequestError if there are too many projects for another one. Waits for the turn to learn."""
    known = learning.projects
    if project not in known and len(known) >= _MOST_PROJECTS:
        raise RequestError(400, f"project: must be one of {_MOST_PROJECTS}, got another one; choose one of those")
