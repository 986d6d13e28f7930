"""HTTP as bytes come and go, and what uvicorn leaves to others: limits on the size and time of a request's head,
answers in one piece, and word of who has gone."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 30.0

_MOST_FILES, _OTHER_FILES = 65_536, 64
"""File descriptors that are wanted, and those that are not for connections."""

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


class Connections:
    """All connections of the process, `most` at a time. Where one more comes, that which has waited longest for its
    first request, or the new one, is closed."""

    def __init__(self) -> None:
        self.most = 0  # no limit
        self._count = 0
        self._fresh: dict[GuardedProtocol, None] = {}

    def admit(self, one: GuardedProtocol) -> bool:
        """Count a connection; False where it must go again."""
        self._count += 1
        is_welcome = True
        if self.most and self._count > self.most:
            oldest = next(iter(self._fresh), None)
            if is_welcome := oldest is not None:
                self._fresh.pop(oldest)
                oldest.transport.abort()
        self._fresh[one] = None
        return is_welcome

    def has_asked(self, one: GuardedProtocol) -> None:
        """A connection has sent the head of a request."""
        self._fresh.pop(one, None)

    def leave(self, one: GuardedProtocol) -> None:
        """A connection is gone."""
        self._count -= 1
        self._fresh.pop(one, None)


_connections = Connections()


def bound_connections() -> int:
    """Let there be no more connections than file descriptors, those aside that the process needs for other things, and
    return how many may wait to be accepted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, _MOST_FILES) if hard != resource.RLIM_INFINITY else _MOST_FILES
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    backlog = max(8, min(2048, soft // 4))  # so many the event loop may accept before it tells us of one
    _connections.most = max(8, soft - backlog - _OTHER_FILES)
    return backlog


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

    _head_bytes, _in_head, _silent_bytes, _has_news = 0, True, 0, False
    _too_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """The head of the first request is awaited from now on."""
        if not _connections.admit(self):
            transport.abort()
        self._departures = Departures()
        joined: Any = _JoinedWrites(transport, self.loop)
        super().connection_made(joined)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more."""
        _connections.leave(self)
        self._stop_waiting()
        super().connection_lost(exc)
        self._departures.happen()

    def on_message_begin(self) -> None:
        """The head of a further request begins."""
        self._has_news = True
        if not self._in_head:
            self._in_head, self._head_bytes = True, 0
        super().on_message_begin()
        scope: Any = self.scope
        scope["nmt.departures"] = self._departures

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._in_head, self._has_news = False, True
        _connections.has_asked(self)
        self._stop_waiting()
        super().on_headers_complete()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of a head; one behind the body (a trailer) is refused, since nobody here has use for it."""
        if self._in_head:
            super().on_header(name, value)
        else:
            self._refuse(b"400 Bad Request")

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._has_news = True
        super().on_body(body)

    def data_received(self, data: bytes) -> None:
        """Bytes of a head are counted, and one that has not come whole is awaited. So are bytes that are neither head
        nor body: sizes of chunks, and trailers, which the parser gathers."""
        self._has_news = False
        super().data_received(data)
        self._silent_bytes = 0 if self._has_news else self._silent_bytes + len(data)
        if not self._in_head and self._silent_bytes > MOST_HEAD_BYTES:
            self._refuse(b"400 Bad Request")
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
