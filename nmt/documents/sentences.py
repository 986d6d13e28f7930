"""Where sentences end."""

from __future__ import annotations

from collections.abc import Callable

from nmt.errors import NMTError

Splitter = Callable[[str], list[str]]
"""Cuts a text into sentences, white space included: together they are the text."""

LONGEST = 100_000
"""Characters that are looked at together: a text beyond is cut there first, so that memory and time stay in line."""


def whole(text: str) -> list[str]:
    """No cut at all."""
    return [text] if text else []


def sentence_splitter(language: str) -> Splitter:
    """A splitter by the rules of a language, those of English where there are none of its own.

    The library is sentencex, by Wikimedia, with rules and abbreviations for some 250 languages.

    Raises NMTError: The library is not installed.
    """
    try:
        from sentencex import segment
    except ImportError:
        raise NMTError(
            "sentences: must be found by the library sentencex, got none; pip install 'recurrent-nmt[serve]', or take "
            "each line as a sentence"
        ) from None
    code = language.replace("_", "-").split("-")[0].lower()

    def split(text: str) -> list[str]:
        parts = [part for at in range(0, len(text), LONGEST) for part in segment(code, text[at : at + LONGEST])]
        # A promise that others build on: where the library breaks it, nothing is cut.
        return parts if "".join(parts) == text else whole(text)

    return split
