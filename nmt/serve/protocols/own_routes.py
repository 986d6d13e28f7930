"""Routes of the web page, of models that learn (docs/learning.md), and of operation: files of the page, sentences with
their words, completions while typing, confirmed pairs, health and metrics, the API description."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from nmt.errors import NMTError
from nmt.inference.pipeline import entries_for, phrases_missing
from nmt.inference.pivot import Pivot
from nmt.inference.translation import Translation
from nmt.inference.translator import Translator
from nmt.learning.learning_translator import LearningTranslator
from nmt.learning.memory import Pair
from nmt.serve import web
from nmt.serve.box.box import BoxJob
from nmt.serve.engine import Ask
from nmt.serve.limits import SECONDS_KEPT
from nmt.serve.models import MARK, Learning, bleu_signature, check_room, language_name
from nmt.serve.routes import openapi
from nmt.serve.service import TextOptions
from nmt.serve.settings import RequestError

_MOST_TYPED = 2_000
"""Maximum characters of a sentence to complete: the model reads no more, and a running thread cannot be stopped."""
_MOST_TICKET = 100


async def models(request: Request) -> Response:
    """Answer GET /api/models."""
    service = web.service_of(request)
    await asyncio.to_thread(bleu_signature)  # loads a library, once
    found = []
    for one in service.models.all:
        found.append(one.about | {"source_name": language_name(one.source), "target_name": language_name(one.target)})
    limits = service.settings.limits
    return web.CompactJSON(
        {
            "models": found,
            "key_required": service.gate.wants_keys,
            "limits": {"characters": limits.characters, "alternatives": limits.alternatives},
            "formats": service.files.formats,
            "learns": service.learning is not None,
        }
    )


async def sentences(request: Request) -> Response:
    """Answer POST /api/sentences: a text's sentences with words, probabilities, attention, and terms not followed."""
    service, fields, client = await web.read_request(request)
    text = web.text_field(fields, "q")
    count = web.count_field(fields, "alternatives")
    service.check([text], count)
    glossary = web.glossary_field(fields)
    model = await web.requested_model(service, fields, [text])

    async def work() -> list[dict[str, Any]]:
        async with service.in_time(service.settings.limits.seconds):
            cut = await service.cut(model, [text], TextOptions(), client, aside=True)
            asked = [one for _, one in cut.rows]
            found = await service.in_pieces(model, asked, Ask(count + 1, True, glossary), client)
            service.count(model, asked, client, len(text))
            seconds = 4.0 + len(text) * (count + 1) / 20_000
            parts: list[dict[str, Any]] = await service.box.run(
                BoxJob("shown", (cut.passages, found), "q", seconds), client
            )
            if glossary:
                await asyncio.to_thread(note_terms, model.engine.translator, parts, asked, glossary)
            return parts

    return web.CompactJSON({"parts": await web.while_connected(request, work()), "model": model.name})


async def complete(request: Request) -> Response:
    """Answer POST /api/complete: translations of a sentence that begin with the typed text."""
    service, fields, client = await web.read_request(request)
    text, typed = web.text_field(fields, "q"), web.text_field(fields, "typed", "")
    count = max(1, web.count_field(fields, "count", 3))
    service.check([text, typed], min(count, 10) - 1)
    for name, one in (("q", text), ("typed", typed)):
        if len(one) > _MOST_TYPED:
            raise RequestError(
                400, f"{name}: must be a sentence of at most {_MOST_TYPED:,} characters, got {len(one):,}"
            )
    model = await web.requested_model(service, fields, [text])

    async def work() -> list[Translation]:
        async with service.in_time(service.settings.limits.seconds):
            try:
                return await service.sessions.complete(model, client, text, typed, count)
            except NMTError as error:  # the model's settings do not allow completions
                raise RequestError(400, str(error)) from None

    found = await web.while_connected(request, work())
    sure = [round(one.confidence, 4) for one in found]
    return web.CompactJSON({"completions": [one.text for one in found], "confidence": sure})


async def file(request: Request) -> Response:
    """Answer POST /api/file, like /translate_file; `ticket` is a key under which /api/progress reports progress."""
    service = web.service_of(request)
    fields = await web.read_multipart(request, service)
    ticket = web.text_field(fields, "ticket", "")
    if len(ticket) > _MOST_TICKET:
        raise RequestError(400, f"ticket: must have at most {_MOST_TICKET} characters, got {len(ticket):,}")
    name = await web.translated_file(request, fields, ticket=ticket)
    content = {"url": f"download_file/{name}", "name": service.files.get(name).name, "seconds": SECONDS_KEPT}
    return web.CompactJSON(content | web.left_of(request, name))


