"""HTML pages: the translator and the API description, with the files that the browser loads for them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nmt.serve.models import bleu_signature
from nmt.serve.protocols.libretranslate import public_address, service_of
from nmt.serve.protocols.openapi import openapi, spec_page
from nmt.serve.web import CompactJSON

_FOLDER = Path(__file__).parent

# The pages load nothing from elsewhere, and no code or style stands in them; the browser holds them to that.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def _file(name: str, media_type: str) -> Route:
    content = (_FOLDER / name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(content, media_type=media_type, headers=_HEADERS)

    return Route("/" if name == "page.html" else f"/{name}", answer, methods=["GET"])


async def specification(request: Request) -> Response:
    """Answer GET /spec: the OpenAPI description."""
    return CompactJSON(openapi(public_address(request), service_of(request).gate.wants_keys))


async def documentation(request: Request) -> Response:
    """Answer GET /docs: the API description as a page, with the models of this server."""
    await asyncio.to_thread(bleu_signature)  # loads a library, once
    models = [one.about for one in service_of(request).models.all]
    return Response(spec_page(public_address(request), models), media_type="text/html", headers=_HEADERS)


ROUTES = [
    _file("page.html", "text/html"),
    _file("page.css", "text/css"),
    _file("page.js", "text/javascript"),
    _file("learn.js", "text/javascript"),
    _file("docs.js", "text/javascript"),
    Route("/spec", specification, methods=["GET"]),
    Route("/openapi.json", specification, methods=["GET"]),
    Route("/docs", documentation, methods=["GET"]),
]
