"""Limits of the server: keys and rates, request bodies in memory, fair turns for clients, and stored results."""

from __future__ import annotations

import asyncio
import pickle
import re
import secrets
import sys
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from threading import Condition
from typing import Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

from nmt.documents.forms import SUFFIXES
from nmt.inference.translation import Translation
from nmt.serve.settings import Limits, RequestError, hash_of

_WRONG_KEYS = 60
"""Wrong keys that one address may send per minute; beyond that it gets a 429."""
_MOST_CLIENTS = 10_000
"""Clients whose rates and usage are kept; the least recently active one is dropped first."""


class Gate:
    """Checks keys and rates. A client is identified by its key, or by its address if the server has no keys."""

    def __init__(self, keys: Mapping[str, int], limits: Limits) -> None:
        self.keys, self._default = keys, limits.requests_per_minute
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and the time of that count
        self._used: OrderedDict[str, int] = OrderedDict()

    def used(self, client: str, characters: int = 0) -> int:
        """Add to a client's usage; return the characters that it has had translated since the start."""
        self._used[client] = total = self._used.pop(client, 0) + characters
        while len(self._used) > _MOST_CLIENTS:
            self._used.popitem(last=False)
        return total

    @property
    def wants_keys(self) -> bool:
        """Return whether a key is required."""
        return bool(self.keys)

    def enter(self, key: str | None, address: str) -> str:
        """Return the client's identity. Raises RequestError: 403 without a known key, 429 for too many requests."""
        if not self.keys:
            self._count(address, self._default)
            return address
        if not key:
            raise RequestError(403, "api_key: must be a key of this server, got none; ask its operator for one")
        digest = hash_of(key)
        if digest not in self.keys:
            self._count(f"wrong keys {address}", _WRONG_KEYS)
            raise RequestError(403, "api_key: must be a key of this server, got another; ask its operator for one")
        self._count(digest, self.keys[digest])
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


class Bodies:
    """Counts the bytes of all requests that have been received and are not finished."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.all_bytes
        self._share = max(limits.all_bytes // 4, limits.file_bytes, limits.body_bytes)
        self.total = self._peak = 0
        self._of: Counter[str] = Counter()

    def most_since(self) -> int:
        """Return the maximum number of bytes since the last call."""
        found, self._peak = self._peak, self.total
        return found

    def add(self, client: str, size: int) -> None:
        """Count `size` more bytes. Raises RequestError: 429 beyond a client's share, 503 beyond the total limit."""
        if size > 0 and self._of[client] + size > self._share:
            raise RequestError(429, f"bodies: must be at most {self._share:,} bytes at a time, got more; send later", 5)
        if size > 0 and self.total + size > self._most:
            raise RequestError(503, "server: has more to read than fits in its memory; try again later", 5)
        self.total += size
        self._peak = max(self._peak, self.total)
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


class Ticket(Protocol):
    """A waiting sentence."""

    @property
    def gone(self) -> bool:
        """Return whether its request has been cancelled or has failed."""

    @property
    def is_bulk(self) -> bool:
        """Return whether it belongs to a long text."""


TicketT = TypeVar("TicketT", bound=Ticket)


class FullError(Exception):
    """The queue has no room for these sentences."""


class ClosedError(Exception):
    """The queue is closed."""


@dataclass
class _Lane(Generic[TicketT]):
    """Tickets by client and request; the client, and its request, whose turn it is come first."""

    clients: OrderedDict[str, deque[deque[TicketT]]] = field(default_factory=OrderedDict)
    count: int = 0

    def put(self, client: str, tickets: list[TicketT]) -> None:
        self.clients.setdefault(client, deque()).append(deque(tickets))
        self.count += len(tickets)

    def taken(self, most: int) -> list[TicketT]:
        """Remove and return up to `most` tickets, each of the next client; cancelled ones are dropped."""
        found: list[TicketT] = []
        while self.count and len(found) < most:
            client, requests = self.clients.popitem(last=False)
            tickets = requests.popleft()
            ticket = tickets.popleft()
            if tickets:
                requests.append(tickets)
            if requests:
                self.clients[client] = requests
            self.count -= 1
            found += [] if ticket.gone else [ticket]
        return found

    def drop(self, client: str) -> None:
        """Remove the cancelled requests of a client."""
        requests = self.clients.get(client, deque())
        kept = deque(tickets for tickets in requests if not tickets[0].gone)
        self.count -= sum(map(len, requests)) - sum(map(len, kept))
        if kept:
            self.clients[client] = kept
        else:
            self.clients.pop(client, None)


