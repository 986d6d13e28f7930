"""Concurrency slots shared fairly among clients: a client with many jobs waits behind its own, not ahead of others."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """A semaphore of `places` slots, of which one client holds at most `each`; waiting clients take turns."""

    def __init__(self, places: int, each: int) -> None:
        self._free, self._each = places, each
        self._taken: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def of(self, client: str) -> AsyncIterator[None]:
        """Wait for a slot, and hold it for the duration of the block."""
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
