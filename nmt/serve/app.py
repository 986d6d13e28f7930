"""The ASGI application: routes; for every request an id, metrics, a log line, and errors as its protocol has them."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from operator import attrgetter
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.errors import NMTError, lacking_resource
from nmt.serve import protocols
from nmt.serve.log import TALLY, LoopErrors, log_request
from nmt.serve.protocols import cat_tools, deepl, libretranslate, own_routes  # noqa: F401 - handlers of the routes
from nmt.serve.routes import by_path
from nmt.serve.service import Service
from nmt.serve.settings import Headers, RequestError
from nmt.serve.web import CompactJSON
from nmt.system.heap import give_back

_logger = logging.getLogger("nmt.serve")

_PREFLIGHT = {"Access-Control-Max-Age": "86400"}
"""Browsers remember the answer for a day instead of asking before each request."""
_TIDY_SECONDS, _TIDY_BYTES = 5.0, 16 * 2**20
_DEEPL = ("/v2/", "/v3/")
_REMOVED = {
    "/v3/": "is DeepL's version 3, which this server no longer has; store a glossary for each pair of languages by "
    "/v2/glossaries",
    "/translator/": "is of OpenNMT-py's server, which this server no longer speaks; send the texts to /translate",
}
"""Beginnings of paths of protocols that are removed, with the replacement of each."""
_WHILE_ENDING = ("/health", "/ready", "/metrics")
"""Paths that a server still answers while it ends."""
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,80}")

ROUTES = [
    Route(path, attrgetter(rows[0].handler)(protocols), methods=[one for row in rows for one in row.methods])
    for path, rows in by_path().items()
]
# Most requests are for a fixed path, which is looked up here: a router tries one regular expression after another, and
# wraps each handler in two more functions.
_BY_PATH = {(route.path, method): route for route in ROUTES if "{" not in route.path for method in route.methods or ()}
_HOSTLESS = "1.0"
"""The version of HTTP without a Host header (RFC 9112, section 3.2)."""
_PATHS = {path for path, _ in _BY_PATH}


class RequestMiddleware:
    """The part of handling that all requests share."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service, self._origins = app, service, service.settings.origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        name = given if given and _REQUEST_ID.fullmatch(given) else b"%016x" % random.getrandbits(64)
        started, cors = False, Headers()
        # Ignore a trailing slash instead of redirecting, since a redirect would go to the Host that the client named.
        if scope["path"] not in _PATHS and scope["path"][:-1] in _PATHS and scope["path"].endswith("/"):
            scope["path"] = scope["path"][:-1]

        async def sending(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                started, status = True, message["status"]
                closing = [(b"connection", b"close")] if self._service.is_ending else []
                message["headers"] = [*message["headers"], *cors, *closing, (b"x-request-id", name)]
            await send(message)

        measures, tally = self._service.measures, dict[str, int]()
        TALLY.set(tally)
        measures.in_flight.inc()
        try:
            hosts = sum(name == b"host" for name, _ in scope["headers"])
            if hosts != 1 and (hosts or scope["http_version"] != _HOSTLESS):
                raise RequestError(400, f"Host: must be given once, got {hosts} of it")
            cors = self._origins.admit(scope, self._service.gate.wants_keys)
            if self._service.is_ending and scope["path"] not in _WHILE_ENDING:
                raise _ending()
            if scope["method"] == "OPTIONS":
                await Response(status_code=204, headers=_PREFLIGHT)(scope, receive, sending)
            elif (route := _BY_PATH.get((scope["path"], scope["method"]))) is not None:
                response = await route.endpoint(Request(scope, receive, sending))
                await response(scope, receive, sending)
            else:
                await self._app(scope, receive, sending)
        except asyncio.CancelledError:  # the server is shutting down, and its grace period is over
            if not started:
                await _refusal(scope, _ending())(scope, receive, sending)
        except Exception as error:
            if not isinstance(error, RequestError):
                _logger.exception("request %s has failed", name.decode())
            if started:
                raise
            await _refusal(scope, error)(scope, receive, sending)
        finally:
            if (room := scope.get("nmt.room")) is not None:
                room.leave()
            seconds = time.perf_counter() - began
            measures.in_flight.dec()
            measures.answered(route_of(scope), status, seconds)
            texts = scope.get("nmt.texts") if self._service.settings.log_texts else None
            log_request(scope, name.decode(), status, seconds, texts, tally)


def _ending() -> RequestError:
    return RequestError(503, "server: is ending; try again later", 5)


def _refusal(scope: Scope, error: Exception) -> Response:
    """Return an error in the format of the request's protocol."""
    found = error if isinstance(error, RequestError) else RequestError(500, "server: internal error; see its log")
    key = "message" if scope["path"].startswith(_DEEPL) else "error"
    headers = dict(found.headers)
    if scope["method"] == "POST" and "nmt.whole" not in scope:  # the rest of the body is not read
        headers["Connection"] = "close"
    return CompactJSON({key: found.message}, status_code=found.status, headers=headers)


def route_of(scope: Scope) -> str:
    """Return the route of a request as a metric label: few distinct names, whatever clients request."""
    if scope["path"] in _PATHS:
        path: str = scope["path"]
        return path
    for route in ROUTES:
        if route.matches(scope)[0] is not Match.NONE:
            return route.path
    return "other"


async def _known_error(request: Request, error: Any) -> Response:
    """Return the answer to a request that matches no route: 404, or 405 with the methods that are allowed."""
    path, headers = request.url.path, dict(error.headers or {})
    message = f"path: must be one of this server, got {path:.200}; /spec lists them"
    if error.status_code == 405:
        methods = " or ".join(one for one in headers.get("Allow", "").split(", ") if one != "HEAD")
        message = f"method: must be {methods} for {path:.200}, got {request.method}; see /spec"
    elif removed := next((text for start, text in _REMOVED.items() if path.startswith(start)), None):
        message = f"path: {path:.200} {removed}"
    key = "message" if path.startswith(_DEEPL) else "error"
    return CompactJSON({key: message}, status_code=error.status_code, headers=headers)


def make_app(service: Service) -> Starlette:
    """Return the application of a service."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(LoopErrors())
        watch = asyncio.ensure_future(_reloading(service))
        tidying = asyncio.ensure_future(_tidying(service))
        try:
            yield
        finally:
            watch.cancel()
            tidying.cancel()
            await app.state.documents.end()
            await service.close()

    app = Starlette(routes=ROUTES, lifespan=lifespan, exception_handlers={404: _known_error, 405: _known_error})
    app.router.redirect_slashes = False
    app.add_middleware(RequestMiddleware, service=service)
    state: Any = app.state
    state.service, state.glossaries = service, deepl.Glossaries()
    state.documents = deepl.Documents()
    return app


async def _tidying(service: Service) -> None:
    """Give memory back to the system when large bodies have come and gone."""
    largest = 0
    while True:
        await asyncio.sleep(_TIDY_SECONDS)
        largest = max(largest, service.bodies.most_since())
        if largest > _TIDY_BYTES and service.bodies.total < _TIDY_BYTES:
            largest = 0
            await asyncio.to_thread(give_back)


async def _reloading(service: Service) -> None:
    """Reload the models at each SIGHUP."""
    came = asyncio.Event()
    try:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, came.set)
    except (ValueError, RuntimeError, NotImplementedError, AttributeError):
        return  # not the main thread, or a system without it
    while True:
        await came.wait()
        came.clear()
        try:
            await service.reload()
            service.measures.reloads["success"].inc()
            _logger.info("models and keys are reloaded")
        except Exception as error:  # whatever it is, the next reload is tried
            service.measures.reloads["failure"].inc()
            known = error if isinstance(error, NMTError) else lacking_resource(error)
            text = "reloading the models failed, the old ones stay in use: %s"
            _logger.error(text, known or error, exc_info=None if known else error)
