"""Sentence splitting."""

from __future__ import annotations

import re
from collections.abc import Callable

from nmt.errors import NMTError, how_to_install

Splitter = Callable[[str], list[str]]
"""Splits a text into sentences, including white space: together they are the text."""

LONGEST = 100_000
"""The maximum size of a window in characters, so that memory and time stay bounded."""


_SIGNS = re.compile("[«»‹›“”„‘’\"'.!?…]")
_SHORT = 4000

LONGEST_SENTENCE = 1000
"""The maximum length of a sentence in characters: longer ones are split between words, or anywhere if there are none,
as a model would read only their beginning."""


def pieces(text: str, splitter: Splitter | None) -> list[str]:
    """Return the sentences of a text, or the text without a splitter, none longer than LONGEST_SENTENCE."""
    found: list[str] = []
    for one in splitter(text) if splitter is not None else [text]:
        at = 0
        while len(one) - at > LONGEST_SENTENCE:
            end = one.rfind(" ", at + LONGEST_SENTENCE // 2, at + LONGEST_SENTENCE) + 1 or at + LONGEST_SENTENCE
            found.append(one[at:end])
            at = end
        if at < len(one):
            found.append(one[at:] if at else one)
    return found


def windows(text: str) -> list[str]:
    """Split a text into windows for the sentence splitter. At each quotation mark and full stop the library scans the
    rest of its input: if a text has more of them than people write, windows are short."""
    found: list[str] = []
    for start in range(0, len(text), LONGEST):
        block = text[start : start + LONGEST]
        size = LONGEST if len(_SIGNS.findall(block)) * 10 <= len(block) else _SHORT
        found += [block[at : at + size] for at in range(0, len(block), size)]
    return found


def sentence_splitter(language: str) -> Splitter:
    """Return a splitter with the rules of a language, or with those of English if there are none for it.

    The library is sentencex, by Wikimedia, with rules and abbreviations for some 250 languages.

    Raises NMTError if the library is not installed.
    """
    try:
        from sentencex import segment
    except ImportError:
        raise NMTError(
            f"sentences: must be found by the library sentencex, got none; {how_to_install('documents')}, or take "
            "each line as a sentence"
        ) from None
    code = language.replace("_", "-").split("-")[0].lower()

    def split(text: str) -> list[str]:
        parts = [part for window in windows(text) for part in segment(code, window)]
        # Callers rely on the parts being the text: if they are not, the text is not split.
        return parts if "".join(parts) == text else [text]

    return split
