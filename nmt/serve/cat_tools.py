"""Routes of OPUS-CAT's translation engine and of OpenNMT-py's server, which CAT tools ask."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nmt.documents import Passage, read_passage
from nmt.serve.engine import Ask
from nmt.serve.errors import RequestError
from nmt.serve.libretranslate import enter, service_of
from nmt.serve.service import Wanted
from nmt.serve.web import CompactJSON, count_field, parse_json, read_body, read_fields, text_field, while_connected


async def opus_cat(request: Request) -> Response:
    """GET /MTRestService/TranslateJson: one segment. modelTag may name a model."""
    service = service_of(request)
    fields = await read_fields(request, service)
    client = enter(request, {"api_key": fields.get("tokenCode")})
    text = text_field(fields, "input")
    service.check([text])
    source, target = text_field(fields, "srcLangCode"), text_field(fields, "trgLangCode")
    names = {one.name for one in service.models.all}
    tag = fields.get("modelTag")
    model, _ = service.pair(source, target, [text], tag if tag in names else None)
    found = await while_connected(request, service.translate(model, [text], Wanted(), client))
    request.scope["nmt.texts"] = [text]
    return CompactJSON({"translation": found[0][0]})


async def opus_cat_pairs(request: Request) -> Response:
    """GET /MTRestService/ListSupportedLanguagePairs."""
    fields = await read_fields(request, service_of(request))
    enter(request, {"api_key": fields.get("tokenCode")})
    targets = service_of(request).models.targets
    return CompactJSON([f"{source}-{target}" for source, to in targets.items() for target in to])


async def opus_cat_login(request: Request) -> Response:
    """GET /MTRestService/Login: the token is the key, and no session is made."""
    fields = await read_fields(request, service_of(request))
    return CompactJSON(text_field(fields, "tokenCode", "0"))


async def open_nmt(request: Request) -> Response:
    """POST /translator/translate: a list of sources; `id` is the number of a model."""
    service = service_of(request)
    given = parse_json(await read_body(request, service))
    client = enter(request, {})
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise RequestError(400, 'body: must be a list such as [{"id": 0, "src": "..."}], got another')
    texts = [text_field(one, "src") for one in given]
    service.check(texts)
    models = service.models.all
    answers: list[list[dict[str, Any]]] = []
    for one, text in zip(given, texts, strict=True):
        number = count_field(one, "id")
        model = models[number] if number < len(models) else None
        if model is None:
            raise RequestError(400, f"id: must be the number of a model, 0 to {len(models) - 1}, got {number}")
        passage: Passage = read_passage(text)
        sentences = passage.sentences
        ask = Ask(count_field(one, "n_best", 1) or 1, any(s.needs_detail for s in sentences))
        service.check([], ask.n_best - 1)
        found = await while_connected(request, service.ask(model, [s.asked for s in sentences], ask, client))
        service.measures.translated(model.name, len(sentences), len(text))
        count = max((len(translations) for translations in found), default=1)
        rows = []
        for rank in range(count):
            chosen = [ts[min(rank, len(ts) - 1)] for ts in found]
            score = sum(t.score for t in chosen)
            rows.append({"src": text, "tgt": passage.joined(chosen), "n_best": count, "pred_score": score})
        answers.append(rows)
    return CompactJSON(answers)


async def open_nmt_models(request: Request) -> Response:
    """GET /translator/models."""
    models = service_of(request).models.all
    return CompactJSON([{"model_id": n, "status": "loaded", "name": one.name} for n, one in enumerate(models)])


ROUTES = [
    Route("/MTRestService/TranslateJson", opus_cat, methods=["GET", "POST"]),
    Route("/MTRestService/ListSupportedLanguagePairs", opus_cat_pairs, methods=["GET"]),
    Route("/MTRestService/Login", opus_cat_login, methods=["GET"]),
    Route("/translator/translate", open_nmt, methods=["POST"]),
    Route("/translator/models", open_nmt_models, methods=["GET"]),
]
