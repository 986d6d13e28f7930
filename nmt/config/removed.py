"""Name what takes the place of features that are removed: settings, options and formats that users may still write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REMOVED: dict[str, str] = {
    "data.index": "remove it: the ids of a large text lie in a mapped file of the temporary folder (TMPDIR)",
}
"""Names as they were written, each with what to do instead."""

_OFF: dict[str, Any] = {"data.index": None}
"""Values of removed settings that turned them off, as folders of older versions have them."""


def instead(name: str) -> str | None:
    """Return a sentence about something that is removed and its replacement; None if the name is not of it."""
    return f"is not there any more; {REMOVED[name]}" if name in REMOVED else None


def drop_removed(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return settings without removed ones that are turned off."""
    left = {}
    for key, value in values.items():
        name = f"{above}{key}"
        if name not in _OFF or value != _OFF[name]:
            left[key] = drop_removed(value, f"{name}.") if isinstance(value, Mapping) else value
    return left
