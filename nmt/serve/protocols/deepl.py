"""The parts of DeepL's API, version 2, that its clients and CAT tools use: texts, glossaries, and documents."""

from __future__ import annotations

import asyncio
import csv
import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from nmt.documents.forms import format_of
from nmt.documents.passage import Markup
from nmt.errors import NMTError
from nmt.inference.pivot import base
from nmt.serve import web
from nmt.serve.limits import Room, Shelf, attachment
from nmt.serve.models import language_name
from nmt.serve.service import Service, TextOptions
from nmt.serve.settings import RequestError

_MOST_ENTRIES = 10_000
_MOST_OF_CLIENT, _MOST_BYTES_OF_CLIENT = 100, 8 * 2**20
_MOST_BYTES = 64 * 2**20
_MOST_LINE = 2_000
_BYTES_OF_ENTRY = 160
"""Bytes that an entry takes in memory in addition to its characters."""

Entries = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Glossary:
    """A glossary that a client has stored, until the server ends: entries for one language pair."""

    id: str
    client: str
    name: str
    created: str
    source: str
    target: str
    entries: Entries

    def entries_for(self, source: str, target: str) -> Entries:
        """Return the entries if they are for a language pair, regardless of regions; for all sources if it is auto."""
        return self.entries if self.target == base(target) and (self.source == base(source) or source == "auto") else ()

    @property
    def about(self) -> dict[str, Any]:
        """Return the description that the API gives."""
        return {
            "glossary_id": self.id,
            "name": self.name,
            "ready": True,
            "source_lang": self.source,
            "target_lang": self.target,
            "creation_time": self.created,
            "entry_count": len(self.entries),
        }


class Glossaries(Shelf[Glossary]):
    """The glossaries of all clients, up to a limit each; beyond one of all, the client with most loses its oldest."""

    def __init__(self) -> None:
        super().__init__(_MOST_BYTES, 10_000)

    def add(self, one: Glossary) -> None:
        """Store a glossary. Raises RequestError if its client has too many."""
        size = sum(2 * len(a) + 2 * len(b) + _BYTES_OF_ENTRY for a, b in one.entries)
        if len(self.of(one.client)) >= _MOST_OF_CLIENT or self.bytes_of(one.client) + size > _MOST_BYTES_OF_CLIENT:
            raise RequestError(
                400,
                f"glossaries: must be at most {_MOST_OF_CLIENT} of a client, and {_MOST_BYTES_OF_CLIENT >> 20} MiB, "
                "got more; remove some",
            )
        self.put(one.client, one.id, one, size)

    def own(self, client: str, name: str) -> Glossary:
        """Return one of a client's glossaries. Raises RequestError."""
        found = self.get(name)
        if found is None or found.client != client:
            raise RequestError(404, "glossary_id: must be a glossary of yours, got another; make it first")
        return found


KEY = "auth_key"
"""The field for the key of a client."""


async def translate(request: Request) -> Response:
    """Answer POST /v2/translate, and GET, which some clients use."""
    service, fields, client = await web.read_request(request, KEY)
    texts = web.texts_field(fields, "text")
    target = web.text_field(fields, "target_lang")
    source = web.text_field(fields, "source_lang", "auto") or "auto"
    service.check(texts)
    markup = web.text_field(fields, "tag_handling", "") or "text"
    if markup not in ("text", "html", "xml"):
        raise RequestError(400, f"tag_handling: must be html or xml, got {markup[:40]!r}")
    model, _ = await service.pair(source, target, texts, web.name_field(fields, "model"))
    entries: Entries = ()
    if name := fields.get("glossary_id"):
        entries = request.app.state.glossaries.own(client, str(name)).entries_for(model.source, model.target)
    split = str(fields.get("split_sentences", "1")).lower() not in ("0", "none")
    kinds: dict[str, Markup] = {"html": "html", "xml": "xml"}
    wants_confidence = web.flag_field(fields, "confidence")
    wanted = TextOptions(kinds.get(markup, "text"), split, glossary=entries, ignored=_names(fields.get("ignore_tags")))
    found = await web.while_connected(request, service.translate(model, texts, wanted, client))
    request.scope["nmt.texts"] = texts
    language = model.source.upper()
    content = [
        {"detected_source_language": language, "text": one[0][0], "billed_characters": len(text)}
        | ({"confidence": one[0][1]} if wants_confidence else {})
        for text, one in zip(texts, found, strict=True)
    ]
    return web.CompactJSON({"translations": content})


