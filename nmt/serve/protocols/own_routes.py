"""Routes of the web page: its files, sentences with their words, completions while typing, the API description."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from nmt.errors import NMTError
from nmt.inference.pipeline import entries_for, phrases_missing
from nmt.inference.translation import Translation
from nmt.serve.box.box import Job
from nmt.serve.detection import language_name
from nmt.serve.engine import Ask
from nmt.serve.errors import RequestError
from nmt.serve.files import SECONDS_KEPT
from nmt.serve.models import bleu_signature
from nmt.serve.routes import openapi
from nmt.serve.service import TextOptions
from nmt.serve.web import (
    CompactJSON,
    count_field,
    glossary_field,
    left_of,
    public_address,
    read_multipart,
    read_request,
    requested_model,
    service_of,
    text_field,
    translated_file,
    while_connected,
)

if TYPE_CHECKING:
    from nmt.inference.pivot import Pivot
    from nmt.inference.translator import Translator

_MOST_TYPED = 2_000
"""Maximum characters of a sentence to complete: the model reads no more, and a running thread cannot be stopped."""
_MOST_TICKET = 100


async def models(request: Request) -> Response:
    """Answer GET /api/models."""
    found = []
    await asyncio.to_thread(bleu_signature)  # loads a library, once
    for one in service_of(request).models.all:
        names = {"source_name": language_name(one.source), "target_name": language_name(one.target)}
        found.append(one.about | names)
    limits = service_of(request).settings.limits
    return CompactJSON(
        {
            "models": found,
            "key_required": service_of(request).gate.wants_keys,
            "limits": {"characters": limits.characters, "alternatives": limits.alternatives},
            "formats": service_of(request).files.formats,
            "learns": service_of(request).learning is not None,
        }
    )


async def sentences(request: Request) -> Response:
    """Answer POST /api/sentences: a text's translation, sentence by sentence, with words, probabilities and attention,
    and with the glossary terms that the model has not followed."""
    service, fields, client = await read_request(request)
    text = text_field(fields, "q")
    count = count_field(fields, "alternatives")
    service.check([text], count)
    glossary = glossary_field(fields)
    model = await requested_model(service, fields, [text])

    async def work() -> list[dict[str, Any]]:
        async with service.in_time(service.settings.limits.seconds):
            cut = await service.cut(model, [text], TextOptions(), client, aside=True)
            asked = [one for _, one in cut.rows]
            found = await service.in_pieces(model, asked, Ask(count + 1, True, glossary), client)
            service.count(model, asked, client, len(text))
            seconds = 4.0 + len(text) * (count + 1) / 20_000
            parts: list[dict[str, Any]] = await service.box.run(
                Job("shown", (cut.passages, found), "q", seconds), client
            )
            if glossary:
                await asyncio.to_thread(note_terms, model.engine.translator, parts, asked, glossary)
            return parts

    return CompactJSON({"parts": await while_connected(request, work()), "model": model.name})


async def complete(request: Request) -> Response:
    """Answer POST /api/complete: translations of a sentence that begin with the typed text."""
    service, fields, client = await read_request(request)
    text, typed = text_field(fields, "q"), text_field(fields, "typed", "")
    count = max(1, count_field(fields, "count", 3))
    service.check([text, typed], min(count, 10) - 1)
    for name, one in (("q", text), ("typed", typed)):
        if len(one) > _MOST_TYPED:
            raise RequestError(
                400, f"{name}: must be a sentence of at most {_MOST_TYPED:,} characters, got {len(one):,}"
            )
    model = await requested_model(service, fields, [text])

    async def work() -> list[Translation]:
        async with service.in_time(service.settings.limits.seconds):
            try:
                return await service.sessions.complete(model, client, text, typed, count)
            except NMTError as error:  # the model's settings do not allow completions
                raise RequestError(400, str(error)) from None

    found = await while_connected(request, work())
    sure = [round(one.confidence, 4) for one in found]
    return CompactJSON({"completions": [one.text for one in found], "confidence": sure})


async def file(request: Request) -> Response:
    """Answer POST /api/file, like /translate_file; `ticket` is a key under which /api/progress reports progress."""
    service = service_of(request)
    fields = await read_multipart(request, service)
    ticket = text_field(fields, "ticket", "")
    if len(ticket) > _MOST_TICKET:
        raise RequestError(400, f"ticket: must have at most {_MOST_TICKET} characters, got {len(ticket):,}")
    name = await translated_file(request, fields, ticket=ticket)
    content = {"url": f"download_file/{name}", "name": service.files.get(name).name, "seconds": SECONDS_KEPT}
    return CompactJSON(content | left_of(request, name))


async def progress(request: Request) -> Response:
    """Answer GET /api/progress?ticket=...: the number of a file's sentences that are done, and of all."""
    done, count = service_of(request).files.progress(request.query_params.get("ticket", ""))
    return CompactJSON({"done": done, "count": count})


def note_terms(
    translator: Translator | Pivot,
    parts: list[dict[str, Any]],
    asked: list[str],
    glossary: tuple[tuple[str, str], ...],
) -> None:
    """Add to each sentence, under not_followed, the glossary terms whose translations are missing from its translation.
    `asked`: the texts of the sentences that were translated, in which the search has found the terms."""
    texts = iter(asked)
    for part in parts:
        if "source" in part:
            entries = entries_for(translator, next(texts), glossary)
            missing = phrases_missing(translator, [wanted for _, wanted in entries], part["translation"])
            part["not_followed"] = [pair for pair in entries if pair[1] in missing]


_FOLDER = Path(__file__).parent

# The pages load nothing from elsewhere, and no code or style stands in them; the browser holds them to that.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


_PAGES = {
    "/": ((_FOLDER / "page.html").read_bytes(), "text/html"),
    "/page.css": ((_FOLDER / "page.css").read_bytes(), "text/css"),
    "/page.js": ((_FOLDER / "page.js").read_bytes(), "text/javascript"),
    "/learn.js": ((_FOLDER / "learn.js").read_bytes(), "text/javascript"),
}


async def page(request: Request) -> Response:
    """Answer GET of the page and of the files that it loads."""
    content, media_type = _PAGES[request.scope["path"]]
    return Response(content, media_type=media_type, headers=_HEADERS)


async def specification(request: Request) -> Response:
    """Answer GET /spec: the OpenAPI description."""
    return CompactJSON(openapi(public_address(request), service_of(request).gate.wants_keys))


async def health(request: Request) -> Response:
    """Answer GET /health: the process is running."""
    return CompactJSON({"status": "ok"})


async def ready(request: Request) -> Response:
    """Answer GET /ready: the server accepts requests."""
    service = service_of(request)
    if service.is_ending:
        return CompactJSON({"status": "ending"}, status_code=503, headers={"Retry-After": "5"})
    if service.models.waiting > service.settings.limits.waiting // 2:
        return CompactJSON({"status": "busy"}, status_code=503, headers={"Retry-After": "5"})
    return CompactJSON({"status": "ready", "models": [one.name for one in service.models.loaded]})


async def metrics(request: Request) -> Response:
    """Answer GET /metrics, for Prometheus."""
    return Response(service_of(request).measures.text(), media_type="text/plain; version=0.0.4")
