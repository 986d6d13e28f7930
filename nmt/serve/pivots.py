"""Two engines in a row, for a language pair that no model of the server translates."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property

from nmt.inference.pivot import Pivot, through
from nmt.inference.translation import Translation
from nmt.serve.engine import Ask, Engine, Entry


class PivotEngine:
    """Answers as an `Engine` does: `last` translates the best translations of `first`. Both belong to loaded models,
    which count the sentences that wait and close their engines."""

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
        entry: Entry | None = None,
        is_bulk: bool = False,
        terms_in: Sequence[str] | None = None,
    ) -> list[list[Translation]]:
        """Return the translations of each sentence; see `Engine.translate`. Glossary phrases are those in the source,
        and preferred by the last model."""
        ask, terms_in = ask or Ask(), sentences if terms_in is None else terms_in
        found = await self._first.translate(sentences, Ask(details=ask.details), client, entry=entry, is_bulk=is_bulk)
        between = [translations[0] for translations in found]
        last = await self._last.translate(
            [one.text for one in between], ask, client, entry=Entry(is_in=True), is_bulk=is_bulk, terms_in=terms_in
        )
        return await asyncio.to_thread(through, between, last) if ask.details else through(between, last)
