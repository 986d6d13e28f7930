"""Arrays of one kind, all parameters say, that a device may keep side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Group(dict[str, Any]):
    """Arrays by name. `whole`: one flat array in which all of them lie in their order, zero between them, so that one
    call serves all; None where there is none, or they are a part of it. Groups of the same shapes from one device lie
    alike."""

    def __init__(self, arrays: Iterable[tuple[str, Any]], whole: Any = None) -> None:
        super().__init__(arrays)
        self.whole = whole

    def view(self, prefix: str) -> Group:
        """Return the arrays below `prefix.` by their names without it; the same memory."""
        start = f"{prefix}."
        return Group((name[len(start) :], array) for name, array in self.items() if name.startswith(start))


def whole_of(arrays: dict[str, Any]) -> Any:
    """Return the array in which all of them lie, or None."""
    return arrays.whole if isinstance(arrays, Group) else None
