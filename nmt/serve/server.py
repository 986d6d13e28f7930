"""Run the server: listening socket, signals, and event loop."""

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
"""Seconds to keep an idle connection: longer than the usual 60 of a proxy, which would otherwise lose requests."""
_GRACE = 30
"""Seconds after SIGTERM in which current requests may finish."""


_SWITCH_SECONDS = 0.001
"""Interpreter switch interval: how long a thread that splits a long text holds the interpreter lock while a search
waits for it. Python's default of 0.005 is as long as some decoder steps."""


class _Server(uvicorn.Server):
    """A uvicorn server that reports its address, marks the service as ending, and does not re-raise signals."""

    def __init__(self, config: uvicorn.Config, service: Service, address: str) -> None:
        super().__init__(config)
        self._service, self._address = service, address

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and log the address."""
        await super().startup(sockets)
        _logger.info("listening on %s", self._address)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Shut down on SIGTERM and SIGINT after answering current requests; on a second SIGINT at once."""
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
    """Return a socket bound to the address. Raises DeviceError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol, asyncio sets TCP_NODELAY on each connection. Without it an answer's second packet waits
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
    """Load the models, then answer requests until SIGTERM or SIGINT. Raises NMTError."""
    keep_little()
    begin_log()
    sys.setswitchinterval(_SWITCH_SECONDS)
    # The address is bound first, so that a second server started by mistake fails before models are loaded.
    with bind(settings.host, settings.port) as place:
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
