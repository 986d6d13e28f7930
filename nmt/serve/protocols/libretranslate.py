"""LibreTranslate's API (github.com/LibreTranslate/LibreTranslate, app.py of version 1.9), which most clients use."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from nmt.documents.passage import Markup
from nmt.inference.pivot import base
from nmt.serve import web
from nmt.serve.limits import attachment
from nmt.serve.models import language_name
from nmt.serve.service import Service, TextOptions
from nmt.serve.settings import RequestError

_SAMPLE = 5000
"""Characters of a text used to detect its language."""
_CERTAIN = 0.9
"""Probability of the target language above which a text stays unchanged: a few words may fit several languages."""


async def translate(request: Request) -> Response:
    """Answer POST /translate."""
    service, fields, client = await web.read_request(request)
    texts = web.texts_field(fields, "q")
    source, target = web.text_field(fields, "source", "auto"), web.text_field(fields, "target")
    markup = web.text_field(fields, "format", "text") or "text"
    if markup not in ("text", "html"):
        raise RequestError(400, f"format: must be text or html, got {markup[:40]!r}")
    alternatives = web.count_field(fields, "alternatives")
    service.check(texts, alternatives)
    glossary, wants_confidence = web.glossary_field(fields), web.flag_field(fields, "confidence")
    certainty = 1.0
    if is_auto := source.lower() == "auto":
        source, certainty = await _language_of(service, texts, target)
    if _is_unchanged(service, source, target):
        found = [[(text, 1.0)] for text in texts]
    else:
        model, _ = await service.pair(source, target, texts, web.name_field(fields, "model"))
        kind: Markup = "html" if markup == "html" else "text"
        wanted = TextOptions(kind, alternatives=0 if markup == "html" else alternatives, glossary=glossary)
        found = await web.while_connected(request, service.translate(model, texts, wanted, client))
        source = model.source
    is_list = isinstance(fields["q"], list)
    content: dict[str, list[Any]] = {"translatedText": [one[0][0] for one in found]}
    if alternatives:
        content["alternatives"] = [[text for text, _ in one[1:]] for one in found]
    if wants_confidence:
        content["confidence"] = [one[0][1] for one in found]
        if alternatives:
            content["alternativesConfidence"] = [[confidence for _, confidence in one[1:]] for one in found]
    answer = {name: of_texts if is_list else of_texts[0] for name, of_texts in content.items()}
    if is_auto:
        detected = {"confidence": round(100 * certainty, 1), "language": source}
        answer["detectedLanguage"] = [detected] * len(texts) if is_list else detected
    request.scope["nmt.texts"] = texts
    return web.CompactJSON(answer)


async def _language_of(service: Service, texts: Sequence[str], target: str) -> tuple[str, float]:
    """Return the detected language of texts and its confidence: a language that can be translated into `target`, or
    `target` itself (nothing to translate) only if that is certain."""
    among = [source for source, to in service.models.targets.items() if base(target) in map(base, to)]
    if not among or (len(among) == 1 and not service.detector.is_there):
        return (among or list(service.models.targets))[0], 0.0
    ranked = await asyncio.to_thread(service.detector.ranked, " ".join(texts)[:_SAMPLE], [*among, base(target)])
    return next(one for one in ranked if one[0] in among or one[1] >= _CERTAIN)


def _is_unchanged(service: Service, source: str, target: str) -> bool:
    """Return whether a text is returned unchanged, as LibreTranslate does: source and target are the same language of
    this server, and no model translates between them."""
    pairs = {(base(one), base(other)) for one, to in service.models.targets.items() for other in to}
    wanted = base(source), base(target)
    return wanted[0] == wanted[1] and wanted not in pairs and any(wanted[0] in pair for pair in pairs)


async def detect(request: Request) -> Response:
    """Answer POST /detect: this server's languages by their probabilities among all known ones."""
    service, fields, _ = await web.read_request(request)
    texts = web.texts_field(fields, "q")
    service.check(texts)
    targets = service.models.targets
    own = list(dict.fromkeys([*targets, *(one for to in targets.values() for one in to)]))
    ranked = await asyncio.to_thread(service.detector.ranked, " ".join(texts)[:_SAMPLE], own)
    best = [*ranked[:1], *(one for one in ranked[1:5] if one[1] >= 0.01)]
    return web.CompactJSON([{"confidence": round(100 * score, 1), "language": code} for code, score in best])


async def languages(request: Request) -> Response:
    """Answer GET /languages."""
    targets = web.service_of(request).models.targets
    sources = [{"code": code, "name": language_name(code), "targets": to} for code, to in targets.items()]
    # Languages that are only targets are listed too, without targets, since clients look up names here.
    only = {code for to in targets.values() for code in to} - targets.keys()
    return web.CompactJSON(sources + [{"code": c, "name": language_name(c), "targets": []} for c in sorted(only)])


async def frontend_settings(request: Request) -> Response:
    """Answer GET /frontend/settings."""
    service = web.service_of(request)
    limits, models = service.settings.limits, service.models
    first = models.all[0]
    pair = {
        "source": {"code": first.source, "name": language_name(first.source)},
        "target": {"code": first.target, "name": language_name(first.target)},
    }
    return web.CompactJSON(
        {
            "apiKeys": service.gate.wants_keys,
            "charLimit": limits.characters or -1,
            "filesTranslation": True,
            "frontendTimeout": 500,
            "keyRequired": service.gate.wants_keys,
            "language": pair,
            "suggestions": service.learning is not None,
            "supportedFilesFormat": [f".{name}" for name in service.files.formats],
        }
    )


async def suggest(request: Request) -> Response:
    """Answer POST /suggest: `s` is a better translation of `q`, and is learnt; see `learn_pair`."""
    service, fields, _ = await web.read_request(request)
    await web.learn_pair(service, fields, (web.text_field(fields, "q"), web.text_field(fields, "s")))
    return web.CompactJSON({"success": True})


async def translate_file(request: Request) -> Response:
    """Answer POST /translate_file."""
    name = await web.translated_file(request, await web.read_multipart(request, web.service_of(request)), "auto")
    answer = {"translatedFileUrl": f"{web.public_address(request)}/download_file/{name}"}
    return web.CompactJSON(answer | web.left_of(request, name))


async def download_file(request: Request) -> Response:
    """Answer GET /download_file/NAME."""
    file = web.service_of(request).files.get(request.path_params["name"])
    return Response(file.content, media_type=file.media_type, headers=attachment(file.name))
