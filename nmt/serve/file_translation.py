"""A file in, its translation in the store of files."""

from __future__ import annotations

import asyncio
import re
from pathlib import PurePath

from nmt.documents.document import MEDIA_TYPES, Document, format_of, read_document
from nmt.errors import NMTError
from nmt.inference.translation import Translation
from nmt.serve.engine import Ask
from nmt.serve.errors import RequestError
from nmt.serve.service import Service

_PIECE = 256
"""Sentences of a file that wait at a time: what is known of its progress, and kept of a file that nobody wants."""


async def translate_file(
    service: Service, name: str, content: bytes, pair: tuple[str, str], client: str, ticket: str = ""
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
        service.files.note(ticket, at, len(sentences))
        piece = sentences[at : at + _PIECE]
        ask = Ask(details=any(one.needs_detail for one in piece))
        found = await service.ask(model, [one.asked for one in piece], ask, client)
        answers += [translations[0] for translations in found]
    service.files.note(ticket, len(sentences), len(sentences))
    service.measures.translated(model.name, len(sentences), sum(len(one.text) for one in sentences))
    written = await asyncio.to_thread(_written, document, answers)
    return service.files.keep(_file_name(name, model.target), written, MEDIA_TYPES[form])


def _written(document: Document, answers: list[Translation]) -> bytes:
    rest = iter(answers)
    return document.write([passage.joined([next(rest) for _ in passage.sentences]) for passage in document.passages])


def _file_name(name: str, target: str) -> str:
    """Of a translation: letters that a header may hold."""
    path = PurePath(name)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "_", path.stem)[:80] or "file"
    return f"{stem}_{target}{re.sub(r'[^A-Za-z0-9.]', '', path.suffix)}"
