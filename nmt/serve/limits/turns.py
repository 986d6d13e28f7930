"""Places of which each client has a few at a time: whoever asks much waits behind itself, not before others."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """So many places, of which a client has at most `each`; clients that wait take turns."""

    def __init__(self, places: int, each: int) -> None:
        self._free, self._each = places, each
        self._taken: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def of(self, client: str) -> AsyncIterator[None]:
        """Wait for a place, and have it for the length of the block."""
        mine = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(mine)
        self._give()
        try:
            await mine
            yield
        finally:
            if mine.done() and not mine.cancelled():
                self._free += 1
                self._taken[client] -= 1
                self._taken += Counter()  # drops clients with none
            self._give()

    def _give(self) -> None:
        for client in list(self._waiting) if self._free else []:
            line = self._waiting[client]
            while line and line[0].done():
                line.popleft()
            if line and self._free and self._taken[client] < self._each:
                line.popleft().set_result(None)
                self._free -= 1
                self._taken[client] += 1
                self._waiting.move_to_end(client)
            if not line:
                del self._waiting[client]
