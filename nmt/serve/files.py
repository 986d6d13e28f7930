"""Files that are translated, and kept for a while until somebody fetches them."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import OrderedDict
from pathlib import PurePath
from typing import TYPE_CHECKING

from nmt.documents.document import MEDIA_TYPES, SUFFIXES, Document, format_of, read_document
from nmt.errors import NMTError
from nmt.serve.engine import Ask
from nmt.serve.errors import RequestError

if TYPE_CHECKING:
    from nmt.inference.translation import Translation
    from nmt.serve.service import Service

_SECONDS = 600.0
_MOST_BYTES = 256 * 2**20
_PIECE = 256
"""Sentences of a file that wait at a time: what is known of its progress, and kept of a file that nobody wants."""


class Files:
    """Translated files, in memory, for ten minutes and up to 256 MiB; their names cannot be guessed."""

    formats = [name.lstrip(".") for name in SUFFIXES]

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[float, str, bytes, str]] = OrderedDict()
        self.progress: OrderedDict[str, tuple[int, int]] = OrderedDict()

    async def translate(
        self, service: Service, name: str, content: bytes, pair: tuple[str, str], client: str, ticket: str = ""
    ) -> str:
        """Translate a file; the name by which it is fetched. ticket: under which its progress is told. Raises
        RequestError."""
        try:
            form = format_of(name)
            first = await asyncio.to_thread(read_document, content, form, name, None)
            sample = [one.text for passage in first.passages[:50] for one in passage.sentences[:20]]
            model, _ = service.pair(*pair, sample or [""])
            document = first
            if model.splitter is not None:
                document = await asyncio.to_thread(read_document, content, form, name, model.splitter)
        except NMTError as error:
            raise RequestError(400, str(error)) from None
        sentences = [one for passage in document.passages for one in passage.sentences]
        answers: list[Translation] = []
        for at in range(0, len(sentences), _PIECE):
            self._note(ticket, at, len(sentences))
            piece = sentences[at : at + _PIECE]
            ask = Ask(details=any(one.needs_detail for one in piece))
            found = await service.ask(model, [one.asked for one in piece], ask, client)
            answers += [translations[0] for translations in found]
        self._note(ticket, len(sentences), len(sentences))
        service.measures.translated(model.name, len(sentences), sum(len(one.text) for one in sentences))
        written = await asyncio.to_thread(_written, document, answers)
        return self._keep(_file_name(name, model.target), written, MEDIA_TYPES[form])

    def get(self, name: str) -> tuple[str, bytes, str]:
        """Name, content and media type of a file that was translated. Raises RequestError."""
        self._forget()
        if name not in self._kept:
            raise RequestError(404, "file: must be one that was translated within ten minutes, got another")
        return self._kept[name][1:]

    def _note(self, ticket: str, done: int, count: int) -> None:
        if ticket:
            self.progress[ticket] = done, count
            while len(self.progress) > 1000:
                self.progress.popitem(last=False)

    def _keep(self, name: str, content: bytes, media_type: str) -> str:
        self._forget()
        key = f"{secrets.token_urlsafe(18)}.{PurePath(name).suffix.lstrip('.') or 'txt'}"
        self._kept[key] = time.monotonic(), name, content, media_type
        while len(self._kept) > 1 and sum(len(kept[2]) for kept in self._kept.values()) > _MOST_BYTES:
            self._kept.popitem(last=False)
        return key

    def _forget(self) -> None:
        old = time.monotonic() - _SECONDS
        while self._kept and next(iter(self._kept.values()))[0] < old:
            self._kept.popitem(last=False)


def _written(document: Document, answers: list[Translation]) -> bytes:
    rest = iter(answers)
    return document.write([passage.joined([next(rest) for _ in passage.sentences]) for passage in document.passages])


def _file_name(name: str, target: str) -> str:
    """Of a translation: letters that a header may hold."""
    path = PurePath(name)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "_", path.stem)[:80] or "file"
    return f"{stem}_{target}{re.sub(r'[^A-Za-z0-9.]', '', path.suffix)}"
