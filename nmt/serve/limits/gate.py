"""Check API keys and request rates."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping

from nmt.serve.errors import RequestError
from nmt.serve.settings import Limits, hash_of

_WRONG_KEYS = 60
"""Wrong keys that one address may send per minute; beyond that it gets a 429."""
_MOST_CLIENTS = 10_000
"""Clients whose rates and usage are kept; the least recently active one is dropped first."""


class Gate:
    """Checks keys and rates. A client is identified by its key, or by its address if the server has no keys."""

    def __init__(self, keys: Mapping[str, int], limits: Limits) -> None:
        self._keys, self._default = keys, limits.requests_per_minute
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and the time of that count
        self._used: OrderedDict[str, int] = OrderedDict()

    def renew(self, keys: Mapping[str, int]) -> None:
        """Replace the keys; usage counts of clients are kept."""
        self._keys = keys

    def used(self, client: str, characters: int = 0) -> int:
        """Add `characters` to a client's usage; return how many characters it has had translated since the server
        started."""
        self._used[client] = total = self._used.pop(client, 0) + characters
        while len(self._used) > _MOST_CLIENTS:
            self._used.popitem(last=False)
        return total

    @property
    def wants_keys(self) -> bool:
        """Return whether a key is required."""
        return bool(self._keys)

    def enter(self, key: str | None, address: str) -> str:
        """Return the client's identity. Raises RequestError: 403 without a known key, 429 for too many requests."""
        if not self._keys:
            self._count(address, self._default)
            return address
        if not key:
            raise RequestError(403, "api_key: must be a key of this server, got none; ask its operator for one")
        digest = hash_of(key)
        if digest not in self._keys:
            self._count(f"wrong keys {address}", _WRONG_KEYS)
            raise RequestError(403, "api_key: must be a key of this server, got another; ask its operator for one")
        self._count(digest, self._keys[digest])
        return digest

    def _count(self, client: str, per_minute: int) -> None:
        """Take one request from a client's token bucket, which holds one minute's requests and refills continuously."""
        if not per_minute:
            return
        now = time.monotonic()
        left, since = self._left.pop(client, (float(per_minute), now))
        left = min(float(per_minute), left + (now - since) * per_minute / 60)
        if left >= 1:
            self._left[client] = left - 1, now
        else:
            self._left[client] = left, now
            wait = int((1 - left) * 60 / per_minute) + 1
            raise RequestError(
                429, f"requests: must be at most {per_minute} a minute, got more; try again in {wait} s", wait
            )
        while len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)
