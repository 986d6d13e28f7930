"""The errors of the studio: codes, which the page has words for; programs get the English ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

STATUSES = {
    400: "bad-request unreadable binary empty-file too-slow unequal",
    404: "no-such-project no-such-text no-such-round no-such-file no-such-address no-model",
    409: "running busy ask-first undecided too-few newer broken",
    413: "too-large",
    415: "not-json",
    500: "failed",
    507: "disk-full not-written",
}
"""The codes of errors, by the status of an answer. The page has words for them in each of its languages."""
_WORDS = json.loads((Path(__file__).parent / "page" / "strings" / "en.json").read_text("utf-8"))

Check = tuple[Callable[[Any], bool], str]
"""The check of a value: a function that judges it, and what it must be in words."""


class Refused(Exception):  # noqa: N818 - an answer, not a fault of the studio
    """A request that the studio refuses, or a job that could not be done."""

    def __init__(self, code: str, **words: Any) -> None:
        self.code, self.words = code, words
        self.status = next(status for status, codes in STATUSES.items() if code in codes.split())
        super().__init__(re.sub(r"\{(\w+)[:\w]*\}", lambda slot: str(words[slot[1]]), _WORDS[f"error.{code}"]))

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
