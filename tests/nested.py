"""Trees of dictionaries."""

from collections.abc import Sequence
from typing import Any


def put(tree: dict[str, Any], way: Sequence[str], value: Any) -> None:
    """Set a value in a tree; dictionaries on the way are made where there are none."""
    *outer, last = way
    for part in outer:
        tree = tree.setdefault(part, {})
    tree[last] = value
