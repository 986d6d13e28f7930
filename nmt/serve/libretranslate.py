"""LibreTranslate's API (github.com/LibreTranslate/LibreTranslate, app.py of version 1.9): what most clients speak."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nmt.documents.passage import Markup
from nmt.serve.errors import RequestError
from nmt.serve.file_translation import FileWish
from nmt.serve.file_translation import translate_file as translate_file_of
from nmt.serve.names import language_name
from nmt.serve.service import Service, Wanted
from nmt.serve.web import (
    CompactJSON,
    arrive,
    count_field,
    file_field,
    glossary_field,
    name_field,
    read_fields,
    read_multipart,
    text_field,
    texts_field,
    while_connected,
)


def service_of(request: Request) -> Service:
    """The server's."""
    found: Service = request.app.state.service
    return found


def enter(request: Request, fields: Mapping[str, Any]) -> str:
    """The client of a request. Raises RequestError where it may not ask."""
    service = service_of(request)
    arrive(request, service)
    if "nmt.client" not in request.scope:  # the header has told nothing
        key = fields.get("api_key")
        address = request.client.host if request.client is not None else ""
        request.scope["nmt.client"] = service.gate.enter(key if isinstance(key, str) else None, address)
    client: str = request.scope["nmt.client"]
    return client


async def translate(request: Request) -> Response:
    """POST /translate."""
    service = service_of(request)
    fields = await read_fields(request, service)
    client = enter(request, fields)
    texts = texts_field(fields, "q")
    source, target = text_field(fields, "source", "auto"), text_field(fields, "target")
    markup = text_field(fields, "format", "text") or "text"
    if markup not in ("text", "html"):
        raise RequestError(400, f"format: must be text or html, got {markup[:40]!r}")
    alternatives = count_field(fields, "alternatives")
    service.check(texts, alternatives)
    model, confidence = await service.pair(source, target, texts, name_field(fields, "model"))
    kind: Markup = "html" if markup == "html" else "text"
    wanted = Wanted(kind, alternatives=0 if markup == "html" else alternatives, glossary=glossary_field(fields))
    found = await while_connected(request, service.translate(model, texts, wanted, client))
    is_list = isinstance(fields["q"], list)
    answer: dict[str, Any] = {"translatedText": [one[0] for one in found] if is_list else found[0][0]}
    if alternatives:
        others = [one[1:] for one in found]
        answer["alternatives"] = others if is_list else others[0]
    if source.lower() == "auto":
        detected = {"confidence": round(100 * confidence, 1), "language": model.source}
        answer["detectedLanguage"] = [detected] * len(texts) if is_list else detected
    request.scope["nmt.texts"] = texts
    return CompactJSON(answer)


async def detect(request: Request) -> Response:
    """POST /detect."""
    service = service_of(request)
    fields = await read_fields(request, service)
    enter(request, fields)
    texts = texts_field(fields, "q")
    service.check(texts)
    ranked = await asyncio.to_thread(service.detector.ranked, " ".join(texts)[:5000])
    found = [{"confidence": round(100 * score, 1), "language": code} for code, score in ranked[:5] if score >= 0.01]
    return CompactJSON(found or [{"confidence": 0.0, "language": ranked[0][0]}])


async def languages(request: Request) -> Response:
    """GET /languages."""
    targets = service_of(request).models.targets
    sources = [{"code": code, "name": language_name(code), "targets": to} for code, to in targets.items()]
    # A language that is only translated into is listed as well, without targets: clients look names up here.
    only = {code for to in targets.values() for code in to} - targets.keys()
    return CompactJSON(sources + [{"code": c, "name": language_name(c), "targets": []} for c in sorted(only)])


async def frontend_settings(request: Request) -> Response:
    """GET /frontend/settings."""
    service = service_of(request)
    limits, models = service.settings.limits, service.models
    first = models.all[0]
    pair = {
        "source": {"code": first.source, "name": language_name(first.source)},
        "target": {"code": first.target, "name": language_name(first.target)},
    }
    return CompactJSON(
        {
            "apiKeys": service.gate.wants_keys,
            "charLimit": limits.characters or -1,
            "filesTranslation": True,
            "frontendTimeout": 500,
            "keyRequired": service.gate.wants_keys,
            "language": pair,
            "suggestions": False,
            "supportedFilesFormat": [f".{name}" for name in service.files.formats],
        }
    )


async def suggest(request: Request) -> Response:
    """POST /suggest: this server learns nothing from its users."""
    raise RequestError(403, "suggest: is not offered by this server")


async def translate_file(request: Request) -> Response:
    """POST /translate_file."""
    service = service_of(request)
    fields = await read_multipart(request, service)
    client = enter(request, fields)
    wish = FileWish(
        *file_field(fields),
        text_field(fields, "source", "auto"),
        text_field(fields, "target"),
        text_field(fields, "model", "") or None,
        glossary_field(fields),
    )
    name = await while_connected(request, translate_file_of(service, wish, client))
    return CompactJSON({"translatedFileUrl": str(request.url_for("download_file", name=name))})


async def download_file(request: Request) -> Response:
    """GET /download_file/NAME."""
    name, content, media_type = service_of(request).files.get(request.path_params["name"])
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return Response(content, media_type=media_type, headers=headers)


ROUTES = [
    Route("/translate", translate, methods=["POST"]),
    Route("/detect", detect, methods=["POST"]),
    Route("/languages", languages, methods=["GET"]),
    Route("/frontend/settings", frontend_settings, methods=["GET"]),
    Route("/suggest", suggest, methods=["POST"]),
    Route("/translate_file", translate_file, methods=["POST"]),
    Route("/download_file/{name}", download_file, methods=["GET"]),
]
