"""A translator that learns while it is used: pairs that a person has confirmed are known at the next sentence.

from nmt import LearningTranslator
with LearningTranslator.load("runs/de-en") as translator:
    translator.learn("Guten Morgen!", "Good morning!")
    translator.translate("Guten Morgen!")
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from nmt.errors import ConfigError, DataError
from nmt.inference.nearest import pairs_of
from nmt.inference.pipeline import check_no_factors, lacking_in_target, source_ids
from nmt.inference.translation import checked_text
from nmt.inference.translator import Translator
from nmt.learning.memory import Check, Match, Memory, Pair, State, Use, read_tmx, write_tmx
from nmt.learning.projects import HELD_OUT, Projects
from nmt.learning.trainer import Recipe, Trainer
from nmt.rnn.devices import resolved_dtype
from nmt.search_settings import SearchSettings
from nmt.special_tokens import UNK_ID
from nmt.system.paths import named

if TYPE_CHECKING:
    from nmt.config import Config, CorpusConfig

MEMORY_NAME = "learning.sqlite"
IDLE = 60.0
"""Seconds without a new pair after which a project is consolidated."""
MOST_CHARACTERS = 5_000
"""Characters of a side of a pair."""


@dataclass(frozen=True)
class Learnt:
    """The result of confirming a pair: it is on the disk, and learnt unless `pair.state` says otherwise. `note` says
    why not, or what is missing; `seconds` is how long it took."""

    pair: Pair
    note: str
    seconds: float


@dataclass(frozen=True)
class Progress:
    """A project: its pairs in the memory, those that were learnt, the factor of the learning rate, 0 if learning has
    stopped, and the last checks, the newest first."""

    project: str
    pairs: int
    learnt: int
    rate: float
    checks: list[Check]


class LearningTranslator:
    """A base model, the memory of confirmed pairs, and for each project a model that has learnt its pairs.

    Any number of threads may call it. Learning takes turns; translating never waits for it: a translation is one of
    the model before a pair, or of the model after it.

    Args:
        base: The translator of the base model, loaded from files, on the processor.
        memory: The file of the memory; None names it after the model, `learning.sqlite` in its folder.
        recipe: How pairs are learnt in a memory that is begun; one that is there keeps its own. Without updates, pairs
            are only read, and a project has no parameters of its own.
        idle: After so many seconds without a new pair, projects are consolidated in the background; None: never.
        changed: Called with a project's name and new translator after each change, by the thread that made it.
    """

    def __init__(
        self,
        base: Translator,
        memory: str | Path | None = None,
        *,
        recipe: Recipe | None = None,
        idle: float | None = IDLE,
        changed: Callable[[str, Translator], None] | None = None,
    ) -> None:
        if len(base.loaded) != 1 or not base.model.device.is_cpu:
            raise ConfigError("learning: must be with one model on the processor, got another; leave device out")
        check_no_factors(base, "learning")
        (loaded,) = base.loaded
        floating: Any = base.model
        if floating.in_int8:
            floating = loaded.reopened().build(resolved_dtype("auto"))
        self.base = base
        place = Path(base.place)
        own_path = place / MEMORY_NAME if place.is_dir() else place.with_name(f"{place.name}.{MEMORY_NAME}")

        def begin() -> tuple[dict[str, Any], list[tuple[Use, str, str]]]:
            chosen = recipe or Recipe()
            names = list(floating.shapes) if chosen.updates else []
            return {"recipe": asdict(chosen), "names": names}, general_text(base.config)

        self.memory = Memory(own_path if memory is None else named(memory, "memory"), loaded.digest, begin)
        try:
            names, known = self.memory.facts["names"], Recipe(**self.memory.facts["recipe"])
            self._trainer = Trainer(base, floating, names, known, self.memory.general(Use.REPLAYED))
            self._projects = Projects(base, floating, self.memory, self._trainer, idle, changed)
        except BaseException:
            self.memory.close()
            raise

    @classmethod
    def load(cls, model_dir: str | Path, *, memory: str | Path | None = None, **options: Any) -> LearningTranslator:
        """Load a model and its memory; a memory that is missing is begun.

        Args:
            model_dir, options: As in `Translator.load`.
            memory: The file of the memory; None takes `learning.sqlite` in the model's folder.

        Raises:
            DataError: The memory is not one of this model, or another process uses it.
            ConfigError: The model has source factors, or is on a GPU; or as `Translator.load`.
            NMTError: rapidfuzz, of the extra [learn], is missing.
        """
        return cls(Translator.load(model_dir, **options), memory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the background work and close the memory. Translators that were taken from it go on."""
        self._projects.close()

    # ------------------------------------------------------------ translating

    def translator(self, project: str = "") -> Translator:
        """Return the present translator of a project: an ordinary one, with all that `Translator` can do. It never
        changes; after another pair there is another."""
        return self._projects.translator(project)

    @overload
    def translate(self, sentences: str, *, project: str = "", **settings: Unpack[SearchSettings]) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def translate(
        self, sentences: Iterable[str], *, project: str = "", **settings: Unpack[SearchSettings]
    ) -> list[str]: ...
    def translate(
        self, sentences: str | Iterable[str], *, project: str = "", **settings: Unpack[SearchSettings]
    ) -> str | list[str]:
        """Translate a sentence, or a list of sentences, with what a project has learnt; see `Translator.translate`."""
        return self.translator(project).translate(sentences, **settings)

    def matches(self, source: str, *, project: str = "", least: float = 0.7, most: int = 5) -> list[Match]:
        """Return the pairs of a project whose sources are equal or similar to a sentence, the most similar first.

        Args:
            source: A sentence.
            least: The least similarity, 0 to 1: the share of characters that are kept.
            most: How many at most.
        """
        with self._open():
            return self.memory.matches(project, checked_text("matches", "source", source), least=least, most=most)

    # ------------------------------------------------------------ learning

    def learn(self, source: str, target: str, *, project: str = "", who: str = "") -> Learnt:
        """Learn a confirmed pair; after this call `translate` knows it, and it is on the disk.

        Args:
            source, target: A sentence and its translation, of at most 5,000 characters each.
            project: Projects learn apart from one another: none sees pairs or words of another.
            who: Who has confirmed it, for the memory.

        Returns:
            Its number in the memory, for `undo`, and whether it was learnt; longer sentences are only remembered.

        Raises:
            DataError: A side is blank, too long or has invalid Unicode, or the memory cannot be written.
            TypeError: An argument is no text.
        """
        began = time.perf_counter()
        source, target = self._checked("source", source), self._checked("target", target)
        for name, value in (("project", project), ("who", who)):
            if len(checked_text("learn", name, value)) > 200:
                raise DataError(f"{name}: must have at most 200 characters, got {len(value):,}; shorten it")
        note, fits = "", self._trainer.fits(source, target)
        with self._open():
            rate = self._projects.get(project).rate
            if not fits:
                note = "the sentence is too long to be learnt; it is only remembered"
            elif not rate:
                note = "learning has stopped; the pair is only remembered"
            state = State.STORED if note else State.LEARNT
            (pair,) = self.memory.add(project, [(source, target)], who=who, state=state, rate=rate)
            if state == State.LEARNT:
                self._projects.learn(pair)
            else:
                self._projects.remember(project, [pair])
        notes = [note] if note else []
        if self._trainer.recipe.reads and UNK_ID in source_ids(self.base, [source])[0]:
            notes.append("the sentence has characters that the model does not know; it is not read while translating")
        notes += lacking_in_target(self.base, "the translation", [target])
        return Learnt(pair, "; ".join(notes), time.perf_counter() - began)

    def undo(self, number: int) -> Pair:
        """Take a pair back: the model is then exactly that of the remaining pairs. Those after it are learnt
        again, from the last snapshot before it. Raises DataError if there is no such pair, or it is undone already."""
        with self._open():
            pair = self.memory.pair(number)
            if pair.state == State.UNDONE:
                raise DataError(f"pair: must not be undone yet, got {number}, which is; nothing is left to do")
            self.memory.undo(pair)
            self._projects.restore(pair.project)
            return replace(pair, state=State.UNDONE)

    def consolidate(self, project: str = "") -> bool:
        """Learn all learnt pairs of a project together, in several passes from the base model, as is done in idle time.

        It takes seconds to minutes. After an undo the pairs that are left are consolidated again.

        Return False if other texts would suffer, so that nothing was changed.
        """
        with self._open():
            return self._projects.consolidate(project)

    def resume(self, project: str = "") -> None:
        """Let a project learn again after it has been slowed or stopped, from where it is."""
        with self._open():
            self._projects.resume(project)

    def progress(self, project: str = "") -> Progress:
        """Return the state of a project."""
        with self._open():
            pairs, learnt = self.memory.counts(project)
            return Progress(project, pairs, learnt, self._projects.rate(project), self.memory.checks(project))

    @property
    def projects(self) -> list[str]:
        """Return the names of all projects that have pairs."""
        with self._open():
            return self.memory.projects()

    def pairs(self, project: str = "") -> list[Pair]:
        """Return the pairs of a project that were not taken back."""
        with self._open():
            return self.memory.pairs(project)

    def wait(self) -> None:
        """Wait until the background work is done: held-out text scored, snapshots saved."""
        self._projects.wait()

    # ------------------------------------------------------------ in and out

    def save(self, path: str | Path, *, project: str = "") -> None:
        """Write what a project has learnt as an ordinary model: `Translator.save` of its translator."""
        self.translator(project).save(path)

    def import_tmx(self, path: str | Path, *, project: str = "", who: str = "", learn: bool = False) -> int:
        """Read the pairs of a TMX file into the memory of a project; return their number. They are matches and
        neighbours from then on; with `learn`, each is also learnt, as by `learn`. Raises DataError if the file is no
        TMX, or has no pairs of the model's languages."""
        data = self.base.config.data
        pairs = read_tmx(named(path, "TMX"), data.src.lang, data.tgt.lang)
        if learn:
            for source, target in pairs:
                self.learn(source, target, project=project, who=who)
        else:
            with self._open():
                self._projects.remember(project, self.memory.add(project, pairs, who=who))
        return len(pairs)

    def export_tmx(self, path: str | Path, *, project: str = "") -> int:
        """Write all pairs of a project as a TMX file, which is replaced; return their number."""
        data = self.base.config.data
        pairs = self.pairs(project)
        write_tmx(named(path, "TMX"), pairs, data.src.lang, data.tgt.lang)
        return len(pairs)

    # ------------------------------------------------------------ inside

    def _checked(self, name: str, text: str) -> str:
        """Return a side of a pair without spaces around it. Raises DataError."""
        found = " ".join(checked_text("learn", name, text).split())
        if not found:
            raise DataError(f"{name}: must be a sentence, got a blank one; write one")
        if len(found) > MOST_CHARACTERS:
            raise DataError(f"{name}: must have at most {MOST_CHARACTERS:,} characters, got {len(found):,}; split it")
        try:
            found.encode()
        except UnicodeEncodeError:
            raise DataError(f"{name}: must be Unicode text, got half a surrogate pair; correct it") from None
        return found

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Wait for the turn. Raises DataError if it is closed."""
        with self._projects.turn:
            if self._projects.is_closed:
                raise DataError(f"{self.memory.path}: must be open, got closed; load it again")
            yield


_logger = logging.getLogger("nmt")

_REPLAYED, _MOST_READ = 1_000, 500_000
"""Pairs of the training text that are kept for replays, and pairs that they are drawn from."""


def general_text(config: Config) -> list[tuple[Use, str, str]]:
    """Return a sample of data.train to replay and one of data.dev to score; a text that is missing is logged."""
    found = []
    for use, corpora, count, lacks in (
        (Use.REPLAYED, config.data.train, _REPLAYED, "is not replayed, so that more of it may be forgotten"),
        (Use.HELD_OUT, config.data.dev, HELD_OUT, "is not scored, so that nothing notices what is forgotten"),
    ):
        try:
            pairs = _sample(config, corpora, count)
        except DataError as error:
            _logger.warning("warning: the text of the base model %s: %s", lacks, error)
            continue
        found += [(use, source, target) for source, target in pairs]
    return found


def _sample(config: Config, corpora: str | Sequence[CorpusConfig], count: int) -> list[tuple[str, str]]:
    """Return random pairs of a text, the same ones each time (Vitter 1985, algorithm R)."""
    random, kept = Random(config.seed), list[tuple[str, str]]()
    for seen, pair in enumerate(islice(pairs_of(config, corpora), _MOST_READ)):
        if seen < count:
            kept.append(pair)
        elif (place := random.randrange(seen + 1)) < count:
            kept[place] = pair
    return kept
