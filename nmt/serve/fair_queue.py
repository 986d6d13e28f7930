"""Who is next: sentences of many clients, taken in turns."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Condition
from typing import Generic, Protocol, TypeVar


class Ticket(Protocol):
    """A sentence that waits. is_bulk: of a long text, which has to give way."""

    @property
    def gone(self) -> bool:
        """Whether nobody wants it any more."""

    @property
    def is_bulk(self) -> bool:
        """Whether it is of a long text."""


T = TypeVar("T", bound=Ticket)

_RECENT = 1.0
"""Seconds after a sentence that is not bulk in which others like it are expected."""


class FullError(Exception):
    """More sentences wait than may."""


@dataclass
class _Lane(Generic[T]):
    """Tickets by client and request. The client whose turn it is comes first, and of its requests the one whose turn
    it is."""

    clients: OrderedDict[str, deque[deque[T]]] = field(default_factory=OrderedDict)
    count: int = 0

    def put(self, client: str, tickets: list[T]) -> None:
        self.clients.setdefault(client, deque()).append(deque(tickets))
        self.count += len(tickets)

    def next(self) -> T:
        """One ticket of the client whose turn it is; then it is the next one's."""
        client, requests = next(iter(self.clients.items()))
        tickets = requests.popleft()
        ticket = tickets.popleft()
        if tickets:
            requests.append(tickets)
        if requests:
            self.clients.move_to_end(client)
        else:
            del self.clients[client]
        self.count -= 1
        return ticket

    def __iter__(self) -> Iterator[T]:
        return (ticket for requests in self.clients.values() for tickets in requests for ticket in tickets)


class FairQueue(Generic[T]):
    """Sentences that wait, for any number of threads that take them.

    Clients take turns, and so do the requests of a client: one sentence each. Bulk comes after all others and has a
    share of the places in work, a smaller one while others come.

    Args:
        most: Sentences that may wait.
        places: In work at a time, all threads together.
    """

    def __init__(self, most: int, places: int) -> None:
        self._most = most
        self._quiet, self._busy = max(1, places * 3 // 4), max(1, places // 16)
        self._single: _Lane[T] = _Lane()
        self._bulk: _Lane[T] = _Lane()
        self._bulk_in_work = 0
        self._last_single = -_RECENT
        self._closed = False
        self._changed = Condition()

    def __len__(self) -> int:
        """How many wait."""
        return self._single.count + self._bulk.count

    def put(self, client: str, tickets: list[T]) -> None:
        """Let the sentences of a request wait. Raises FullError; RuntimeError once closed."""
        if not tickets:
            return
        with self._changed:
            if self._closed:
                raise RuntimeError("FairQueue: must be open, got a closed one")
            # One request may always wait, however long: limits are for those before it.
            if len(self) and len(self) + len(tickets) > self._most:
                raise FullError
            (self._bulk if tickets[0].is_bulk else self._single).put(client, tickets)
            self._changed.notify_all()

    def take(self, most: int, *, wait: bool) -> list[T] | None:
        """Up to so many; with `wait` at least one. None when it is closed and none is left."""
        with self._changed:
            while True:
                found = self._taken(most)
                if found or not wait:
                    return found if found or not (self._closed and not len(self)) else None
                if self._closed and not len(self):
                    return None
                # Bulk may have to wait until the time of the others is over, of which nobody tells.
                self._changed.wait(_RECENT if self._bulk.count else None)

    def ended(self, ticket: T) -> None:
        """A ticket that was taken is not in work any more."""
        if ticket.is_bulk:
            with self._changed:
                self._bulk_in_work -= 1
                self._changed.notify()

    def close(self) -> None:
        """Nothing more may come; what waits is still given."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _taken(self, most: int) -> list[T]:
        found: list[T] = []
        now = time.monotonic()
        while self._single.count and len(found) < most:
            ticket = self._single.next()
            self._last_single = now
            if not ticket.gone:
                found.append(ticket)
        share = self._busy if now - self._last_single < _RECENT else self._quiet
        while self._bulk.count and len(found) < most and self._bulk_in_work < share:
            ticket = self._bulk.next()
            if not ticket.gone:
                found.append(ticket)
                self._bulk_in_work += 1
        return found