def _names(given: Any) -> frozenset[str]:
    """Return names of tags, given as a list or as a text with commas."""
    parts = given if isinstance(given, list) else str(given or "").split(",")
    return frozenset(str(part).strip().lower() for part in parts if str(part).strip())


async def languages(request: Request) -> Response:
    """Answer GET /v2/languages."""
    service, fields, _ = await web.read_request(request, KEY)
    targets = service.models.targets
    if fields.get("type", "source") != "target":
        return web.CompactJSON([{"language": c.upper(), "name": language_name(c)} for c in targets])
    codes = list(dict.fromkeys(code for to in targets.values() for code in to))
    return web.CompactJSON(
        [{"language": c.upper(), "name": language_name(c), "supports_formality": False} for c in codes]
    )


async def usage(request: Request) -> Response:
    """Answer GET /v2/usage: characters since the server started, and a limit that is never reached."""
    service, _, client = await web.read_request(request, KEY)
    return web.CompactJSON({"character_count": service.gate.used(client), "character_limit": 10**12})


async def glossary_pairs(request: Request) -> Response:
    """Answer GET /v2/glossary-language-pairs."""
    service, _, _ = await web.read_request(request, KEY)
    pairs = [(source, target) for source, to in service.models.targets.items() for target in to]
    return web.CompactJSON({"supported_languages": [{"source_lang": s, "target_lang": t} for s, t in pairs]})


async def glossaries(request: Request) -> Response:
    """Answer GET and POST /v2/glossaries."""
    service, fields, client = await web.read_request(request, KEY)
    kept: Glossaries = request.app.state.glossaries
    if request.method == "GET":
        return web.CompactJSON({"glossaries": [one.about for one in kept.of(client)]})
    source, target = base(web.text_field(fields, "source_lang")), base(web.text_field(fields, "target_lang"))
    service.models.find(source, target)
    entries = _entries(web.text_field(fields, "entries"), web.text_field(fields, "entries_format", "tsv"))
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    one = Glossary(secrets.token_hex(16), client, web.text_field(fields, "name"), now, source, target, entries)
    kept.add(one)
    return web.CompactJSON(one.about, status_code=201)


def _entries(text: str, form: str) -> Entries:
    """Return the phrase pairs of a TSV or CSV text. Raises RequestError."""
    if form not in ("tsv", "csv"):
        raise RequestError(400, f"entries_format: must be tsv or csv, got {form[:40]!r}")
    lines = text.splitlines()
    rows = csv.reader(lines) if form == "csv" else (line.split("\t", 2) for line in lines)
    found = []
    if any(len(line) > _MOST_LINE for line in lines):
        raise RequestError(400, f"entries: must have at most {_MOST_LINE:,} characters a line, got a longer one")
    for number, row in enumerate(rows, start=1):
        if not any(cell.strip() for cell in row):
            continue
        if len(row) < 2 or not row[0].strip() or not row[1].strip():
            raise RequestError(400, f"entries: line {number} must be a phrase and its translation, got another")
        found.append((row[0].strip(), row[1].strip()))
    if not 0 < len(found) <= _MOST_ENTRIES:
        raise RequestError(400, f"entries: must be 1 to {_MOST_ENTRIES:,}, got {len(found):,}")
    return tuple(found)


async def glossary(request: Request) -> Response:
    """Answer GET and DELETE /v2/glossaries/ID."""
    _, _, client = await web.read_request(request, KEY)
    kept: Glossaries = request.app.state.glossaries
    found = kept.own(client, request.path_params["name"])
    if request.method == "DELETE":
        kept.pop(found.id)
        return Response(status_code=204)
    return web.CompactJSON(found.about)


async def glossary_entries(request: Request) -> Response:
    """Answer GET /v2/glossaries/ID/entries."""
    _, _, client = await web.read_request(request, KEY)
    found = request.app.state.glossaries.own(client, request.path_params["name"])
    return Response("\n".join("\t".join(pair) for pair in found.entries), media_type="text/tab-separated-values")


_MOST_OF_CLIENT_IN_WORK, _MOST_IN_WORK = 8, 64
_MOST_KEPT = 1000


@dataclass
class _Document:
    """An uploaded document; name: of the file of the translation; error: why there is none."""

    key: str
    ticket: str
    began: float
    characters: int = 0
    name: str | None = None
    error: str | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def is_over(self) -> bool:
        """Return whether the translation has finished or failed."""
        return self.name is not None or self.error is not None


