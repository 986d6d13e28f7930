"""Recognise a first line of a table that has headings instead of texts: codes or names of languages, source, target."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from nmt.data.corpora.language_names import language_of, languages_named, names_in

_OF_SIDES = (
    frozenset("src source original input lemma word grapheme graphemes".split()),
    frozenset("tgt trg target translation output form inflection pronunciation phoneme phonemes ipa".split()),
)
"""Words of a heading that say which side a column is."""
_BESIDE = frozenset("text texts sentence sentences segment phrase lang language id column".split())
"""Words that may come with these, or name another column."""
_MOST_WORDS = 4
_WORDS = re.compile(r"[^\W_]+")


class _Label(NamedTuple):
    """The meaning of a heading: the side that its column is, None if it names none; and its languages."""

    side: int | None
    languages: frozenset[str]


def is_heading(cells: Sequence[str], langs: Sequence[str]) -> bool:
    """Return whether the cells of source and target in the first line of a table, or its only cell, are headings for
    languages with the codes `langs`. The line may be the first pair of a dictionary: all of its cells must be clear,
    and name two sides or two languages."""
    labels = [_label(cell, langs) for cell in cells]
    if len(cells) == 1:
        return cells[0].strip().strip('"').casefold() in {"text", "sentence", *(lang.casefold() for lang in langs)}
    known = [label for label in labels if label is not None]
    if len(known) != 2 or len(labels) != 2:
        return False
    first, second = known
    if first.side is not None or second.side is not None:
        return first.side != second.side
    return bool(first.languages and second.languages) and not first.languages & second.languages


def contradicts(cells: Sequence[str], langs: Sequence[str]) -> bool:
    """Return whether a heading names other sides or languages than those as which its columns are read."""
    labels = [_label(cell, langs) for cell in cells]
    known = {language_of(lang) for lang in langs} - {None}
    return any(
        label is not None and (label.side not in (None, side) or label.side is None and label.languages and bool(known))
        for side, label in enumerate(labels)
    )


def _label(cell: str, langs: Sequence[str]) -> _Label | None:
    """Return what a cell says as a heading; None if it is a text."""
    text = cell.strip().strip('"').casefold()
    for side, lang in enumerate(langs):
        if text.replace("-", "_") == lang.casefold().replace("-", "_"):
            return _Label(side, frozenset())
    words = _WORDS.findall(text)
    if not 0 < len(words) <= _MOST_WORDS:
        return None
    roles = {side for side, of_side in enumerate(_OF_SIDES) for word in words if word in of_side}
    rest = [word for word in words if not any(word in known for known in (*_OF_SIDES, _BESIDE))]
    languages = _languages(rest, langs)
    if rest and not languages:
        return None
    if not roles:
        roles = {side for side, lang in enumerate(langs) if language_of(lang) in languages}
    return _Label(roles.pop() if len(roles) == 1 else None, languages)


def _languages(words: Sequence[str], langs: Sequence[str]) -> frozenset[str]:
    """Return the languages that the words of a heading name together, or each alone, by a name or a code of `langs`."""
    if not words:
        return frozenset()
    whole = languages_named(" ".join(words))
    if whole:
        return whole
    known = {lang.casefold(): code for lang in langs if (code := language_of(lang)) is not None}
    known |= {name: code for code in (*known.values(),) for name in names_in(code, tuple(known.values()))}
    each = [languages_named(word) | {known[one] for one in (word, " ".join(words)) if one in known} for word in words]
    return frozenset.intersection(*each)
