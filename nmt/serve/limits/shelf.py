"""A bounded store of objects that clients fetch later; the client that stores most loses its oldest object first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Shelf(Generic[T]):
    """Stores clients' objects by name, at most `most` of them and `most_bytes` in total. `may_go` tells whether an
    object may be evicted."""

    def __init__(self, most_bytes: int, most: int, may_go: Callable[[T], bool] = lambda one: True) -> None:
        self._most_bytes, self._most, self._may_go = most_bytes, most, may_go
        self._bytes = 0
        self._all: dict[str, tuple[str, T, int]] = {}
        self._of: dict[str, OrderedDict[str, int]] = {}  # bytes by client and name, the oldest first

    def __iter__(self) -> Iterator[T]:
        return (one for _, one, _ in list(self._all.values()))

    def __len__(self) -> int:
        return len(self._all)

    def put(self, client: str, name: str, one: T, size: int = 1) -> None:
        """Store an object. Beyond the limits, evict the oldest object of the client with most bytes."""
        self.pop(name)
        self._all[name] = client, one, size
        self._of.setdefault(client, OrderedDict())[name] = size
        self._bytes += size
        while len(self._all) > 1 and (self._bytes > self._most_bytes or len(self._all) > self._most):
            largest = max(self._of, key=lambda c: sum(self._of[c].values()))
            going = next((n for n in self._of[largest] if n != name and self._may_go(self._all[n][1])), None)
            going = going or next((n for n in self._all if n != name and self._may_go(self._all[n][1])), None)
            if going is None:
                return
            self.pop(going)

    def get(self, name: str) -> T | None:
        """Return the object of that name, or None."""
        return self._all[name][1] if name in self._all else None

    def of(self, client: str) -> list[T]:
        """Return a client's objects, oldest first."""
        return [self._all[name][1] for name in self._of.get(client, ())]

    def bytes_of(self, client: str) -> int:
        """Return how many bytes a client stores."""
        return sum(self._of.get(client, {}).values())

    def pop(self, name: str) -> T | None:
        """Remove and return the object of that name, or None."""
        if name not in self._all:
            return None
        client, one, size = self._all.pop(name)
        self._bytes -= size
        del self._of[client][name]
        if not self._of[client]:
            del self._of[client]
        return one

    def clear(self) -> None:
        """Remove all objects."""
        self._all.clear()
        self._of.clear()
        self._bytes = 0
