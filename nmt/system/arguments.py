"""Checks of what callers from Python pass; a mistake is a TypeError of one line."""

from collections.abc import Iterable, Mapping, Set
from typing import Any


def checked_texts(whose: str, name: str, texts: Iterable[Any]) -> list[str]:
    """Return texts from a caller as a list. Raises TypeError: It is one text, or contains something else than
    texts."""
    promise = f"{whose}: {name} must be a list of strings"
    if not isinstance(texts, Iterable) or isinstance(texts, str | bytes | Mapping | Set):
        raise TypeError(f"{promise}, got {'one string' if isinstance(texts, str) else type(texts).__name__}")
    found = list(texts)
    for place, text in enumerate(found):
        if not isinstance(text, str):
            raise TypeError(f"{promise}, got {type(text).__name__} at place {place}")
    return found
