"""Routes of OPUS-CAT's translation engine, which CAT tools use."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nmt.inference.pivot import base
from nmt.serve.protocols.requests import read_request, service_of
from nmt.serve.service import TextOptions
from nmt.serve.web import (
    CompactJSON,
    flag_field,
    name_field,
    read_fields,
    text_field,
    while_connected,
)


async def opus_cat(request: Request) -> Response:
    """Answer GET /MTRestService/TranslateJson for one segment. modelTag may name a model."""
    service, fields, client = await read_request(request, "tokenCode")
    text = text_field(fields, "input")
    service.check([text])
    source, target = text_field(fields, "srcLangCode"), text_field(fields, "trgLangCode")
    names = {one.name for one in service.models.all}
    tag, wants_confidence = name_field(fields, "modelTag"), flag_field(fields, "confidence")
    model, _ = await service.pair(source, target, [text], tag if tag in names else None)
    found = await while_connected(request, service.translate(model, [text], TextOptions(), client))
    request.scope["nmt.texts"] = [text]
    translation, confidence = found[0][0]
    return CompactJSON({"translation": translation} | ({"confidence": confidence} if wants_confidence else {}))


async def opus_cat_pairs(request: Request) -> Response:
    """Answer GET /MTRestService/ListSupportedLanguagePairs."""
    service, _, _ = await read_request(request, "tokenCode")
    targets = service.models.targets
    return CompactJSON([f"{source}-{target}" for source, to in targets.items() for target in to])


async def opus_cat_tags(request: Request) -> Response:
    """Answer GET /MTRestService/GetLanguagePairModelTags with the names of a pair's models, each of which may be a
    modelTag."""
    service, fields, _ = await read_request(request, "tokenCode")
    pair = base(text_field(fields, "srcLangCode")), base(text_field(fields, "trgLangCode"))
    return CompactJSON([one.name for one in service.models.all if (base(one.source), base(one.target)) == pair])


async def opus_cat_login(request: Request) -> Response:
    """Answer GET /MTRestService/Login: the token is the key, and no session is created."""
    fields = await read_fields(request, service_of(request))
    return CompactJSON(text_field(fields, "tokenCode", "0"))


ROUTES = [
    Route("/MTRestService/TranslateJson", opus_cat, methods=["GET", "POST"]),
    Route("/MTRestService/ListSupportedLanguagePairs", opus_cat_pairs, methods=["GET"]),
    Route("/MTRestService/GetLanguagePairModelTags", opus_cat_tags, methods=["GET"]),
    Route("/MTRestService/Login", opus_cat_login, methods=["GET"]),
]
