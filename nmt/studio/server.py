"""Run the studio: one at a time for a folder, on the loopback address alone, with a guard that only its own page,
opened with its key by a name of this machine, gets through."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.errors import PathError
from nmt.serve.http_protocol import GuardedProtocol
from nmt.serve.server import listen_on
from nmt.serve.settings import OWN_SITES, sender_of
from nmt.studio.app import make_app
from nmt.system.files import explain, lock_alone, open_folder, read_json, remedy, write_private

_RUNNING = ".studio.json"
_GRACE = 70
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
    return Response(_CLOSED if status == 403 else "", status, _HEADERS | {"cache-control": "no-store"}, "text/html")


def serve(folder: Path, port: int, tell: Callable[[str], None], *, browser: bool) -> None:
    """Serve a folder of projects until it is ended. A second studio of the folder tells the address of the first."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder = folder.resolve()
        handle = open_folder(folder)
    except OSError as error:
        raise PathError(f"{folder}: must be a folder to write in, got {explain(error)}; {remedy(error)}") from None
    try:
        if not lock_alone(handle):
            address = (read_json(folder / _RUNNING) or {}).get("address", "")
            tell(f"the studio of this folder runs already. Open {address}")
            if browser and address:
                webbrowser.open(address)
            return
        asyncio.run(_serve(folder, port, tell, browser=browser))
    finally:
        os.close(handle)


async def _serve(folder: Path, port: int, tell: Callable[[str], None], *, browser: bool) -> None:
    key = secrets.token_urlsafe(24)
    with listen_on("127.0.0.1", port, 64) as place:
        port = place.getsockname()[1]
        server: uvicorn.Server
        app = make_app(folder, lambda: setattr(server, "should_exit", True))
        how: Any = {"http": GuardedProtocol, "ws": "none", "timeout_graceful_shutdown": _GRACE, "server_header": False}
        quiet: Any = {"access_log": False, "log_config": None, "log_level": "warning"}
        server = uvicorn.Server(uvicorn.Config(Guard(app, port, key), **how, **quiet))
        address = f"http://127.0.0.1:{port}/?key={key}"
        file = folder / _RUNNING
        try:
            write_private(file, json.dumps({"address": address, "process": os.getpid()}).encode())
        except OSError as error:
            raise PathError(f"{file}: must be a file to write, got {explain(error)}; {remedy(error)}") from None
        tell(f"Open {address}")
        if browser:
            asyncio.get_running_loop().call_later(0.5, webbrowser.open, address)
        try:
            await server.serve(sockets=[place])
        finally:
            file.unlink(missing_ok=True)
