"""Interactive translation sessions, kept between keystrokes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING

from nmt.inference.translation import Translation
from nmt.serve.limits.shelf import Shelf
from nmt.serve.limits.turns import Turns

if TYPE_CHECKING:
    from nmt.inference.typing_session import TypingSession
    from nmt.serve.models import ServedModel

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
