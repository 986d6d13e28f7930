"""Recognise a first line of a table that has headings instead of texts: codes or names of languages, source, target."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from nmt.data.corpora.language_by_text import script_of
from nmt.data.corpora.language_names import is_code, language_of, languages_named, names_in

_OF_SIDES = (
    frozenset("src source original input lemma word headword lexeme vernacular grapheme graphemes".split()),
    frozenset(
        "tgt trg target ref translation output form inflection pronunciation phoneme phonemes ipa gloss "
        "definition".split()
    ),
)
"""Words of a heading that say which side a column is."""
_ABOUT = frozenset("id no nr number note notes comment comments pos category speaker date reference verse".split())
"""Words of a heading that name notes on a pair, its number or its origin."""
_NO_TEXT = frozenset("id notes comments speaker".split())
"""Those of them that hardly begin a list of words."""
_BESIDE = _ABOUT | frozenset("text texts sentence sentences segment phrase lang language column example".split())
"""Words that may come with those of a side, or name another column."""
_MOST_WORDS = 4
_LEAST_BELOW = 10
_WORDS = re.compile(r"[^\W_]+")


class Label(NamedTuple):
    """The meaning of a heading: the side that its column is, None if it names none; and its languages."""

    side: int | None
    languages: frozenset[str]


def is_about_pairs(heading: str) -> bool:
    """Return whether a heading names notes on the pairs, their numbers or origin."""
    words = _WORDS.findall(heading.casefold())
    return bool(words) and _ABOUT.issuperset(words)


def is_heading(cells: Sequence[str], langs: Sequence[str]) -> bool:
    """Return whether the cells of source and target in the first line of a table, or its only cell, are headings for
    languages with the codes `langs`. The line may be the first pair of a dictionary: all of its cells must be clear,
    and name two sides or two languages."""
    labels = [label_of(cell, langs) for cell in cells]
    if len(cells) == 1:
        return cells[0].strip().strip('"').casefold() in {"text", "sentence", *(lang.casefold() for lang in langs)}
    known = [label for label in labels if label is not None]
    if len(known) != 2 or len(labels) != 2:
        return False
    first, second = known
    if first.side is not None or second.side is not None:
        return first.side != second.side
    return bool(first.languages and second.languages) and not first.languages & second.languages


def heading_labels(
    cells: Sequence[str], below: Sequence[Sequence[str]], langs: Sequence[str]
) -> list[Label | None] | None:
    """Return the meaning of the cells of the first row of a table, or None if it has texts. `below`: the cells of each
    column in the rows after it; what comes again there is no heading.

    Of two cells that name two sides or two languages (see `is_heading`), of a name of a language next to a short cell,
    of short cells above numbers or another script, and of short cells with one such as Notes, a row is a heading.
    """
    fresh = ["" if cell in under else cell.strip() for cell, under in zip(cells, below, strict=True)]
    codes = [place for place, cell in enumerate(fresh) if is_code(cell)]
    if not any(langs) and len(codes) == 2 and _are_above_texts([(fresh[place], below[place]) for place in codes]):
        langs = [fresh[place] for place in codes]
    labels = [label_of(cell, langs) for cell in fresh]
    places = [place for place, label in enumerate(labels) if label is not None]
    if any(is_heading((fresh[a], fresh[b]), langs) for a in places for b in places if a < b):
        return labels
    if len(fresh) == 1 and is_heading(fresh, langs):
        return labels
    is_other = [_is_other(cell, under) for cell, under in zip(fresh, below, strict=True) if cell]
    is_short = all(len(cell.split()) <= _MOST_WORDS and cell[:1] != cell[:1].lower() for cell in fresh if cell)
    if len(fresh) > 2 and any(is_other) and all(fresh):
        return labels
    if not is_short or sum(map(bool, fresh)) < 2:
        return None
    named = [place for place in places if languages_named(fresh[place])]
    about = sum(is_about_pairs(fresh[place]) for place in places)
    is_sure = len(fresh) > 2 and any(cell.casefold() in _NO_TEXT for cell in fresh)
    return labels if len(named) == 1 and len(places) - about == 1 or is_sure or any(is_other) else None


def _are_above_texts(columns: Sequence[tuple[str, Sequence[str]]]) -> bool:
    """Return whether codes of languages are above texts: above another script, or above texts longer than words that
    look like codes, such as `is`, `am` and `to`."""
    are_long = (
        len(texts) >= _LEAST_BELOW and sum(map(len, texts)) >= 3 * _LEAST_BELOW * len(texts) / 4 for _, texts in columns
    )
    return any(_is_other(code, texts) for code, texts in columns) or all(are_long)


def _is_other(cell: str, below: Sequence[str]) -> bool:
    """Return whether a cell is of Latin letters above a column of numbers, or of nearly only another script."""
    filled = [one for one in below if one.strip()]
    if len(filled) < _LEAST_BELOW or script_of([cell]) != "LATIN":
        return False
    return not any(letter.isalpha() for one in filled for letter in one) or script_of(filled) not in ("LATIN", "")


def contradicts(cells: Sequence[str], langs: Sequence[str]) -> bool:
    """Return whether a heading names other sides or languages than those as which its columns are read."""
    labels = [label_of(cell, langs) for cell in cells]
    known = {language_of(lang) for lang in langs} - {None}
    for cell, lang, label in zip(cells, map(language_of, langs), labels, strict=False):
        if label is None and None not in (lang, language_of(cell)) and language_of(cell) != lang:
            return True
    return any(
        label is not None and (label.side not in (None, side) or label.side is None and label.languages and bool(known))
        for side, label in enumerate(labels)
    )


def label_of(cell: str, langs: Sequence[str]) -> Label | None:
    """Return what a cell says as a heading; None if it is a text."""
    text = cell.strip().strip('"').casefold()
    for side, lang in enumerate(langs):
        if text.replace("-", "_") == lang.casefold().replace("-", "_"):
            return Label(side, frozenset())
    if "_" in text.replace("-", "_") and is_code(text):
        return Label(None, frozenset({str(language_of(text))}))
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
    return Label(roles.pop() if len(roles) == 1 else None, languages)


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
