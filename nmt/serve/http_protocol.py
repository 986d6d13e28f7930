"""HTTP protection that uvicorn does not provide: limits of a request's head, answers in one piece, and departures."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 30.0

_MOST_FILES, _OTHER_FILES = 65_536, 64
"""File descriptors to request from the system, and those reserved for uses other than connections."""

_REFUSAL = b"HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

_MOST_HELD = 64 * 1024
"""Bytes of an answer to buffer before sending them."""
_LINGER_SECONDS, _LINGER_BYTES = 2.0, 64 * 2**20


class _JoinedWrites:
    """A transport that joins all writes of one iteration of the loop: head and body of an answer are one system call
    and one packet, for which the interpreter is given up once. awaits_more: whether a request has come in part."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held: list[bytes] = []
        self._size = 0
        self.awaits_more = self._is_lingering = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Buffer `data`, to be sent with the other writes of this loop iteration."""
        if not self._held:
            self._loop.call_soon(self._send)
        self._held.append(data)
        self._size += len(data)
        if self._size > _MOST_HELD:
            self._send()

    def close(self) -> None:
        """Send the buffered data, then close. A client that is still sending would lose the answer (RFC 9112, section
        9.6), so first give it time to read."""
        self._send()
        if not self.awaits_more or not self._transport.can_write_eof():
            self._transport.close()
        elif not self.is_closing():
            self._is_lingering = True
            self._transport.write_eof()
            self._transport.resume_reading()
            self._loop.call_later(_LINGER_SECONDS, self._transport.close)

    def discard(self, data: bytes) -> None:
        """Drop bytes that come after the answer, up to a limit."""
        self._size += len(data)
        if self._size > _LINGER_BYTES:
            self._transport.close()

    def is_closing(self) -> bool:
        """Return whether the connection is closed or being closed."""
        return self._is_lingering or self._transport.is_closing()

    def _send(self) -> None:
        if self._held:
            data = b"".join(self._held)
            self._held.clear()
            self._size = 0
            if not self.is_closing():
                self._transport.write(data)


class Connections:
    """All connections of the process, at most `most` at a time. When one more arrives, the connection that has waited
    longest for its first request is closed, or else the new one."""

    def __init__(self) -> None:
        self.most = 0  # no limit
        self._count = 0
        self._fresh: dict[GuardedProtocol, None] = {}

    def admit(self, one: GuardedProtocol) -> bool:
        """Count a connection; return False if it must be closed."""
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
        """Record that a connection has sent the head of a request."""
        self._fresh.pop(one, None)

    def leave(self, one: GuardedProtocol) -> None:
        """Remove a closed connection."""
        self._count -= 1
        self._fresh.pop(one, None)


_connections = Connections()


def bound_connections() -> int:
    """Limit the connections to the file descriptors that are left; return how many may wait to be accepted."""
    try:
        import resource
    except ImportError:  # Windows, which sets no such limit
        _connections.most = _MOST_FILES
        return 2048
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, _MOST_FILES) if hard != resource.RLIM_INFINITY else 10_240  # macOS: OPEN_MAX
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    backlog = max(8, min(2048, soft // 4))  # the event loop may accept this many before our callback runs
    _connections.most = max(8, soft - backlog - _OTHER_FILES)
    return backlog


class GuardedProtocol(HttpToolsProtocol):  # type: ignore[misc,unused-ignore]
    """A connection whose client must send the head of each request within HEAD_SECONDS and MOST_HEAD_BYTES. A request's
    scope has a future, "nmt.departed", which is done when the client has disconnected."""

    _head_bytes, _in_head, _silent_bytes, _has_news = 0, True, 0, False
    _too_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the timer for the head of the first request."""
        if not _connections.admit(self):
            transport.abort()
        self._departed = self.loop.create_future()
        # Else an answer's second packet waits for the client's acknowledgement of the first, 40 ms on Linux. asyncio
        # sets this for some sockets, but for none on Windows.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        joined: Any = _JoinedWrites(transport, self.loop)
        self._writes: _JoinedWrites = joined
        super().connection_made(joined)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer and tell who waits for a departure."""
        _connections.leave(self)
        self._stop_waiting()
        super().connection_lost(exc)
        self._departed.set_result(None)

    def on_message_begin(self) -> None:
        """Begin the head of a further request."""
        self._has_news = self._writes.awaits_more = True
        if not self._in_head:
            self._in_head, self._head_bytes = True, 0
        super().on_message_begin()
        scope: Any = self.scope
        scope["nmt.departed"] = self._departed

    def on_headers_complete(self) -> None:
        """Stop the timer: the head is complete."""
        self._in_head, self._has_news = False, True
        _connections.has_asked(self)
        self._stop_waiting()
        super().on_headers_complete()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a header field; refuse one after the body (a trailer), which nothing here uses."""
        if self._in_head:
            super().on_header(name, value)
        else:
            self._refuse(b"400 Bad Request")

    def on_body(self, body: bytes) -> None:
        """Handle a part of the body."""
        self._has_news = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request. A large last part of its body has paused reading, and only reading tells that the client has
        gone; requests that wait for it keep the pause."""
        self._writes.awaits_more = False
        super().on_message_complete()
        if not self.pipeline:
            self.flow.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes. Count those of a head, and those that are neither head nor body (chunk sizes and
        trailers, which the parser collects), and start the timer for an incomplete head."""
        if self.transport.is_closing():
            return self._writes.discard(data)  # the rest of a request that was answered
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
            self._writes.awaits_more = False  # no client of good will sends this
            self.transport.write(_REFUSAL % status)
            self.transport.close()
