"""What is kept for clients until they fetch it, within limits in all: whoever keeps most loses its oldest first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Shelf(Generic[T]):
    """Things of clients by name. most_bytes, most: of all together; `may_go`: whether one may make room for others."""

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
        """Keep one; where that is too much in all, the oldest of the client with most bytes goes."""
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
        """Return one, None where there is none."""
        return self._all[name][1] if name in self._all else None

    def of(self, client: str) -> list[T]:
        """Return a client's own, the oldest first."""
        return [self._all[name][1] for name in self._of.get(client, ())]

    def bytes_of(self, client: str) -> int:
        """Return how many bytes a client keeps."""
        return sum(self._of.get(client, {}).values())

    def size_of(self, name: str) -> int:
        """Return how many bytes one takes, 0 where there is none."""
        return self._all[name][2] if name in self._all else 0

    def pop(self, name: str) -> T | None:
        """Forget one, and return it."""
        if name not in self._all:
            return None
        client, one, size = self._all.pop(name)
        self._bytes -= size
        del self._of[client][name]
        if not self._of[client]:
            del self._of[client]
        return one

    def clear(self) -> None:
        """Forget all."""
        self._all.clear()
        self._of.clear()
        self._bytes = 0
