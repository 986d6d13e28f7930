"""A queue of sentences that serves many clients in fair turns."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from threading import Condition
from typing import Generic, Protocol, TypeVar


class Ticket(Protocol):
    """A waiting sentence."""

    @property
    def gone(self) -> bool:
        """Return whether its request has been cancelled or has failed."""

    @property
    def is_bulk(self) -> bool:
        """Return whether it belongs to a long text."""


T = TypeVar("T", bound=Ticket)


class FullError(Exception):
    """The queue has no room for these sentences."""


class ClosedError(Exception):
    """The queue is closed."""


@dataclass
class _Lane(Generic[T]):
    """Tickets by client and request. The client whose turn it is comes first, and so does the request whose turn it is
    among that client's requests."""

    clients: OrderedDict[str, deque[deque[T]]] = field(default_factory=OrderedDict)
    count: int = 0

    def put(self, client: str, tickets: list[T]) -> None:
        self.clients.setdefault(client, deque()).append(deque(tickets))
        self.count += len(tickets)

    def next(self) -> T:
        """Remove and return one ticket of the client whose turn it is, and pass the turn to the next client."""
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

    def taken(self, most: int) -> list[T]:
        """Remove and return up to `most` tickets; cancelled ones are dropped."""
        found: list[T] = []
        while self.count and len(found) < most:
            ticket = self.next()
            if not ticket.gone:
                found.append(ticket)
        return found


class FairQueue(Generic[T]):
    """A queue of sentences for any number of consumer threads.

    Clients take turns, and so do the requests of one client: one sentence each. Bulk sentences have a separate lane;
    the consumer says how many of each kind it has room for. At most `most` sentences may wait.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._single: _Lane[T] = _Lane()
        self._bulk: _Lane[T] = _Lane()
        self._closed = False
        self._changed = Condition()

    def __len__(self) -> int:
        """Return how many sentences wait."""
        return self._single.count + self._bulk.count

    def put(self, client: str, tickets: list[T], *, accepted: bool = False) -> None:
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

    def take(self, most: int, most_bulk: int, *, wait: bool) -> list[T] | None:
        """Remove and return up to `most` sentences that are not bulk and up to `most_bulk` that are; with `wait`, block
        until there is at least one. Return None when the queue is closed and empty."""
        with self._changed:
            while True:
                found = self._single.taken(most) + self._bulk.taken(most_bulk)
                if found:
                    return found
                if self._closed and not len(self):
                    return None
                if not wait:
                    return []
                self._changed.wait()

    def close(self) -> None:
        """Accept nothing more; waiting sentences can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
