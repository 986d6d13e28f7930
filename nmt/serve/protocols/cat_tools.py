"""The protocols of CAT tools: OPUS-CAT's translation engine, and XML-RPC as the Moses server speaks it (OmegaT)."""

from __future__ import annotations

import re
import xmlrpc.client
from typing import Any
from xml.parsers.expat import ExpatError

from starlette.requests import Request
from starlette.responses import Response

from nmt.inference.pivot import base
from nmt.serve import web
from nmt.serve.service import TextOptions
from nmt.serve.settings import RequestError


async def opus_cat(request: Request) -> Response:
    """Answer GET /MTRestService/TranslateJson for one segment. modelTag may name a model."""
    service, fields, client = await web.read_request(request, "tokenCode")
    text = web.text_field(fields, "input")
    service.check([text])
    source, target = web.text_field(fields, "srcLangCode"), web.text_field(fields, "trgLangCode")
    names = {one.name for one in service.models.all}
    tag, wants_confidence = web.name_field(fields, "modelTag"), web.flag_field(fields, "confidence")
    model, _ = await service.pair(source, target, [text], tag if tag in names else None)
    found = await web.while_connected(request, service.translate(model, [text], TextOptions(), client))
    request.scope["nmt.texts"] = [text]
    translation, confidence = found[0][0]
    return web.CompactJSON({"translation": translation} | ({"confidence": confidence} if wants_confidence else {}))


async def opus_cat_pairs(request: Request) -> Response:
    """Answer GET /MTRestService/ListSupportedLanguagePairs."""
    service, _, _ = await web.read_request(request, "tokenCode")
    return web.CompactJSON([f"{source}-{target}" for source, to in service.models.targets.items() for target in to])


async def opus_cat_tags(request: Request) -> Response:
    """Answer GET /MTRestService/GetLanguagePairModelTags with the names of a pair's models, for modelTag."""
    service, fields, _ = await web.read_request(request, "tokenCode")
    pair = base(web.text_field(fields, "srcLangCode")), base(web.text_field(fields, "trgLangCode"))
    return web.CompactJSON([one.name for one in service.models.all if (base(one.source), base(one.target)) == pair])


async def opus_cat_login(request: Request) -> Response:
    """Answer GET /MTRestService/Login: the token is the key, and no session is created."""
    fields = await web.read_fields(request, web.service_of(request))
    return web.CompactJSON(web.text_field(fields, "tokenCode", "0"))


_METHODS = ["system.listMethods", "translate"]
# XML has no other characters, however they are written.
_NOT_IN_XML = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


async def xml_rpc(request: Request) -> Response:
    """Answer POST /RPC2: `translate` takes and returns a struct with `text`, and returns `confidence` if it is given as
    true; `system.listMethods` lists both. The query may have source, target, model and api_key. Errors are faults."""
    service = web.service_of(request)
    try:
        query = web.decoded(request.scope.get("query_string", b""), "query string")
        fields = dict(web.parse_pairs(query, "query string"))
        client = web.admit_client(request, fields.get("api_key"))  # before the body is read
    except RequestError as error:
        return _answer(xmlrpc.client.Fault(error.status, error.message))
    body = await web.read_body(request, service)
    try:
        found = await _call(request, fields, client, body)
    except RequestError as error:
        found = xmlrpc.client.Fault(error.status, error.message)
    return _answer(found)


def _answer(found: Any) -> Response:
    """Return a value or a fault as an XML-RPC response."""
    content = found if isinstance(found, xmlrpc.client.Fault) else (found,)
    return Response(xmlrpc.client.dumps(content, methodresponse=True), media_type="text/xml")


async def _call(request: Request, fields: dict[str, str], client: str, body: bytes) -> Any:
    """Return the result of a method. Raises RequestError."""
    service = web.service_of(request)
    method, params = _parsed(web.decoded(body))
    if method == "system.listMethods":
        return _METHODS
    if method != "translate":
        raise RequestError(404, f"method: must be one of {', '.join(_METHODS)}, got another")
    if len(params) != 1 or not isinstance(params[0], dict):
        raise RequestError(400, "translate: must be given a struct with text, got another")
    text = web.text_field(params[0], "text")
    service.check([text])
    wants_confidence = web.flag_field(params[0], "confidence")
    first = service.models.all[0]
    source, target = fields.get("source", first.source), fields.get("target", first.target)
    model, _ = await service.pair(source, target, [text], web.name_field(fields, "model"))
    request.scope["nmt.texts"] = [text]
    answers = await web.while_connected(request, service.translate(model, [text], TextOptions(), client))
    translated, confidence = answers[0][0]
    answer = {"text": _NOT_IN_XML.sub("\ufffd", translated)}
    return answer | {"confidence": confidence} if wants_confidence else answer


def _parsed(text: str) -> tuple[str | None, tuple[Any, ...]]:
    """Return method and arguments of a call without declarations, such as entities. Raises RequestError."""
    if "<!DOCTYPE" in text:
        raise RequestError(400, "body: must be XML-RPC without a document type, got one; leave it out")
    try:
        params, method = xmlrpc.client.loads(text)
    except (ExpatError, xmlrpc.client.Error, ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
        raise RequestError(400, "body: must be a call of XML-RPC, got something else; send one") from None
    return method, params
