"""Write the tables by which text.c cleans text and cuts it into subwords."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from nmt.data.corpora.corpus import FORMS, INVISIBLE_SIGN, NOT_PIECES, NOT_TEXT
from nmt.data.tokens.characters import CHEROKEE
from nmt.data.tokens.subwords import Subwords
from nmt.errors import BREAKS
from nmt.exporting.c.plan_writer import braced
from nmt.exporting.subword_tables import tables_of

_USER, _NORMAL, _UNUSED = 4, 1, 5
"""Types of pieces in sentencepiece_model.proto."""
_HANGUL = range(0xAC00, 0xD7A4)
"""Syllables, which text.c decomposes and composes by their numbers."""
_characters = cache(lambda: [chr(n) for n in range(sys.maxunicode + 1) if not 0xD800 <= n <= 0xDFFF])


def text_tables(normalize: str, *, lowercase: bool) -> str:
    """Return text_tables.h for settings of data.src: sets of characters as ranges, lower case, and the normal form. A
    table of uint32 has rising rows and ends with a row of zeros."""
    not_text = NOT_PIECES if normalize == "pieces" else NOT_TEXT
    sets: dict[str, Callable[[str], Any]] = {
        "not_text": not_text.match,
        "invisible": re.compile(INVISIBLE_SIGN).match,
        "breaks": BREAKS.match,
        "spaces": str.isspace,
    }
    lines = [_table(name, 2, _ranges(is_in)) for name, is_in in sets.items()]
    return "".join([*lines, *_lower_case(lowercase), *_normal_form(FORMS[normalize])])


def _lower_case(lowercase: bool) -> list[str]:
    """Return the table of capitals with their small letters, and the sets that decide about a final sigma (Unicode
    Standard, table 3-17), by what Python makes of a sigma after such a character; none of them Cherokee letters."""
    others = [one for one in _characters() if not CHEROKEE.match(one)] if lowercase else []
    small = [(ord(one), *map(ord, one.lower().ljust(2, "\0"))) for one in others if one.lower() != one != "Σ"]
    cased = {one for one in others if f"{one}Σ".lower().endswith("ς")}
    passed = {one for one in others if one not in cased and f"A{one}Σ".lower().endswith("ς")}
    return [
        f"enum {{LOWERS = {int(lowercase)}}};\n",
        _table("small_letters", 3, small),
        _table("cased", 2, _ranges(cased.__contains__) if lowercase else []),
        _table("case_ignorable", 2, _ranges(passed.__contains__) if lowercase else []),
    ]


def _normal_form(form: str | None) -> list[str]:
    """Return the tables of a normal form: full decompositions, as places among `expansions`, each of which begins with
    its length; combining classes; and pairs with the characters that they compose."""
    decompositions, expansions, pairs, first = list[Any](), [0], list[Any](), sys.maxunicode
    for character in _characters() if form else ():
        number = ord(character)
        full = unicodedata.normalize("NFD" if form == "NFC" else "NFKD", character)
        if full != character and number not in _HANGUL:
            decompositions.append((number, len(expansions)))
            expansions += [len(full), *map(ord, full)]
        pair = unicodedata.decomposition(character).split()
        if len(pair) == 2 and not pair[0].startswith("<") and unicodedata.normalize("NFC", character) == character:
            pairs.append((int(pair[0], 16), int(pair[1], 16), number))
        if first == sys.maxunicode and (full != character or unicodedata.combining(character)):
            first = number
    classes = (
        [(ord(one), unicodedata.combining(one)) for one in _characters() if unicodedata.combining(one)] if form else []
    )
    # Nothing below U+0300 changes in form C: what is composed there already stays.
    first = max(first, 0x300) if form == "NFC" else first
    return [
        f"enum {{NORMALISES = {int(form is not None)}, FIRST_CHANGED = {first}}};\n",
        _table("decompositions", 2, decompositions),
        f"static const uint32_t expansions[] = {braced(expansions)};\n",
        _table("combining", 2, classes),
        _table("compositions", 3, sorted(pairs)),
    ]


def _table(name: str, columns: int, rows: list[Any]) -> str:
    return f"static const uint32_t {name}[][{columns}] = {braced([*map(braced, rows), braced([0] * columns)])};\n"


def _ranges(is_in: Callable[[str], Any]) -> list[tuple[int, int]]:
    """Return the ranges of characters, first and last, for which a function is true."""
    numbers = np.array([ord(one) for one in _characters() if is_in(one)])
    gaps = np.flatnonzero(np.diff(numbers) > 1)
    firsts, lasts = numbers[[0, *(gaps + 1)]], numbers[[*gaps, -1]]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def obstacle_here(subwords: Subwords) -> str:
    """Return what a sentencepiece model has that text.c does not know, in words; an empty string for nothing."""
    facts, arrays = tables_of(subwords, "it")
    if facts["kind"] not in ("unigram", "bpe"):
        return f"one of kind {facts['kind']}"
    return "pieces that are not used" if (arrays["it.types"] == _UNUSED).any() else ""


def subword_tables(subwords: Subwords, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the fields of a model's struct `subwords`, where the name of an array stands for its place, and the arrays
    of `tables_of` with more: all pieces as one text, where each starts, their order by bytes; the numbers of symbols,
    the longest first, and of the pieces by our ids."""
    facts, arrays = tables_of(subwords, name)
    pieces = [piece.encode() for piece in facts["pieces"]]
    scores, types, ids = (arrays[f"{name}.{key}"] for key in ("scores", "types", "ids"))
    symbols = sorted((n for n in range(len(pieces)) if types[n] == _USER), key=lambda n: -len(facts["pieces"][n]))
    numbers = np.full(subwords.vocab_size, -1, np.int32)
    reserved = np.isin(types, (2, 3, 6))
    for n in (*np.flatnonzero(reserved)[::-1], *np.flatnonzero(~reserved)):
        numbers[ids[n]] = n
    more: dict[str, Any] = {
        "starts": np.cumsum([0, *map(len, pieces)], dtype=np.int32),
        "texts": np.frombuffer(b"".join(pieces), np.uint8),
        "order": np.array(sorted(range(len(pieces)), key=lambda n: pieces[n]), np.int32),
        "numbers": numbers,
        "symbols": np.array(symbols, np.int32),
    }
    arrays |= {f"{name}.{key}": array for key, array in more.items()}
    normal = scores[types == _NORMAL]
    flags = [facts["kind"] == "bpe", *(facts[key] for key in ("bytes", "prefix", "trims", "escapes"))]
    names = ("starts", "texts", "order", "scores", "types", "ids", "numbers", "symbols", "map")
    fields = {
        "flags": flags,
        "counts": [int(np.flatnonzero(types == 2)[0]), len(pieces), len(symbols)],
        "scores": [float(normal.min()).hex(), float(normal.max()).hex()],
        "arrays": [f"{name}.{key}" for key in names],
        "map_size": arrays[f"{name}.map"].size,
    }
    return fields, arrays