class Documents:
    """All documents; the oldest are dropped first. A document is accessible only with its key."""

    def __init__(self) -> None:
        self._all: Shelf[_Document] = Shelf(_MOST_KEPT, _MOST_KEPT, lambda one: one.is_over)

    def begin(self, service: Service, wish: web.FileWish, client: str, room: Room) -> tuple[str, str]:
        """Start translating a document; return its id and key. `room` is the memory account of its bytes, released at
        the end. Raises RequestError: 429 if the client has too many in progress, 503 if there are too many in total."""
        if sum(not one.is_over for one in self._all.of(client)) >= _MOST_OF_CLIENT_IN_WORK:
            raise RequestError(
                429, f"documents: must be at most {_MOST_OF_CLIENT_IN_WORK} at a time, got more; try again later", 10
            )
        if sum(not one.is_over for one in self._all) >= _MOST_IN_WORK:
            raise RequestError(503, "server: has more documents in work than it may; try again later", 10)
        name = secrets.token_hex(16).upper()
        found = _Document(secrets.token_hex(32).upper(), wish.ticket, time.monotonic())
        found.task = asyncio.ensure_future(self._work(found, service, wish, client, room))
        self._all.put(client, name, found)
        return name, found.key

    @staticmethod
    async def _work(found: _Document, service: Service, wish: web.FileWish, client: str, room: Room) -> None:
        """Translate a document; an error is stored for the status request."""
        before = service.gate.used(client)
        try:
            found.name = await web.translate_file(service, wish, client)
        except RequestError as error:
            found.error = error.message
        except BaseException:
            found.error = "server: internal error; see its log"
            raise
        finally:
            room.leave()
        found.characters = service.gate.used(client) - before

    async def end(self) -> None:
        """Cancel the documents in progress, which can no longer be fetched."""
        tasks = [one.task for one in self._all if one.task is not None and not one.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def get(self, name: str, key: str) -> _Document:
        """Return a document. Raises RequestError: 404 if it does not exist or has another key."""
        found = self._all.get(name)
        if found is None or not secrets.compare_digest(found.key.encode(), key.encode("utf-8", "replace")):
            raise RequestError(404, "document_id: must be a document of yours with its key, got another; send it first")
        return found


async def send(request: Request) -> Response:
    """Answer POST /v2/document."""
    service = web.service_of(request)
    fields = await web.read_multipart(request, service)
    client = web.admit_client(request, fields.get(KEY))
    name, content = web.file_field(fields)
    name = web.text_field(fields, "filename", name)
    try:
        format_of(name)
    except NMTError as error:
        raise RequestError(400, str(error)) from None
    wanted = web.text_field(fields, "output_format", "").lower().lstrip(".")
    if wanted and wanted != PurePath(name).suffix.lower().lstrip("."):
        raise RequestError(400, f"output_format: must be that of the file, got {wanted[:40]!r}; leave it out")
    source, target = web.text_field(fields, "source_lang", "auto") or "auto", web.text_field(fields, "target_lang")
    glossary: tuple[tuple[str, str], ...] = ()
    if given := web.text_field(fields, "glossary_id", ""):
        glossary = request.app.state.glossaries.own(client, given).entries_for(source, target)
    if source != "auto":
        service.models.find(source, target)
    wish = web.FileWish(name, content, source, target, None, glossary, secrets.token_hex(8))
    document, key = request.app.state.documents.begin(service, wish, client, request.scope["nmt.room"])
    request.scope["nmt.room"] = None  # now owned by the document
    return web.CompactJSON({"document_id": document, "document_key": key})


async def _found(request: Request) -> _Document:
    _, fields, _ = await web.read_request(request, KEY)
    kept: Documents = request.app.state.documents
    return kept.get(request.path_params["name"], web.text_field(fields, "document_key"))


async def status(request: Request) -> Response:
    """Answer POST /v2/document/ID: the progress of a document."""
    found, name = await _found(request), request.path_params["name"]
    if found.error is not None:
        return web.CompactJSON({"document_id": name, "status": "error", "error_message": found.error})
    if found.name is not None:
        return web.CompactJSON({"document_id": name, "status": "done", "billed_characters": found.characters})
    done, count = web.service_of(request).files.progress(found.ticket)
    content: dict[str, Any] = {"document_id": name, "status": "translating" if count else "queued"}
    if done:
        content["seconds_remaining"] = round((time.monotonic() - found.began) * (count - done) / done)
    return web.CompactJSON(content)


async def result(request: Request) -> Response:
    """Answer POST /v2/document/ID/result: the translated file."""
    found = await _found(request)
    if found.name is None:
        raise RequestError(503 if found.error is None else 404, found.error or "document: is not done yet; wait", 2)
    file = web.service_of(request).files.get(found.name)
    return Response(file.content, media_type=file.media_type, headers=attachment(file.name))
