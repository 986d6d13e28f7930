"""Document translation of DeepL's API, version 2: upload, status, download (developers.deepl.com/docs)."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nmt.documents.forms import format_of
from nmt.errors import NMTError
from nmt.serve.errors import RequestError
from nmt.serve.file_translation import FileWish, translate_file
from nmt.serve.files import attachment
from nmt.serve.limits.bodies import Room
from nmt.serve.limits.shelf import Shelf
from nmt.serve.protocols.deepl import KEY
from nmt.serve.protocols.requests import admit_client, read_request, service_of
from nmt.serve.service import Service
from nmt.serve.web import CompactJSON, file_field, read_multipart, text_field

_MOST_OF_CLIENT, _MOST_IN_WORK = 8, 64
_MOST_KEPT = 1000


@dataclass
class _Document:
    """An uploaded document. `done`: its number of characters, once it is translated; `name`: the file name of the
    translation; `error`: why there is no translation."""

    key: str
    ticket: str
    client: str
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
        self._in_work: Counter[str] = Counter()

    def begin(self, service: Service, wish: FileWish, client: str, room: Room) -> tuple[str, str]:
        """Start translating a document; return its id and key. `room` is the memory account of its bytes, released at
        the end. Raises RequestError: 429 if the client has too many in progress, 503 if there are too many in total."""
        if self._in_work[client] >= _MOST_OF_CLIENT:
            raise RequestError(
                429, f"documents: must be at most {_MOST_OF_CLIENT} at a time, got more; try again later", 10
            )
        if self._in_work.total() >= _MOST_IN_WORK:
            raise RequestError(503, "server: has more documents in work than it may; try again later", 10)
        name = secrets.token_hex(16).upper()
        found = _Document(secrets.token_hex(32).upper(), wish.ticket, client, time.monotonic())
        self._in_work[client] += 1
        found.task = asyncio.ensure_future(self._work(found, service, wish, room))
        self._all.put(client, name, found)
        return name, found.key

    async def _work(self, found: _Document, service: Service, wish: FileWish, room: Room) -> None:
        """Translate a document; an error is stored for the status request."""
        client = found.client
        before = service.gate.used(client)
        try:
            found.name = await translate_file(service, wish, client)
        except RequestError as error:
            found.error = error.message
        except BaseException:
            found.error = "server: internal error; see its log"
            raise
        finally:
            room.leave()
            self._in_work[client] -= 1
            self._in_work += Counter()  # drops clients with none
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
    service = service_of(request)
    fields = await read_multipart(request, service)
    client = admit_client(request, fields.get(KEY))
    name, content = file_field(fields)
    name = text_field(fields, "filename", name)
    try:
        format_of(name)
    except NMTError as error:
        raise RequestError(400, str(error)) from None
    wanted = text_field(fields, "output_format", "").lower().lstrip(".")
    if wanted and wanted != PurePath(name).suffix.lower().lstrip("."):
        raise RequestError(400, f"output_format: must be that of the file, got {wanted[:40]!r}; leave it out")
    source, target = text_field(fields, "source_lang", "auto") or "auto", text_field(fields, "target_lang")
    glossary: tuple[tuple[str, str], ...] = ()
    if given := text_field(fields, "glossary_id", ""):
        glossary = request.app.state.glossaries.get(client, given).entries_for(source, target)
    if source != "auto":
        service.models.find(source, target)
    wish = FileWish(name, content, source, target, None, glossary, secrets.token_hex(8))
    document, key = request.app.state.documents.begin(service, wish, client, request.scope["nmt.room"])
    request.scope["nmt.room"] = None  # now owned by the document
    return CompactJSON({"document_id": document, "document_key": key})


async def _found(request: Request) -> _Document:
    _, fields, _ = await read_request(request, KEY)
    kept: Documents = request.app.state.documents
    return kept.get(request.path_params["name"], text_field(fields, "document_key"))


async def status(request: Request) -> Response:
    """Answer POST /v2/document/ID: the progress of a document."""
    found, name = await _found(request), request.path_params["name"]
    if found.error is not None:
        return CompactJSON({"document_id": name, "status": "error", "error_message": found.error})
    if found.name is not None:
        return CompactJSON({"document_id": name, "status": "done", "billed_characters": found.characters})
    done, count = service_of(request).files.progress(found.ticket)
    content: dict[str, Any] = {"document_id": name, "status": "translating" if count else "queued"}
    if done:
        content["seconds_remaining"] = round((time.monotonic() - found.began) * (count - done) / done)
    return CompactJSON(content)


async def result(request: Request) -> Response:
    """Answer POST /v2/document/ID/result: the translated file."""
    found = await _found(request)
    if found.name is None:
        raise RequestError(503 if found.error is None else 404, found.error or "document: is not done yet; wait", 2)
    file = service_of(request).files.get(found.name)
    return Response(file.content, media_type=file.media_type, headers=attachment(file.name))


ROUTES = [
    Route("/v2/document", send, methods=["POST"]),
    Route("/v2/document/{name}", status, methods=["POST", "GET"]),
    Route("/v2/document/{name}/result", result, methods=["POST", "GET"]),
]
