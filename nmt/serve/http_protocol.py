"""HTTP as bytes come, and what uvicorn leaves to a proxy: limits on the size and time of a request's head."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 30.0

_REFUSAL = b"HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class GuardedProtocol(HttpToolsProtocol):  # type: ignore[misc,unused-ignore]
    """A connection whose client must send the head of each request within HEAD_SECONDS and MOST_HEAD_BYTES."""

    _head_bytes, _in_head = 0, True
    _too_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """The head of the first request is awaited from now on."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """The head of a further request begins."""
        if not self._in_head:
            self._in_head, self._head_bytes = True, 0
            self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Bytes of a head are counted."""
        super().data_received(data)
        if self._in_head:
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
