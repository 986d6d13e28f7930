"""Run the server: listening socket, signals, and event loop."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import uvicorn

from nmt.errors import DeviceError
from nmt.serve.app import make_app
from nmt.serve.http_protocol import GuardedProtocol, bound_connections
from nmt.serve.log import written_log
from nmt.serve.models import WARM_UP
from nmt.serve.service import Service
from nmt.serve.settings import ServerSettings, is_of_this_machine
from nmt.system.files import explain
from nmt.system.heap import keep_little
from nmt.system.notices import telling_of_compilation
from nmt.system.terminal import is_live

_logger = logging.getLogger("nmt.serve")

_KEEP_ALIVE = 75
"""Seconds to keep an idle connection: longer than the usual 60 of a proxy, which would otherwise lose requests."""
_GRACE = 30
"""Seconds after SIGTERM in which current requests may finish."""

_SWITCH_SECONDS = 0.001
"""Interpreter switch interval: how long a thread that splits a long text holds the interpreter lock while a search
waits for it. Python's default of 0.005 is as long as some decoder steps."""


class _Server(uvicorn.Server):
    """A uvicorn server that reports its address, listens while requests go on, and re-raises no signals."""

    def __init__(self, config: uvicorn.Config, service: Service, address: str) -> None:
        super().__init__(config)
        self._service, self._address = service, address

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and log the address, on a terminal as one to open."""
        await super().startup(sockets)
        if is_live(sys.stderr):
            address = self._address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
            _logger.info("Open %s in a browser; Ctrl-C ends the server.", address)
        else:
            _logger.info("listening on %s", self._address)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer current requests. New connections are accepted meanwhile, so that a load balancer learns from /ready
        that the server is ending; one that has not asked yet gets its answer, too. Then stop listening."""
        begun, end = set(self.server_state.tasks), time.monotonic() + _GRACE
        for connection in list(self.server_state.connections):
            if getattr(connection, "cycle", None) is not None:
                connection.shutdown()
        await asyncio.sleep(0)  # requests that have just come begin
        self._service.is_ending = True
        while begun and not self.force_exit and time.monotonic() < end:
            _, begun = await asyncio.wait(begun, timeout=0.1)
        self.config.timeout_graceful_shutdown = max(1, int(end - time.monotonic()))
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Shut down on SIGTERM and SIGINT after answering current requests; on a second SIGINT at once."""
        loop = asyncio.get_running_loop()
        numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name)]
        former = {number: signal.getsignal(number) for number in numbers}
        for number in numbers:
            try:
                loop.add_signal_handler(number, self.handle_exit, number, None)
            except NotImplementedError:  # Windows, whose loop wakes up without
                signal.signal(number, self.handle_exit)
        try:
            yield
        finally:
            for number, handler in former.items():
                with suppress(NotImplementedError):
                    loop.remove_signal_handler(number)
                signal.signal(number, handler)


def listen_on(host: str, port: int, backlog: int = 100) -> socket.socket:
    """Return a socket that listens on an address; up to `backlog` connections wait for the loop. Raises DeviceError."""
    if not sys.platform.startswith("linux") and not is_of_this_machine(host):
        raise DeviceError(
            f"--host: must be an address of this machine alone on {sys.platform}, where no kernel ends requests that "
            f"take too much, got {host}; leave it out, or serve others from Linux (WSL is Linux)"
        )
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    # On Windows the usual option would let two servers have one port.
    found.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR), 1)
    try:
        found.bind((host, port))
        found.listen(backlog)
    except (OSError, OverflowError) as error:
        found.close()
        if isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL:
            raise DeviceError(
                f"--host: must be an address of this machine, got {host} ({explain(error)}); 127.0.0.1 is for this "
                "machine alone, 0.0.0.0 for all networks"
            ) from None
        raise DeviceError(
            f"{host}:{port}: must be free to listen on, got {explain(error)}; choose another --host or --port"
        ) from None
    return found


def serve(settings: ServerSettings, warnings: Iterable[str] = ()) -> None:
    """Log the warnings, load the models, then answer requests until SIGTERM or SIGINT. Raises NMTError."""
    keep_little()
    with written_log():
        for text in warnings:
            _logger.warning("%s", text)
        sys.setswitchinterval(_SWITCH_SECONDS)
        # It listens first, so that a second server started by mistake fails before models are loaded.
        backlog = bound_connections()
        with (
            listen_on(settings.host, settings.port, backlog) as place,
            telling_of_compilation(partial(_logger.info, "%s")),
        ):
            service = Service.begin(settings)
            config = uvicorn.Config(
                make_app(service),
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=_GRACE,
                http=GuardedProtocol,
                backlog=backlog,
            )
            host, port = place.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            asyncio.run(_Server(config, service, f"http://{shown}:{port}").serve(sockets=[place]))
            _logger.info("ended")
    if any(thread.name == WARM_UP for thread in threading.enumerate()):
        os._exit(0)  # the thread may be in LLVM, which aborts when the interpreter ends