async def progress(request: Request) -> Response:
    """Answer GET /api/progress?ticket=...: the number of a file's sentences that are done, and of all."""
    done, count = web.service_of(request).files.progress(request.query_params.get("ticket", ""))
    return web.CompactJSON({"done": done, "count": count})


def note_terms(
    translator: Translator | Pivot, parts: list[dict[str, Any]], asked: list[str], glossary: tuple[tuple[str, str], ...]
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
    return web.CompactJSON(openapi(web.public_address(request), web.service_of(request).gate.wants_keys))


async def health(request: Request) -> Response:
    """Answer GET /health: the process is running."""
    return web.CompactJSON({"status": "ok"})


async def ready(request: Request) -> Response:
    """Answer GET /ready: the server accepts requests."""
    service = web.service_of(request)
    if service.is_ending or service.models.waiting > service.settings.limits.waiting // 2:
        status = "ending" if service.is_ending else "busy"
        return web.CompactJSON({"status": status}, status_code=503, headers={"Retry-After": "5"})
    return web.CompactJSON({"status": "ready", "models": [one.name for one in service.models.loaded]})


async def metrics(request: Request) -> Response:
    """Answer GET /metrics, for Prometheus."""
    return Response(web.service_of(request).measures.text(), media_type="text/plain; version=0.0.4")


_MOST_MATCHES, _LEAST = 5, 0.7
_RECENT, _CHECKS = 20, 5


async def learn(request: Request) -> Response:
    """Answer POST /api/learn: learn that `translation` is a good one of `q`."""
    service, fields, _ = await web.read_request(request)
    pair = web.text_field(fields, "q"), web.text_field(fields, "translation")
    model, found = await web.learn_pair(service, fields, pair)
    name = model.name.partition(MARK)[0]
    return web.CompactJSON(
        _shown(found.pair)
        | {
            "model": f"{name}{MARK}{found.pair.project}" if found.pair.project else name,
            "note": found.note,
            "seconds": round(found.seconds, 4),
        }
    )


async def undo(request: Request) -> Response:
    """Answer POST /api/undo: the model forgets the pair of this number."""
    learning, fields, translator, project = await _place(request)
    number = web.count_field(fields, "number")

    def work() -> Pair:
        if translator.memory.pair(number).project != project:
            raise RequestError(400, f"number: must be that of a pair of this project, got {number}; see /api/learning")
        return translator.undo(number)

    return web.CompactJSON(_shown(await learning.run(work)))


async def resume(request: Request) -> Response:
    """Answer POST /api/resume: learn again at the full rate."""
    learning, _, translator, project = await _place(request)

    def work() -> dict[str, Any]:
        check_room(translator, project)
        translator.resume(project)
        return _state(translator, project)

    return web.CompactJSON(await learning.run(work))


async def state(request: Request) -> Response:
    """Answer GET /api/learning: what a project has learnt, and whether it still does."""
    learning, _, translator, project = await _place(request)
    return web.CompactJSON(await learning.run(lambda: _state(translator, project)))


async def matches(request: Request) -> Response:
    """Answer POST /api/matches: pairs of the memory whose sources are like `q`."""
    learning, fields, translator, project = await _place(request)
    text = web.text_field(fields, "q")
    web.service_of(request).check([text])
    found = await learning.run(lambda: translator.matches(text, project=project, least=_LEAST, most=_MOST_MATCHES))
    return web.CompactJSON({"matches": [_shown(one.pair) | {"similarity": one.similarity} for one in found]})


async def _place(request: Request) -> tuple[Learning, dict[str, Any], LearningTranslator, str]:
    """Return what learns, and a request's fields, learning translator and project. Raises RequestError."""
    service, fields, _ = await web.read_request(request)
    learning, model = web.learning_of(service), await web.requested_model(service, fields, [])
    return learning, fields, *learning.place(model, web.text_field(fields, "project", ""))


def _state(translator: LearningTranslator, project: str) -> dict[str, Any]:
    """Return the state of a project for programs and for the page."""
    found = translator.progress(project)
    word = "stopped" if not found.rate else "slowed" if found.rate < 1 else "learning"
    recent = translator.memory.pairs(project, newest=_RECENT)[::-1]
    checks = [
        {"number": one.number, "at": one.at, "rise": round(one.rise, 4), "rate": one.rate, "action": one.action}
        for one in found.checks[:_CHECKS]
    ]
    return {
        "project": project,
        "projects": translator.projects,
        "state": word,
        "rate": found.rate,
        "pairs": found.pairs,
        "learnt": found.learnt,
        "checks": checks,
        "recent": [_shown(one) for one in recent],
    }


def _shown(pair: Pair) -> dict[str, Any]:
    """Return a pair for programs and for the page."""
    names = ("number", "project", "source", "target", "who", "at")
    return {name: getattr(pair, name) for name in names} | {"state": pair.state.value}
