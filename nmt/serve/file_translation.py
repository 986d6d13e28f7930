"""A file in, its translation in the store of files."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from nmt.documents.document import MEDIA_TYPES, Document, format_of, read_document
from nmt.errors import NMTError
from nmt.inference.translation import Translation
from nmt.serve.engine import Ask
from nmt.serve.errors import RequestError
from nmt.serve.files import translated_name
from nmt.serve.service import Service


@dataclass(frozen=True)
class FileWish:
    """A file, and what is to become of it. source: may be auto; model: its name, where it is not the first of the pair;
    ticket: under which progress is told."""

    name: str
    content: bytes
    source: str
    target: str
    model: str | None = None
    glossary: tuple[tuple[str, str], ...] = ()
    ticket: str = ""


async def translate_file(service: Service, wish: FileWish, client: str) -> str:
    """Translate a file; the name by which it is fetched. Raises RequestError."""
    try:
        form = format_of(wish.name)
        document = await asyncio.to_thread(read_document, wish.content, form, wish.name, None)
        sample = [one.text for passage in document.passages[:50] for one in passage.sentences[:20]]
        model, _ = await service.pair(wish.source, wish.target, sample or [""], wish.model)
        if model.splitter is not None:
            document = await asyncio.to_thread(read_document, wish.content, form, wish.name, model.splitter)
    except NMTError as error:
        raise RequestError(400, str(error)) from None
    sentences = [one for passage in document.passages for one in passage.sentences]
    done = 0

    def note(more: int) -> None:
        nonlocal done
        done += more
        service.files.note(wish.ticket, done, len(sentences))

    note(0)
    found = await service.sentences(model, sentences, Ask(glossary=wish.glossary), client, note)
    service.count(model, sentences, client, sum(len(one.text) for one in sentences))
    try:
        written = await asyncio.to_thread(_written, document, [translations[0] for translations in found])
    except NMTError as error:
        raise RequestError(400, str(error)) from None
    return service.files.keep(translated_name(wish.name, model.target), written, MEDIA_TYPES[form])


def _written(document: Document, answers: list[Translation]) -> bytes:
    rest = iter(answers)
    return document.write([passage.joined([next(rest) for _ in passage.sentences]) for passage in document.passages])
