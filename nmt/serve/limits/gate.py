"""Who may ask, and how often."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping

from nmt.serve.errors import RequestError
from nmt.serve.settings import Limits, hash_of

_WRONG_KEYS = 60
"""A minute, from one address; then none of its keys are looked at for a while."""
_MOST_CLIENTS = 10_000
"""Clients whose rates are remembered; whoever asked longest ago is forgotten first."""


class Gate:
    """Keys and rates. A client is its key, or where there are none its address."""

    def __init__(self, keys: Mapping[str, int], limits: Limits) -> None:
        self._keys, self._default = keys, limits.requests_per_minute
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and when that was
        self._used: OrderedDict[str, int] = OrderedDict()

    def renew(self, keys: Mapping[str, int]) -> None:
        """Other keys from now on; what clients have used stays counted."""
        self._keys = keys

    def used(self, client: str, characters: int = 0) -> int:
        """Return characters that a client has had translated since the server began, with these."""
        self._used[client] = total = self._used.pop(client, 0) + characters
        while len(self._used) > _MOST_CLIENTS:
            self._used.popitem(last=False)
        return total

    @property
    def wants_keys(self) -> bool:
        """Return whether a key is needed."""
        return bool(self._keys)

    def enter(self, key: str | None, address: str) -> str:
        """Return the client. Raises RequestError: 403 without a key that is known, 429 too often."""
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
        """A bucket of a minute's requests, which fills as time goes by."""
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
