"""Run the studio: one at a time for a folder, on the loopback address alone."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from nmt.errors import PathError
from nmt.serve.http_protocol import GuardedProtocol
from nmt.serve.server import listen_on
from nmt.studio.app import make_app
from nmt.studio.guard import Guard
from nmt.system.files import explain, lock_alone, open_folder, read_json, remedy, write_private

_RUNNING = ".studio.json"
_GRACE = 70


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
        config = uvicorn.Config(
            Guard(app, port, key),
            http=GuardedProtocol,
            ws="none",
            access_log=False,
            log_config=None,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=_GRACE,
        )
        server = uvicorn.Server(config)
        address = f"http://127.0.0.1:{port}/?key={key}"
        file = folder / _RUNNING
        write_private(file, json.dumps({"address": address, "process": os.getpid()}).encode())
        tell(f"Open {address}")
        if browser:
            asyncio.get_running_loop().call_later(0.5, webbrowser.open, address)
        try:
            await server.serve(sockets=[place])
        finally:
            file.unlink(missing_ok=True)
