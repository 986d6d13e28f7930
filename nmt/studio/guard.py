"""Guard the studio: only its own page, opened with its key by a name of this machine, reaches a handler."""

from __future__ import annotations

import secrets
from urllib.parse import parse_qs

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.serve.origins import OWN_SITES, sender_of

_NAMES = ("127.0.0.1", "localhost", "[::1]")
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_RAW = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
_CLOSED = (
    "<!doctype html><meta charset=utf-8><title>Studio</title><p>Open the studio by the address "
    "that nmt-studio prints, or start it again."
)


class Guard:
    """ASGI middleware that lets through what has the key in its cookie, one Host that is ours, and no other page's
    Origin. `GET /?key=KEY` sets the cookie; its name has the port, since browsers send cookies to all ports."""

    def __init__(self, app: ASGIApp, port: int, key: str) -> None:
        self._app, self._key = app, key.encode()
        self._hosts = {f"{name}:{port}" for name in _NAMES}
        self._cookie = f"nmt-studio-{port}="

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return  # there are no web sockets: the server closes it
        if (answer := self._answer(scope)) is not None:
            return await answer(scope, receive, send)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*(one for one in message["headers"] if one[0] not in dict(_RAW)), *_RAW]
            await send(message)

        await self._app(scope, receive, sending)

    def _answer(self, scope: Scope) -> Response | None:
        """Return the guard's own answer to a request, or None for one that the application gets."""
        hosts, origins, sites = sender_of(scope)
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return _refusal(421)  # DNS rebinding: another name for this address
        if origins not in ([], [f"http://{hosts[0]}"]) or (sites and (len(sites) > 1 or sites[0] not in OWN_SITES)):
            return _refusal(403)  # a page, a link, a form, an image of another site
        if scope["method"] not in ("GET", "HEAD", "POST", "DELETE"):
            return _refusal(405)
        key = parse_qs(scope["query_string"].decode("latin-1")).get("key", [""])[0]
        if scope["path"] == "/" and self._fits(key):
            cookie = f"{self._cookie}{key}; Path=/; HttpOnly; SameSite=Strict"
            return Response(status_code=303, headers=_HEADERS | {"location": "/", "set-cookie": cookie})
        cookies = [value.decode("latin-1") for name, value in scope["headers"] if name == b"cookie"]
        own = [one.strip() for value in cookies for one in value.split(";") if one.strip().startswith(self._cookie)]
        return None if len(own) == 1 and self._fits(own[0].removeprefix(self._cookie)) else _refusal(403)

    def _fits(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._key)


def _refusal(status: int) -> Response:
    headers = _HEADERS | {"cache-control": "no-store"}
    return Response(_CLOSED if status == 403 else "", status, headers, "text/html")
