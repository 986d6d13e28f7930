"""A round in use: the server's own application with its page, mounted under /try, learning what is confirmed."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import subprocess
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psutil
from starlette.types import ASGIApp, Receive, Scope, Send

from nmt.errors import NMTError
from nmt.serve.app import make_app
from nmt.serve.service import Service
from nmt.serve.settings import ServerSettings
from nmt.storage.model_folder import find_checkpoint, load_folder_config
from nmt.studio.children import start
from nmt.studio.errors import Refused
from nmt.studio.preparing import MEMORY
from nmt.studio.projects import Project
from nmt.studio.rounds import Round
from nmt.system.files import write_private


class Trying:
    """The application of the round in use, if there is one."""

    def __init__(self) -> None:
        self._app: ASGIApp | None = None
        self._service: Service | None = None
        self._open = AsyncExitStack()
        self._of: tuple[Project, int, tuple[int, bool]] | None = None
        self._lock = asyncio.Lock()
        self._room: tuple[Project, subprocess.Popen[bytes], dict[str, Any]] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request below /try, as if it were at the root."""
        if self._app is None:
            raise Refused("no-model")
        path = scope["path"].removeprefix("/try") or "/"
        await self._app({**scope, "path": path, "raw_path": path.encode(), "root_path": ""}, receive, send)

    def about(self) -> dict[str, Any] | None:
        """Return which round is in use."""
        return None if self._of is None else {"project": self._of[0].id, "round": self._of[1]}

    async def load(self, project: Project, one: Round, threads: int) -> None:
        """Use a round as it is now; it learns what is confirmed once its training has ended. Raises Refused."""
        async with self._lock:
            try:
                stamp = find_checkpoint(one.folder).stat().st_mtime_ns, one.has_ended
                if self._of is not None and (self._of[0].id, *self._of[1:]) == (project.id, one.number, stamp):
                    return
                await self._end()
                os.chdir(project.folder)  # a round names its texts as in its folder; all other paths here are absolute
                learns = one.has_ended and not load_folder_config(one.folder).model.decoder.edit_actions
                split = not one.record.get("words")  # a point in its features ends no word
                settings = ServerSettings((one.folder,), threads=threads, learn=learns, pivot=False, split=split)
                service = await asyncio.to_thread(Service.begin, settings)
            except NMTError as error:
                raise Refused("failed", why=str(error)) from None
            app = make_app(service)
            await self._open.enter_async_context(app.router.lifespan_context(app))
            self._app, self._service, self._of = app, service, (project, one.number, stamp)

    def memories(self) -> dict[Path, Callable[[], list[tuple[str, str]]]]:
        """Return for the memory that is in use a function that returns its pairs."""
        if self._service is None or self._of is None or self._service.learning is None:
            return {}
        project, number, _ = self._of
        return {project.round_file(number) / MEMORY: self._service.learning.confirmed}

    async def _end(self) -> None:
        self._app = self._service = self._of = None
        await self._open.aclose()

    async def close(self) -> None:
        """End the application and the room."""
        self._close_room()
        await self._end()

    # ------------------------------------------------------------ for the room

    def room_of(self, project: Project) -> dict[str, Any] | None:
        """Return where others in the network reach a round of the project."""
        if self._room is None or self._room[1].poll() is not None:
            return None
        return self._room[2] if self._room[0].id == project.id else None

    async def room(self, project: Project, one: Round, *, open: bool) -> dict[str, Any]:
        """Open a round to the network, or close it: a server of its own with a key, which has nothing of the studio."""
        self._close_room()
        if not open:
            return {"open": False, "addresses": []}
        if not one.has_model:
            raise Refused("busy", state="has no model")
        if not project.values["permission"]:
            raise Refused("ask-first")
        with socket.create_server(("0.0.0.0", 0)) as place:
            port = place.getsockname()[1]
        key = secrets.token_urlsafe(9)
        keys = project.round_file(one.number, ".keys")
        write_private(keys, f"{key}\n".encode())
        where = ["--host", "0.0.0.0", "--port", str(port)]
        arguments = ["-m", "nmt", "serve", str(one.folder), *where, "--keys", str(keys)]
        child = await asyncio.to_thread(start, arguments, project.folder, one.log)
        hosts = [one.address for of in psutil.net_if_addrs().values() for one in of if one.family == socket.AF_INET]
        addresses = [f"http://{host}:{port}/" for host in hosts if not host.startswith("127.")]
        about = {"open": True, "round": one.number, "addresses": addresses or [f"http://127.0.0.1:{port}/"], "key": key}
        self._room = (project, child, about)
        return about

    def _close_room(self) -> None:
        if self._room is not None:
            project, child, about = self._room
            child.terminate()
            project.round_file(about["round"], ".keys").unlink(missing_ok=True)
            self._room = None
