"""Guard the studio: only its own page, opened with its key by a name of this machine, reaches a handler."""

from __future__ import annotations

import secrets
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NAMES = ("127.0.0.1", "localhost", "[::1]")
_OWN_SITES = (b"same-origin", b"none")
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"font-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
_CLOSED = (
    b"<!doctype html><meta charset=utf-8><title>Studio</title><p>Open the studio by the address "
    b"that nmt-studio prints, or start it again."
)


class Guard:
    """ASGI middleware that lets through what has the key in its cookie, one Host that is ours, and no other page's
    Origin. `GET /?key=KEY` sets the cookie; its name has the port, since browsers send cookies to all ports."""

    def __init__(self, app: ASGIApp, port: int, key: str) -> None:
        self._app, self._key = app, key.encode()
        self._hosts = {f"{name}:{port}".encode() for name in _NAMES}
        self._cookie = f"nmt-studio-{port}=".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return  # there are no web sockets: the server closes it
        if (status := self._refusal(scope)) is not None:
            return await _answer(send, status)
        given = parse_qs(scope["query_string"].decode("latin-1")).get("key", [""])
        if scope["path"] == "/" and self._fits(given[0].encode()):
            cookie = self._cookie + self._key + b"; Path=/; HttpOnly; SameSite=Strict"
            return await _answer(send, 303, [(b"location", b"/"), (b"set-cookie", cookie)])
        cookies = [value for name, value in scope["headers"] if name == b"cookie"]
        own = [one.strip() for value in cookies for one in value.split(b";") if one.strip().startswith(self._cookie)]
        if len(own) != 1 or not self._fits(own[0].removeprefix(self._cookie)):
            return await _answer(send, 403)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                others = [one for one in message["headers"] if one[0] not in dict(_HEADERS)]
                message["headers"] = [*others, *_HEADERS]
            await send(message)

        await self._app(scope, receive, sending)

    def _refusal(self, scope: Scope) -> int | None:
        """Return the status that refuses a request by its headers alone, or None."""
        found: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            found.setdefault(name, []).append(value)
        host = found.get(b"host", [])
        if len(host) != 1 or host[0].lower() not in self._hosts:
            return 421  # DNS rebinding: another name for this address
        if found.get(b"origin", [b"http://" + host[0]]) != [b"http://" + host[0]]:
            return 403
        sites = found.get(b"sec-fetch-site", [b"none"])
        if len(sites) != 1 or sites[0] not in _OWN_SITES:
            return 403  # a link, a form, an image of another site
        return 405 if scope["method"] not in ("GET", "HEAD", "POST", "DELETE") else None

    def _fits(self, given: bytes) -> bool:
        return secrets.compare_digest(given, self._key)


async def _answer(send: Send, status: int, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    body = _CLOSED if status == 403 else b""
    own = [(b"content-type", b"text/html; charset=utf-8"), (b"cache-control", b"no-store"), *_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": [*own, *(headers or [])]})
    await send({"type": "http.response.body", "body": body})
