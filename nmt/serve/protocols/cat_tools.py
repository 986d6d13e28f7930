"""Routes of OPUS-CAT's translation engine and of OpenNMT-py's server, which CAT tools use."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nmt.inference.pivot import base
from nmt.serve.box.text_work import Answer
from nmt.serve.engine import Ask
from nmt.serve.errors import RequestError
from nmt.serve.models import ServedModel
from nmt.serve.protocols.libretranslate import asked, enter, service_of
from nmt.serve.service import Service, Wanted
from nmt.serve.web import (
    CompactJSON,
    arrive,
    count_field,
    flag_field,
    name_field,
    parse_json,
    read_body,
    read_fields,
    text_field,
    while_connected,
)


async def opus_cat(request: Request) -> Response:
    """Answer GET /MTRestService/TranslateJson for one segment. modelTag may name a model."""
    service, fields, client = await asked(request, "tokenCode")
    text = text_field(fields, "input")
    service.check([text])
    source, target = text_field(fields, "srcLangCode"), text_field(fields, "trgLangCode")
    names = {one.name for one in service.models.all}
    tag, wants_confidence = name_field(fields, "modelTag"), flag_field(fields, "confidence")
    model, _ = await service.pair(source, target, [text], tag if tag in names else None)
    found = await while_connected(request, service.translate(model, [text], Wanted(), client))
    request.scope["nmt.texts"] = [text]
    translation, confidence = found[0][0]
    return CompactJSON({"translation": translation} | ({"confidence": confidence} if wants_confidence else {}))


async def opus_cat_pairs(request: Request) -> Response:
    """Answer GET /MTRestService/ListSupportedLanguagePairs."""
    service, _, _ = await asked(request, "tokenCode")
    targets = service.models.targets
    return CompactJSON([f"{source}-{target}" for source, to in targets.items() for target in to])


async def opus_cat_tags(request: Request) -> Response:
    """Answer GET /MTRestService/GetLanguagePairModelTags with the names of a pair's models, each of which may be a
    modelTag."""
    service, fields, _ = await asked(request, "tokenCode")
    pair = base(text_field(fields, "srcLangCode")), base(text_field(fields, "trgLangCode"))
    return CompactJSON([one.name for one in service.models.all if (base(one.source), base(one.target)) == pair])


async def opus_cat_login(request: Request) -> Response:
    """Answer GET /MTRestService/Login: the token is the key, and no session is created."""
    fields = await read_fields(request, service_of(request))
    return CompactJSON(text_field(fields, "tokenCode", "0"))


async def open_nmt(request: Request) -> Response:
    """Answer POST /translator/translate with a list of sources; `id` is the number of a model. The answer is one list
    per rank with the translations of all sources, as in that server (onmt/bin/server.py)."""
    service = service_of(request)
    arrive(request, service)
    given = parse_json(await read_body(request, service))
    client = enter(request, None)
    if not isinstance(given, list) or not given or not all(isinstance(one, dict) for one in given):
        raise RequestError(400, 'body: must be a list such as [{"id": 0, "src": "..."}], got another')
    texts = [text_field(one, "src") for one in given]
    numbers = {count_field(one, "id") for one in given}
    counts = {max(1, count_field(one, "n_best", 1)) for one in given}
    wants_confidence = [flag_field(one, "confidence") for one in given]
    models = service.models.all
    if len(numbers) > 1 or len(counts) > 1:
        raise RequestError(400, "id, n_best: must be the same for a whole request, got several; send separate requests")
    (number,), (count,) = numbers, counts
    if number >= len(models):
        raise RequestError(400, f"id: must be the number of a model, 0 to {len(models) - 1}, got {number}")
    service.check(texts, count - 1)
    found = await while_connected(request, _ranked(service, models[number], texts, count, client))
    return CompactJSON(
        [
            [
                {"src": text, "tgt": own[rank][0][0], "n_best": count, "pred_score": own[rank][1]}
                | ({"confidence": own[rank][0][1]} if wanted else {})
                for text, own, wanted in zip(texts, found, wants_confidence, strict=True)
            ]
            for rank in range(count)
        ]
    )


async def _ranked(
    service: Service, model: ServedModel, texts: list[str], count: int, client: str
) -> list[list[tuple[Answer, float]]]:
    """Return for each text its translations of each rank, with the sum of their sentences' scores."""
    async with service.in_time(service.settings.limits.seconds):
        cuts = [await service.cut(model, [text], Wanted(split=False), client) for text in texts]
        rows = [row for cut in cuts for row in cut.rows]
        found = await service.in_pieces(
            model, [asked for _, asked in rows], Ask(count, any(needed for needed, _ in rows)), client
        )
        results, at = [], 0
        for cut in cuts:
            own = found[at : at + len(cut.rows)]
            at += len(own)
            (ranks,) = await service.join(cut, own, count, client, distinct=False)
            scores = [sum(ts[min(rank, len(ts) - 1)].score for ts in own) for rank in range(count)]
            results.append(list(zip(ranks, scores, strict=True)))
    service.count(model, rows, client, sum(map(len, texts)))
    return results


async def open_nmt_models(request: Request) -> Response:
    """Answer GET /translator/models."""
    models = service_of(request).models.all
    return CompactJSON([{"model_id": n, "status": "loaded", "name": one.name} for n, one in enumerate(models)])


ROUTES = [
    Route("/MTRestService/TranslateJson", opus_cat, methods=["GET", "POST"]),
    Route("/MTRestService/ListSupportedLanguagePairs", opus_cat_pairs, methods=["GET"]),
    Route("/MTRestService/GetLanguagePairModelTags", opus_cat_tags, methods=["GET"]),
    Route("/MTRestService/Login", opus_cat_login, methods=["GET"]),
    Route("/translator/translate", open_nmt, methods=["POST"]),
    Route("/translator/models", open_nmt_models, methods=["GET"]),
]
