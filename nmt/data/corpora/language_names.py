"""Codes and names of languages, to tell what the name of a file and the heading of a column say."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from importlib.resources import files

_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z]{2,4})?")
_LETTERS = re.compile(r"[^\W\d_]+")


def language_of(code: str) -> str | None:
    """Return the language that a code such as de, deu, de_AT or deu_Latn stands for, by its shortest code; None if no
    language is known by it."""
    return _codes().get(re.split("[-_]", code, maxsplit=1)[0].lower())


def is_code(text: str) -> bool:
    """Return whether a text is a code of a known language, perhaps with a region or script: de, de_AT, chr-Cher."""
    return _CODE.fullmatch(text) is not None and language_of(text) is not None


def languages_named(words: str) -> frozenset[str]:
    """Return the languages, by their shortest codes, that have this name in English or in the language itself."""
    return _names().get(_folded(words), frozenset())


def code_named(words: str) -> str | None:
    """Return the code of the language that a heading names, by its code or its name; None if no language is known by
    it. Without the extra that has names of all languages, that is so for most."""
    text = words.strip()
    if is_code(text):
        return re.split("[-_]", text)[0].casefold()
    for one in (text, *_LETTERS.findall(text)):
        if len(found := languages_named(one)) == 1:
            return next(iter(found))
    try:
        from langcodes import find

        return find(text).language
    except (ImportError, LookupError):
        return None


@lru_cache(maxsize=64)
def names_in(code: str, others: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a language in other languages, in lower case; none without the extra that has them."""
    try:
        from langcodes import Language
    except ImportError:
        return ()
    return tuple(Language.get(code).display_name(other).casefold() for other in others)


def _folded(words: str) -> str:
    """Return words without case, accents and signs."""
    letters = unicodedata.normalize("NFKD", words.casefold())
    return " ".join(_LETTERS.findall("".join(one for one in letters if not unicodedata.combining(one))))


@lru_cache(maxsize=1)
def _rows() -> list[tuple[str, list[str], list[str]]]:
    """Return the shortest code of each language, its other codes, and its names."""
    text = files("nmt.data.corpora").joinpath("languages.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines()]
    return [(code, [one for one in others.split(",") if one], names.split(",")) for code, others, names in rows]


@lru_cache(maxsize=1)
def _codes() -> dict[str, str]:
    return {one: code for code, others, _ in _rows() for one in (code, *others)}


@lru_cache(maxsize=1)
def _names() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for code, _, names in _rows():
        for name in names:
            found[_folded(name)] = found.get(_folded(name), frozenset()) | {code}
    return found
