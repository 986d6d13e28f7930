"""HTTP as bytes come and go, and what uvicorn leaves to others: limits on the size and time of a request's head,
answers in one piece, and word of who has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 30.0

_REFUSAL = b"HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


_MOST_HELD = 64 * 1024
"""Bytes of an answer that wait for the rest of it."""


class _JoinedWrites:
    """A transport that sends together what is written in one turn of the loop: head and body of an answer are then one
    call of the system and one packet, and the interpreter is let go once, not twice, while searches wait for it."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        """Whatever else a transport can do."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send with what else is written now."""
        if not self._held:
            self._loop.call_soon(self._send)
        self._held.append(data)
        self._size += len(data)
        if self._size > _MOST_HELD:
            self._send()

    def close(self) -> None:
        """Send what is held, then close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._held:
            data = b"".join(self._held)
            self._held.clear()
            self._size = 0
            if not self._transport.is_closing():
                self._transport.write(data)


class Departures:
    """Who wants to know that a client has gone: functions, called once. `has_been`: it has gone already."""

    def __init__(self) -> None:
        self.has_been = False
        self._told: list[Callable[[], object]] = []

    def add(self, tell: Callable[[], object]) -> None:
        """Call `tell` when it goes; at once where it has gone."""
        if self.has_been:
            tell()
        else:
            self._told.append(tell)

    def remove(self, tell: Callable[[], object]) -> None:
        """Who no longer wants to know."""
        if tell in self._told:
            self._told.remove(tell)

    def happen(self) -> None:
        """It has gone."""
        self.has_been = True
        told, self._told = self._told, []
        for tell in told:
            tell()


class GuardedProtocol(HttpToolsProtocol):  # type: ignore[misc,unused-ignore]
    """A connection whose client must send the head of each request within HEAD_SECONDS and MOST_HEAD_BYTES. Requests
    have its `Departures` as scope["nmt.departures"]."""

    _head_bytes, _in_head = 0, True
    _too_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """The head of the first request is awaited from now on."""
        self._departures = Departures()
        joined: Any = _JoinedWrites(transport, self.loop)
        super().connection_made(joined)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more."""
        self._stop_waiting()
        super().connection_lost(exc)
        self._departures.happen()

    def on_message_begin(self) -> None:
        """The head of a further request begins."""
        if not self._in_head:
            self._in_head, self._head_bytes = True, 0
        super().on_message_begin()
        scope: Any = self.scope
        scope["nmt.departures"] = self._departures

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Bytes of a head are counted, and one that has not come whole is awaited."""
        super().data_received(data)
        if self._in_head:
            if self._too_late is None:
                self._await_head()
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self._refuse(b"431 Request Header Fields Too Large")

    def _await_head(self) -> None:
        self._stop_waiting()
        self._too_late = self.loop.call_later(HEAD_SECONDS, self._refuse, b"408 Request Timeout")

    def _stop_waiting(self) -> None:
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None

    def _refuse(self, status: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(_REFUSAL % status)
            self.transport.close()
