"""Translate a file and put the translation into the store of files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nmt.documents.forms import MEDIA_TYPES, format_of
from nmt.errors import NMTError
from nmt.inference.translation import Translation
from nmt.serve.box.box import Job
from nmt.serve.engine import Admission, Ask
from nmt.serve.errors import RequestError
from nmt.serve.files import TranslatedFile, translated_name
from nmt.serve.models import ServedModel
from nmt.serve.service import Service

_SECONDS, _BYTES_A_SECOND = 15.0, 2**18
"""CPU time for any file in seconds, and the bytes that allow one second more."""
_MEMORY = 512 * 2**20


@dataclass(frozen=True)
class FileWish:
    """A request to translate a file. `source` may be auto; `model` is a model's name, None for the first model of the
    pair; `ticket` is the key under which progress is reported."""

    name: str
    content: bytes
    source: str
    target: str
    model: str | None = None
    glossary: tuple[tuple[str, str], ...] = ()
    ticket: str = ""


async def translate_file(service: Service, wish: FileWish, client: str) -> str:
    """Translate a file; return the key by which it is fetched. Raises RequestError."""
    try:
        form = format_of(wish.name)
    except NMTError as error:
        raise RequestError(400, str(error)) from None
    async with service.in_time(service.settings.limits.file_seconds):
        model = await _model_of(service, wish, form, client)
        language, pair = None if model.splitter is None else model.source, (model.source, model.target)
        read = _job("read_file", wish, (wish.content, form, wish.name, language, pair))
        rows = [(asked, packed) for piece in await service.box.run(read, client) for asked, packed in piece]
        answers = await _answers(service, model, wish, rows, client)
        write = _job("write_file", wish, (wish.content, form, wish.name, language, pair, answers))
        left, *pieces = await service.box.run(write, client)
    name = translated_name(wish.name, model.target)
    return service.files.keep(client, TranslatedFile(name, b"".join(pieces), MEDIA_TYPES[form], left))


def _job(name: str, wish: FileWish, args: tuple[Any, ...]) -> Job:
    """Return a job on a file for the box, with limits that grow with the file's size."""
    size = len(wish.content)
    seconds = _SECONDS + size / _BYTES_A_SECOND
    return Job(name, args, wish.name[:80], seconds, _MEMORY, _MEMORY + 4 * size, is_long=True)


async def _model_of(service: Service, wish: FileWish, form: str, client: str) -> ServedModel:
    sample = ""
    if wish.source.lower() == "auto":
        (sample,) = await service.box.run(_job("sample", wish, (wish.content, form, wish.name)), client)
    return (await service.pair(wish.source, wish.target, [sample], wish.model))[0]


async def _answers(
    service: Service, model: ServedModel, wish: FileWish, rows: list[tuple[str, bytes]], client: str
) -> list[tuple[bool, str]]:
    """Return for each row whether its text is final, and its translation. Details of translations are freed as soon as
    their piece is done."""
    answers: list[tuple[bool, str]] = [(False, "")] * len(rows)
    done = 0

    def note(more: int) -> None:
        nonlocal done
        done += more
        service.files.note(client, wish.ticket, done, len(rows))

    note(0)
    admission = Admission(waits=True)
    for details in (False, True):
        chosen = [n for n, (_, packed) in enumerate(rows) if bool(packed) == details]

        async def take(at: int, found: list[list[Translation]], own: list[int] = chosen, full: bool = details) -> None:
            texts = [translations[0].text for translations in found]
            if full:
                packed = [rows[n][1] for n in own[at : at + len(found)]]
                job = _job("finish", wish, (packed, [translations[0] for translations in found]))
                (texts,) = await service.box.run(job, client)
            for n, text in zip(own[at : at + len(found)], texts, strict=True):
                answers[n] = full, text
            note(len(found))

        if chosen:
            ask = Ask(details=details, glossary=wish.glossary)
            await service.in_pieces(model, [rows[n][0] for n in chosen], ask, client, admission, take)
    service.count(model, rows, client, sum(len(asked) for asked, _ in rows))
    return answers
