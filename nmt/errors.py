"""Errors that a user can correct, and parts of their messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from difflib import get_close_matches
from typing import Any

BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters that must not reach a line of output: they would end it, or change what a terminal shows."""


def one_line(text: str) -> str:
    """Return a message as one line: line ends and control characters of what it repeats are escaped."""
    return BREAKS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class _OneLine(BaseException):
    """An exception whose message is one line, whatever text of a user it repeats."""

    def __init__(self, *messages: object) -> None:
        super().__init__(*(one_line(m) if isinstance(m, str) else m for m in messages))


class NMTError(_OneLine, Exception):
    """An error that the user can fix: `where: what must be PROMISE, got FACT; what to do`."""

    place: str | None = None
    """The file and line of a cell's author that the line names already."""


class NMTWarning(_OneLine, UserWarning):
    """A fact that a user should know before the results are used; the commands print it as one line."""


class ConfigError(NMTError):
    """A setting is unknown, of the wrong type or in conflict with another."""


class DataError(NMTError):
    """A text file is missing, broken or does not fit its partner."""


class ShapeError(NMTError):
    """An array does not have the shape or dtype that a function promised to take."""


class CheckpointError(NMTError):
    """A model folder or checkpoint cannot be read or written."""


class PathError(DataError, CheckpointError):
    """A path that was named cannot be used: empty, too long, not to be looked at, not to be written."""


class DeviceError(NMTError):
    """The machine lacks what was asked for."""


def most_like(word: str, choices: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the choice that was probably meant by a word; an empty text if none is like it."""
    return next(iter(get_close_matches(word, choices, 1, cutoff)), "")


def lacking_resource(error: BaseException) -> NMTError | None:
    """Return what to tell the user if an error is Python's for memory or a thread that is not given, else None."""
    if isinstance(error, MemoryError):
        return DeviceError(
            "memory: must suffice for the model and a batch, got too little; lower the batch size, or use a smaller "
            "model"
        )
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return DeviceError("threads: the system must give one more, got none; allow more (ulimit -u), or ask for fewer")
    return None


def how_to_install(extra: str) -> str:
    """Return the advice to install an extra of pyproject.toml, as a message ends with it.

    The package is on no package index, so that the command is one of a checkout.

    Args:
        extra: The extra's name, such as `serve`.
    """
    return f"in the checkout of nmt run pip install -e '.[{extra}]'"


def checked_texts(whose: str, name: str, texts: Iterable[Any]) -> list[str]:
    """Return texts from a caller as a list. Raises TypeError: It is one text, or contains something else."""
    promise = f"{whose}: {name} must be a list of strings"
    if not isinstance(texts, Iterable) or isinstance(texts, str | bytes | Mapping | Set):
        raise TypeError(f"{promise}, got {'one string' if isinstance(texts, str) else type(texts).__name__}")
    found = list(texts)
    for place, text in enumerate(found):
        if not isinstance(text, str):
            raise TypeError(f"{promise}, got {type(text).__name__} at place {place}")
    return found
