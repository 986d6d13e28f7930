"""Models that learn from confirmed pairs: `nmt-serve --learn`. After each pair the model of its project is replaced by
one with another engine, as at a reload: requests under way end with the former one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from nmt.errors import NMTError
from nmt.learning.learning_translator import LearningTranslator
from nmt.serve.engine import Engine
from nmt.serve.models import Models, ServedModel, replaced
from nmt.serve.settings import RequestError

if TYPE_CHECKING:
    from nmt.inference.translator import Translator
    from nmt.serve.settings import ServerSettings

_logger = logging.getLogger("nmt.serve")

MARK = "@"
"""Between the name of a model and that of a project, in the name of the project's model."""
_MOST_PROJECTS, _MOST_NAME, _MOST_WAITING = 50, 60, 200

T = TypeVar("T")


class Learning:
    """The learning translators of a server, by the names of their models.

    Args:
        models: The loaded models; each learns, and keeps its memory next to its files.
        publish: Called with all models after each change, by the thread that learns.

    Raises:
        NMTError: A memory cannot be used, or a model cannot learn.
    """

    def __init__(self, models: Models, settings: ServerSettings, publish: Callable[[Models], None]) -> None:
        self._settings, self._models, self._publish = settings, models, publish
        self._lock = Lock()
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, "nmt-serve-learn")  # one pair after the other
        self._of: dict[str, LearningTranslator] = {}
        for one in models.loaded:
            translator: Any = one.engine.translator
            changed = partial(self._changed, one.name)
            self._of[one.name] = LearningTranslator(translator, changed=changed)

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
