"""Arrays of one kind, for example all parameters, that a device may store side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Group(dict[str, Any]):
    """Arrays by name. `whole` is one flat array that contains all of them in order, with zeros between them, so that
    one call can process all; None if there is none, or the group is a part of another. Groups of the same shapes on one
    device have the same layout."""

    def __init__(self, arrays: Iterable[tuple[str, Any]], whole: Any = None) -> None:
        super().__init__(arrays)
        self.whole = whole
        self._views: dict[str, Group] = {}

    def view(self, prefix: str) -> Group:
        """Return the arrays below `prefix.`, named without it; they share memory."""
        if prefix not in self._views:
            start = f"{prefix}."
            below = ((name[len(start) :], array) for name, array in self.items() if name.startswith(start))
            self._views[prefix] = Group(below)
        return self._views[prefix]


def whole_of(arrays: dict[str, Any]) -> Any:
    """Return the array that contains all of them, or None."""
    return arrays.whole if isinstance(arrays, Group) else None