class FairQueue(Generic[TicketT]):
    """A queue of sentences for threads. Clients take turns, and so do requests of one client: a sentence each. Bulk
    sentences have a lane of their own; the consumer says how many of each it has room for. At most `most` may wait."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._single: _Lane[TicketT] = _Lane()
        self._bulk: _Lane[TicketT] = _Lane()
        self._closed = False
        self._changed = Condition()

    def __len__(self) -> int:
        return self._single.count + self._bulk.count

    def put(self, client: str, tickets: list[TicketT], *, accepted: bool = False) -> None:
        """Add the sentences of a request. With `accepted` the request has already started, and is not rejected because
        the queue is full. Raises FullError or ClosedError."""
        if not tickets:
            return
        with self._changed:
            if self._closed:
                raise ClosedError
            # An empty queue takes a request of any length: the limit counts the sentences already waiting.
            if not accepted and len(self) and len(self) + len(tickets) > self._most:
                raise FullError
            (self._bulk if tickets[0].is_bulk else self._single).put(client, tickets)
            self._changed.notify_all()

    def take(self, most: int, most_bulk: int, *, wait: bool) -> list[TicketT] | None:
        """Remove and return up to `most` sentences that are not bulk and up to `most_bulk` that are; with `wait`, block
        until there is at least one. Return None when the queue is closed and empty."""
        with self._changed:
            while True:
                if found := self._single.taken(most) + self._bulk.taken(most_bulk):
                    return found
                if self._closed and not len(self):
                    return None
                if not wait:
                    return []
                self._changed.wait()

    def drop(self, client: str) -> None:
        """Remove the sentences of a client's cancelled requests, which would keep others out."""
        with self._changed:
            for lane in (self._single, self._bulk):
                lane.drop(client)
            self._changed.notify_all()

    def close(self) -> None:
        """Accept nothing more; waiting sentences can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


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


T = TypeVar("T")


class Shelf(Generic[T]):
    """Stores clients' objects by name within limits; `may_go` tells whether one may be evicted."""

    def __init__(self, most_bytes: int, most: int, may_go: Callable[[T], bool] = lambda one: True) -> None:
        self._most_bytes, self._most, self._may_go = most_bytes, most, may_go
        self._bytes = 0
        self._all: dict[str, tuple[str, T, int]] = {}  # clients, objects and bytes by name, the oldest first

    def __iter__(self) -> Iterator[T]:
        return (one for _, one, _ in list(self._all.values()))

    def __len__(self) -> int:
        return len(self._all)

    def put(self, client: str, name: str, one: T, size: int = 1) -> None:
        """Store an object. Beyond the limits, evict the oldest object of the client with most bytes."""
        self.pop(name)
        self._all[name] = client, one, size
        self._bytes += size
        while len(self._all) > 1 and (self._bytes > self._most_bytes or len(self._all) > self._most):
            stored = Counter[str]()
            for owner, _, bytes_of_one in self._all.values():
                stored[owner] += bytes_of_one
            largest = max(stored, key=stored.__getitem__)
            may_go = [n for n, (_, other, _) in self._all.items() if n != name and self._may_go(other)]
            if not may_go:
                return
            self.pop(next((n for n in may_go if self._all[n][0] == largest), may_go[0]))

    def get(self, name: str) -> T | None:
        """Return the object of that name, or None."""
        return self._all[name][1] if name in self._all else None

    def of(self, client: str) -> list[T]:
        """Return a client's objects, oldest first."""
        return [one for owner, one, _ in self._all.values() if owner == client]

    def bytes_of(self, client: str) -> int:
        """Return how many bytes a client stores."""
        return sum(size for owner, _, size in self._all.values() if owner == client)

    def pop(self, name: str) -> T | None:
        """Remove and return the object of that name, or None."""
        if name not in self._all:
            return None
        _, one, size = self._all.pop(name)
        self._bytes -= size
        return one

    def clear(self) -> None:
        """Remove all objects."""
        self._all.clear()
        self._bytes = 0


_ENTRY = 320
"""Bytes that an entry takes in addition to its sentence and its translations."""


