"""Find glossary terms that a translation does not follow."""

from __future__ import annotations

import re
from typing import Any

Glossary = tuple[tuple[str, str], ...]

_WORD = re.compile(r"\w+")


def note_terms(parts: list[dict[str, Any]], glossary: Glossary) -> None:
    """Add to each sentence, under not_followed, the glossary terms in its source whose translations are missing from
    its translation. Letter case and punctuation are ignored."""
    by_word: dict[str, list[tuple[tuple[str, str], str, str]]] = {}
    for term, wanted in glossary:
        spaced = _spaced(term)
        for first in spaced.split()[:1]:
            by_word.setdefault(first, []).append(((term, wanted), spaced, _spaced(wanted)))
    for part in parts:
        if "source" in part:
            there, text = _spaced(part["source"]), _spaced(part["translation"])
            candidates = [one for word in dict.fromkeys(there.split()) for one in by_word.get(word, ())]
            part["not_followed"] = [pair for pair, term, wanted in candidates if term in there and wanted not in text]


def _spaced(text: str) -> str:
    """Return the words of a text in lower case, each between spaces, without punctuation."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "
