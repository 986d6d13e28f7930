"""The errors of the studio: a code that the page has words for, and a line for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

_ERRORS = {
    "no-such-project": (404, "project: must be one of the studio's folder, got another; reload the page"),
    "no-such-text": (404, "text: must be one of the project, got another; reload the page"),
    "no-such-round": (404, "round: must be one of the project, got another; reload the page"),
    "no-such-file": (404, "file: must be one of the page or the project, got another"),
    "no-such-address": (404, "address: must be one of the studio, got another"),
    "no-model": (404, "try: must have a round in use, got none; choose one"),
    "bad-request": (400, "{what}: must be {wanted}, got another"),
    "not-json": (415, "body: must be JSON, sent as application/json, got another"),
    "too-large": (413, "file: must have at most {most:,} bytes, got more; split it"),
    "disk-full": (507, "disk: must have {need:,} bytes free, got {free:,}; free some space"),
    "not-written": (507, "project: must be written, got {why}; free some space, or choose another place"),
    "running": (409, "training: must wait until another has ended, that of {project}"),
    "busy": (409, "round: must be idle, got one that is {state}; wait for it"),
    "loading": (409, "try: must be loaded first, got another request meanwhile; wait"),
    "ask-first": (409, "share: must have the permission of those who wrote the texts; say which it is"),
    "undecided": (409, "text: must be ready, got one with a question; answer it, or remove it"),
    "too-few": (409, "texts: must have at least {least} pairs, got {pairs}; add some"),
    "newer": (409, "project: must be of this version or an older one, got a newer one; get a newer studio"),
    "broken": (409, "project.json: must be that of a project, got {why}; restore a copy"),
    "unreadable": (400, "{why}"),
    "binary": (400, "{name}: must be a table or a text, got {what}; {advice}"),
    "empty-file": (400, "{name}: must have text, got an empty file; choose another"),
    "too-slow": (400, "{name}: must be read in {seconds:g} s and {memory:,} bytes of memory, got more; split it"),
    "unequal": (
        400,
        "{name}: must be its other half in another language, got {lines:,} and {others:,} lines",
    ),
    "failed": (500, "{why}"),
}
"""Status and line of each code."""

Check = tuple[Callable[[Any], bool], str]
"""The check of a value: a function that judges it, and what it must be in words."""


class Refused(Exception):  # noqa: N818 - an answer, not a fault of the studio
    """A request that the studio refuses, or a job that could not be done."""

    def __init__(self, code: str, **words: Any) -> None:
        self.code, self.words = code, words
        self.status, line = _ERRORS[code]
        super().__init__(line.format(**words))

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"code": self.code, "words": self.words, "message": str(self)}


def one_of(choices: Iterable[Any]) -> Check:
    """Return the check of a value that is one of some; true is not 1."""
    known = [(type(one), one) for one in choices]
    return lambda value: (type(value), value) in known, f"one of {', '.join(str(one) for _, one in known)}"[:200]


def text(least: int, most: int) -> Check:
    """Return the check of a text."""
    return lambda value: isinstance(value, str) and least <= len(value.strip()) <= len(value) <= most, (
        f"a text of {least} to {most} characters"
    )


def number(least: float, most: float) -> Check:
    """Return the check of a number."""
    return lambda value: type(value) in (int, float) and least <= value <= most, f"a number from {least} to {most}"


def checked(given: dict[str, Any], name: str, check: Check, default: Any = None) -> Any:
    """Return a value that was sent. Raises Refused."""
    value = given.get(name, default)
    if not check[0](value):
        raise Refused("bad-request", what=name, wanted=check[1])
    return value
