"""Who is next: sentences of many clients, taken in turns."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from threading import Condition
from typing import Generic, Protocol, TypeVar


class Ticket(Protocol):
    """A sentence that waits."""

    @property
    def gone(self) -> bool:
        """Return whether nobody wants it any more."""

    @property
    def is_bulk(self) -> bool:
        """Return whether it is of a long text."""


T = TypeVar("T", bound=Ticket)


class FullError(Exception):
    """More sentences wait than may."""


class ClosedError(Exception):
    """Nothing more may come."""


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
        """Return one ticket of the client whose turn it is; then it is the next one's."""
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
        """Up to so many tickets that somebody still wants."""
        found: list[T] = []
        while self.count and len(found) < most:
            ticket = self.next()
            if not ticket.gone:
                found.append(ticket)
        return found


class FairQueue(Generic[T]):
    """Sentences that wait, for any number of threads that take them.

    Clients take turns, and so do the requests of a client: one sentence each. Bulk has a lane of its own: whoever takes
    says how many of each he has room for. `most` sentences may wait.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._single: _Lane[T] = _Lane()
        self._bulk: _Lane[T] = _Lane()
        self._closed = False
        self._changed = Condition()

    def __len__(self) -> int:
        """Return how many wait."""
        return self._single.count + self._bulk.count

    def put(self, client: str, tickets: list[T], *, accepted: bool = False) -> None:
        """Let the sentences of a request wait. accepted: it has begun already, and is not sent away because others
        wait. Raises FullError; ClosedError."""
        if not tickets:
            return
        with self._changed:
            if self._closed:
                raise ClosedError
            # One request may always wait, however long: limits are for those before it.
            if not accepted and len(self) and len(self) + len(tickets) > self._most:
                raise FullError
            (self._bulk if tickets[0].is_bulk else self._single).put(client, tickets)
            self._changed.notify_all()

    def take(self, most: int, most_bulk: int, *, wait: bool) -> list[T] | None:
        """Up to so many that are not bulk, and then up to so many that are; with `wait` at least one. None when it is
        closed and none is left."""
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
        """Nothing more may come; what waits is still given."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
