"""The server: a socket, signals, and the loop in between."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from nmt.errors import DeviceError
from nmt.serve.app import make_app
from nmt.serve.limits.http_protocol import GuardedProtocol, bound_connections
from nmt.serve.log import begin_log
from nmt.serve.service import Service
from nmt.serve.settings import ServerSettings
from nmt.system.files import explain
from nmt.system.heap import keep_little

_logger = logging.getLogger("nmt.serve")

_KEEP_ALIVE = 75
"""Seconds for which an idle connection is kept: longer than the 60 of a usual proxy, which would else lose requests."""
_GRACE = 30
"""Seconds after SIGTERM in which requests that have begun are answered."""


_SWITCH_SECONDS = 0.001
"""For which a thread that cuts a long text keeps the interpreter while a search waits for it: Python's 0.005 are as
long as some steps."""


class _Server(uvicorn.Server):
    """One that says when it ends, and leaves the process to end by itself."""

    def __init__(self, config: uvicorn.Config, service: Service, address: str) -> None:
        super().__init__(config)
        self._service, self._address = service, address

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say where it listens as soon as it does."""
        await super().startup(sockets)
        _logger.info("listening on %s", self._address)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT end it when all is answered; a second SIGINT at once."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)

        def end(number: int) -> None:
            self._service.is_ending = True
            self.handle_exit(number, None)

        former = {number: signal.getsignal(number) for number in numbers}
        for number in numbers:
            loop.add_signal_handler(number, end, number)
        try:
            yield
        finally:
            for number, handler in former.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens there. Raises DeviceError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY on each connection. Without it an answer's second packet waits
    # for the client's acknowledgement of the first, 40 ms on Linux.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except (OSError, OverflowError) as error:
        found.close()
        raise DeviceError(
            f"{host}:{port}: must be free to listen on, got {explain(error)}; choose another --host or --port"
        ) from None
    return found


def serve(settings: ServerSettings) -> None:
    """Load the models, then answer until SIGTERM or SIGINT. Raises NMTError."""
    keep_little()
    begin_log()
    sys.setswitchinterval(_SWITCH_SECONDS)
    # The place is taken first: whoever starts a second server by mistake hears of it before models are loaded.
    with bind(settings.host, settings.port) as place:
        _logger.info(
            "loading %d models; where this version has not run on this machine before, their code is compiled first, "
            "which takes some 20 s",
            len(settings.models),
        )
        service = Service.begin(settings)
        config = uvicorn.Config(
            make_app(service),
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=_GRACE,
            http=GuardedProtocol,
            backlog=bound_connections(),
        )
        host, port = place.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        asyncio.run(_Server(config, service, f"http://{shown}:{port}").serve(sockets=[place]))
        _logger.info("ended")