class SentenceCache:
    """Keeps the translations that were used last, in at most `most` bytes; 0 keeps none. Only the thread of the event
    loop may use it. Entries are pickled: their size is known, and no caller can change them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[Hashable, str], bytes] = OrderedDict()
        self.size = 0
        """The bytes of all entries."""

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, options: Hashable, sentence: str) -> list[Translation] | None:
        """Return what is kept for a sentence and all else that it depends on, `options`; None if nothing is."""
        if (entry := self._kept.get((options, sentence))) is None:
            return None
        self._kept.move_to_end((options, sentence))
        found: list[Translation] = pickle.loads(entry)
        return found

    def put(self, options: Hashable, sentence: str, translations: list[Translation]) -> None:
        """Keep the translations of a sentence; those that were not used for the longest time make room for them."""
        if not self._most:
            return
        key, entry = (options, sentence), pickle.dumps(translations, pickle.HIGHEST_PROTOCOL)
        if (former := self._kept.pop(key, None)) is not None:
            self.size -= _size_of(sentence, former)
        self._kept[key] = entry
        self.size += _size_of(sentence, entry)
        while self.size > self._most:
            (_, oldest), dropped = self._kept.popitem(last=False)
            self.size -= _size_of(oldest, dropped)

    def clear(self) -> None:
        """Drop all entries."""
        self._kept.clear()
        self.size = 0


def _size_of(sentence: str, entry: bytes) -> int:
    return _ENTRY + sys.getsizeof(sentence) + sys.getsizeof(entry)


SECONDS_KEPT = 600
_MOST = 1000
_MOST_BYTES = 256 * 2**20


class TranslatedFile(NamedTuple):
    """A translated file. left: what of it is untranslated, as words; empty if nothing is."""

    name: str
    content: bytes
    media_type: str
    left: str = ""


class Files:
    """Translated files in memory, for ten minutes and up to 256 MiB; their keys cannot be guessed."""

    formats = [name.lstrip(".") for name in SUFFIXES]

    def __init__(self) -> None:
        self._kept: Shelf[TranslatedFile] = Shelf(_MOST_BYTES, _MOST)
        self._since: OrderedDict[str, float] = OrderedDict()
        self._progress: Shelf[tuple[int, int]] = Shelf(_MOST, _MOST)

    def get(self, name: str) -> TranslatedFile:
        """Return a translated file by its key. Raises RequestError."""
        self._forget()
        if (found := self._kept.get(name)) is None:
            raise RequestError(404, "file: must be one that was translated within ten minutes, got another")
        return found

    def progress(self, ticket: str) -> tuple[int, int]:
        """Return how many of a file's sentences are done, and how many there are in total."""
        return self._progress.get(ticket) or (0, 0)

    def note(self, client: str, ticket: str, done: int, count: int) -> None:
        """Record that `done` of `count` sentences of a file are done; does nothing without a ticket."""
        if ticket:
            self._progress.put(client, ticket, (done, count))

    def keep(self, client: str, file: TranslatedFile) -> str:
        """Store a file; return the key by which it is fetched."""
        self._forget()
        key = f"{secrets.token_urlsafe(18)}.{PurePath(file.name).suffix.lstrip('.') or 'txt'}"
        self._kept.put(client, key, file, len(file.content))
        self._since[key] = time.monotonic()
        return key

    def _forget(self) -> None:
        old = time.monotonic() - SECONDS_KEPT
        while self._since and next(iter(self._since.values())) < old:
            self._kept.pop(self._since.popitem(last=False)[0])


def translated_name(name: str, target: str) -> str:
    """Return the file name of a translation, with underscores for signs that are special in paths and headers."""
    path = PurePath(name)
    stem = "".join(c if c.isprintable() else "_" for c in path.stem)
    stem = re.sub(r"[/\\:*?\"<>|;%]+", "_", stem)[:80].strip(" _.") or "file"
    return f"{stem}_{target}{re.sub(r'[^A-Za-z0-9.]', '', path.suffix)}"


def attachment(name: str) -> dict[str, str]:
    """Return the headers of a file to save as `name` (RFC 6266): an ASCII name, and the full one."""
    plain = re.sub("^_+", "file_", re.sub(r"[^A-Za-z0-9._-]+", "_", name))
    more = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return {"Content-Disposition": f'attachment; filename="{plain}"{more}', "X-Content-Type-Options": "nosniff"}
