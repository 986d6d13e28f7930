"""Where sentences end."""

from __future__ import annotations

from collections.abc import Callable

from nmt.errors import NMTError

Splitter = Callable[[str], list[str]]
"""Cuts a text into sentences, white space included: together they are the text."""

LONGEST = 100_000
"""Characters that are looked at together: a text beyond is cut there first, so that memory and time stay in line."""


LONGEST_SENTENCE = 1000
"""Characters of a sentence, beyond which it is cut between words, or anywhere where there are none: a model would read
its beginning alone."""


def pieces(text: str, splitter: Splitter | None) -> list[str]:
    """Sentences of a text, none longer than LONGEST_SENTENCE; all of it where there is no splitter."""
    found: list[str] = []
    for one in splitter(text) if splitter is not None else [text]:
        while len(one) > LONGEST_SENTENCE:
            end = one.rfind(" ", LONGEST_SENTENCE // 2, LONGEST_SENTENCE) + 1 or LONGEST_SENTENCE
            found.append(one[:end])
            one = one[end:]
        if one:
            found.append(one)
    return found


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
        return parts if "".join(parts) == text else [text]

    return split
