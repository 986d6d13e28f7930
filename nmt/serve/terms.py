"""Which terms of a glossary a translation has not followed."""

from __future__ import annotations

import re
from typing import Any

Glossary = tuple[tuple[str, str], ...]

_WORD = re.compile(r"\w+")


def note_terms(parts: list[dict[str, Any]], glossary: Glossary) -> None:
    """Write into each sentence of a translated text, under not_followed, the terms that stand in it without their
    translation in its translation. Letter case and punctuation do not count."""
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
    """Return words alone, each between spaces."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "
