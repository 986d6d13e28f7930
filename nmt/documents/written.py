"""Sentences whose translation must be written by the rules of a syntax around them, beyond those of markup."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace

from nmt.documents.passage import Sentence
from nmt.documents.tokens.token import Syntax
from nmt.inference.translation import Translation

_QUOTING = re.compile(r"'(?!\w)")
"""An apostrophe that may quote the sign behind it in an ICU message; within a word it never does."""


@dataclass
class _WrittenSentence(Sentence):
    syntax: Syntax = ""

    def translated(self, translation: Translation) -> str:
        """Return the translated sentence as its syntax demands it; as written if nothing has changed."""
        if translation.text == self.asked:
            return super().translated(translation)
        if self.syntax == "message":
            return super().translated(replace(translation, text=_QUOTING.sub("\u2019", translation.text)))
        found = super().translated(translation)
        head = len(self.before + self.head)
        if self.syntax == "android":  # otherwise it is a reference to a resource or an attribute
            return f"{found[:head]}\\{found[head:]}" if found[head : head + 1] in ("@", "?") else found
        return found.replace("]]>", "]]]]><![CDATA[>")


def written(parts: list[str | Sentence], syntax: Syntax) -> list[str | Sentence]:
    """Return the parts of a paragraph, whose sentences are written by a syntax. message: an apostrophe that would quote
    becomes a typographic one; quoted message: apostrophes are doubled; android: quotes, backslashes and what looks like
    a reference are escaped; cdata: the section does not end."""
    if syntax in ("", "quoted message"):  # escaping characters is enough
        return parts
    return [
        one
        if isinstance(one, str)
        else _WrittenSentence(**{f.name: getattr(one, f.name) for f in fields(one)}, syntax=syntax)
        for one in parts
    ]


def quotes_doubled(escape: dict[int, str]) -> dict[int, str]:
    """Return how characters are written in a message that doubles its apostrophes."""
    return {**escape, ord("'"): escape.get(ord("'"), "'") * 2}
