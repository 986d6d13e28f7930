"""Limit the bytes of request bodies in memory, in total and per client."""

from __future__ import annotations

from collections import Counter

from nmt.serve.errors import RequestError
from nmt.serve.settings import Limits


class Bodies:
    """Counts the bytes of all requests that have been received and are not finished."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.all_bytes
        self._share = max(limits.all_bytes // 4, limits.file_bytes, limits.body_bytes)
        self._total = self._peak = 0
        self._of: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """Return the current number of bytes."""
        return self._total

    def most_since(self) -> int:
        """Return the maximum number of bytes since the last call."""
        found, self._peak = self._peak, self._total
        return found

    def room(self, client: str) -> Room:
        """Return an empty account for one request of a client."""
        return Room(self, client)

    def add(self, client: str, size: int) -> None:
        """Count `size` more bytes. Raises RequestError: 429 beyond a client's share, 503 beyond the total limit."""
        if size > 0 and self._of[client] + size > self._share:
            raise RequestError(429, f"bodies: must be at most {self._share:,} bytes at a time, got more; send later", 5)
        if size > 0 and self._total + size > self._most:
            raise RequestError(503, "server: has more to read than fits in its memory; try again later", 5)
        self._total += size
        self._peak = max(self._peak, self._total)
        self._of[client] += size
        if not self._of[client]:
            del self._of[client]


class Room:
    """The bytes that one request has taken from `Bodies`, until it returns them."""

    def __init__(self, bodies: Bodies, client: str) -> None:
        self._bodies, self._client, self._size = bodies, client, 0

    def add(self, size: int) -> None:
        """Take `size` more bytes. Raises RequestError."""
        self._bodies.add(self._client, size)
        self._size += size

    def leave(self) -> None:
        """Return all bytes."""
        size, self._size = self._size, 0
        self._bodies.add(self._client, -size)
