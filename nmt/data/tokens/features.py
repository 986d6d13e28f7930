"""Features of a word, as the tables of inflection have them: `walk` with `V;PST` is read as `walk +V +PST`.

Each feature is one symbol of the source after the letters of the word (Kann and Schütze 2016, "MED: The LMU System for
the SIGMORPHON 2016 Shared Task on Morphological Reinflection", section 3).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nmt.special_tokens import SPACE, UNK_ID, UNKNOWN_FEATURE_ID

if TYPE_CHECKING:
    from nmt.data.tokens.subwords import Subwords

_BETWEEN = re.compile(r"[;,()+\s]+")
"""Separators of features: `V;PST` as in 2022, and nested ones as in 2023, `N;ABL(PL;PSS(2,PL))`."""
_UNIMORPH = re.compile(r"[A-Z][A-Z0-9.+/_{}-]*[;(][A-Z0-9.+/_{};,()-]+")
_ALONE = re.compile(r"[A-Z][A-Z0-9.+/_{}-]*")
_SURE, _BUNDLES = 0.9, 0.5
"""Share of rows whose cell looks like features from which a column has them, and of those with several."""


def with_features(word: str, features: str) -> str:
    """Return a word with its features, as a source line."""
    return " ".join([word.strip(), *(f"+{one}" for one in _BETWEEN.split(features) if one)])


def is_word(line: str) -> bool:
    """Return whether a line is a single word, alone or with its features."""
    words = line.split()
    return bool(words) and all(word.startswith("+") for word in words[1:])


def featured_lines(lines: Sequence[str], columns: tuple[int, int]) -> list[str]:
    """Return lines to translate as the model reads them. A line is a word, a tab and its features, or a row of a table
    like that of training, whose `columns` have words and features; without a tab it stays as it is."""
    found = []
    for line in lines:
        cells = line.split("\t")
        places = (1, 2) if len(cells) < max(*columns, 3) else columns
        found.append(line if len(cells) < 2 else with_features(*(cells[place - 1] for place in places)))
    return found


def has_features(line: str) -> bool:
    """Return whether a line to translate has features, after a tab or as the model reads them."""
    return "\t" in line or " +" in line


def symbols_in(line: str) -> list[str]:
    """Return the features of a cleaned source line, each with the space before it, as subwords must keep them."""
    return [SPACE + word for word in line.split(" ")[1:] if word.startswith("+") and len(word) > 1]


def feature_ids(subwords: Subwords) -> tuple[int, ...]:
    """Return the ids of the features that subwords keep whole."""
    pieces = subwords.pieces(range(subwords.vocab_size))
    return tuple(n for n, piece in enumerate(pieces) if piece.startswith(f"{SPACE}+") and len(piece) > 2)


def featured_ids(subwords: Subwords, lines: Sequence[str]) -> list[list[int]]:
    """Return the ids of cleaned source lines, in which a feature that the subwords do not have is
    UNKNOWN_FEATURE_ID."""
    rows, features = subwords.encode(lines), [symbols_in(line) for line in lines]
    every = list({one for row in features for one in row})
    ids = [row[0] if len(row) == 1 else UNK_ID for row in subwords.encode([one[1:] for one in every])]
    known = {one: UNKNOWN_FEATURE_ID if found == UNK_ID else found for one, found in zip(every, ids, strict=True)}
    for n, own in enumerate(features):
        if UNKNOWN_FEATURE_ID in (tail := [known[one] for one in own]):
            word = " ".join(one for one in lines[n].split(" ") if SPACE + one not in own)
            rows[n] = [*subwords.encode([word])[0], *tail]
    return rows


def features_column(rows: Sequence[Sequence[str]]) -> int | None:
    """Return the number, from 1, of the column of a table that has features in the notation of UniMorph, which must be
    the second or third of three; None if there is none. Blank rows, which divide paradigms, do not count."""
    rows = [cells for cells in rows if any(cell.strip() for cell in cells)]
    for place in (2, 1):
        cells = [row[place].strip() if len(row) == 3 else "" for row in rows]
        bundles, alone = (sum(pattern.fullmatch(cell) is not None for cell in cells) for pattern in (_UNIMORPH, _ALONE))
        if cells and bundles + alone >= _SURE * len(cells) and bundles >= _BUNDLES * len(cells):
            return place + 1
    return None
