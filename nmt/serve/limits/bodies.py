"""How many bytes of requests are in memory at a time: of all together, and of each client."""

from __future__ import annotations

from collections import Counter

from nmt.serve.errors import RequestError
from nmt.serve.settings import Limits


class Bodies:
    """Bytes that have come and are not done with."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.all_bytes
        self._share = max(limits.all_bytes // 4, limits.file_bytes, limits.body_bytes)
        self._total = self._peak = 0
        self._of: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """Return how many there are."""
        return self._total

    def most_since(self) -> int:
        """Return how many there were at most since this was last asked."""
        found, self._peak = self._peak, self._total
        return found

    def room(self, client: str) -> Room:
        """Return room for a request of a client, nothing as yet."""
        return Room(self, client)

    def add(self, client: str, size: int) -> None:
        """Count more bytes. Raises RequestError: 429 beyond a client's share, 503 beyond what all may have."""
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
    """What a request takes of it, until it is given back."""

    def __init__(self, bodies: Bodies, client: str) -> None:
        self._bodies, self._client, self._size = bodies, client, 0

    def add(self, size: int) -> None:
        """Take more. Raises RequestError."""
        self._bodies.add(self._client, size)
        self._size += size

    def leave(self) -> None:
        """Give all back."""
        size, self._size = self._size, 0
        self._bodies.add(self._client, -size)
