"""Languages by the names of files and headings, and by the text itself."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z]{2,4})?")
_LETTERS = re.compile(r"[^\W\d_]+")


def language_of(code: str) -> str | None:
    """Return the shortest code of the language of a code such as de, deu, de_AT or deu_Latn; None if unknown."""
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

        return code if (code := find(text).language) not in ("leg", "igs") else None  # Spanish: lengua, glosa
    except (ImportError, LookupError, UnicodeEncodeError):  # the last: of bytes that are not UTF-8
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


_LEAST, _MOST, _TOGETHER = 100, 400, 10
"""The lines, and different words, from which a language is detected, at most, and how many are judged as one text."""
_SURE = 0.95
"""Share of these texts that must be in one language, and share of letters that must be of one script."""
_OF_SCRIPT = dict(
    one.split(":")
    for one in (
        "ADLAM:ff ARMENIAN:hy CHEROKEE:chr GEORGIAN:ka GREEK:el GUJARATI:gu GURMUKHI:pa HANGUL:ko HEBREW:he "
        "HIRAGANA:ja KANNADA:kn KATAKANA:ja KHMER:km LAO:lo LEPCHA:lep LIMBU:lif MALAYALAM:ml MEETEI:mni "
        "MYANMAR:my NKO:nqo OL:sat ORIYA:or OSAGE:osa SINHALA:si TAMIL:ta TELUGU:te THAANA:dv THAI:th TIBETAN:bo "
        "VAI:vai YI:ii"
    ).split()
)
"""The language of most texts in a script, by the first word of its letters' names."""
_GUESSED = frozenset("ar de en es fr hi it nl pt ru tr zh".split())
"""Languages that a detector may name for a text of which nothing is known. Of others, and of languages that it does not
know, a text can look like one of its relatives."""


def script_of(lines: Sequence[str]) -> str:
    """Return the script of nearly all letters of some lines, by the first word of their names, such as CYRILLIC; of
    Japanese, HIRAGANA; "" if there is none."""
    counts = Counter(letter for line in lines[:_MOST] for letter in line if letter.isalpha())
    scripts: Counter[str] = Counter()
    for letter, count in counts.items():
        scripts[unicodedata.name(letter, "").partition(" ")[0]] += count
    if scripts["HIRAGANA"] + scripts["KATAKANA"] > 0.1 * scripts.total():
        return "HIRAGANA"
    ((most, count),) = scripts.most_common(1) or [("", 0)]
    return most if count >= _SURE * scripts.total() else ""


def language_by_text(lines: Sequence[str]) -> str | None:
    """Return the code of the language of lines: that of their script, or one of wide use; None if it is not certain."""
    if (code := _OF_SCRIPT.get(script_of(lines))) is not None:
        return code
    votes = _votes(lines)
    most, count = (votes.most_common(1) or [("", 0)])[0]
    return most if most in _GUESSED and count >= _SURE * votes.total() else None


def is_in(lines: Sequence[str], other: str, own: str) -> bool:
    """Return whether lines are beyond doubt in the language `other` and not in `own`: by a script of one of them alone,
    or by a detector that knows both. False if they are few or short."""
    own_code, other_code = language_of(own), language_of(other)
    if own_code == other_code or None in (own_code, other_code):
        return False
    if (by_script := _OF_SCRIPT.get(script_of(lines))) is not None:
        return by_script == other_code
    votes = _votes([line for line in dict.fromkeys(lines) if len(line) >= _TOGETHER])  # none of few: it loads slowly
    if not votes or not {own_code, other_code} <= set(_identifier().nb_classes):
        return False
    return votes[str(other_code)] >= _SURE * votes.total()


def is_one_side_only(lines: Sequence[str], others: Sequence[str], lang: str) -> bool:
    """Return whether lines are beyond doubt in a language of wide use, and most of the others are not."""
    if (code := str(language_of(lang))) not in _GUESSED:
        return False
    mine, theirs = _votes(lines), _votes(others)
    return 0 < _SURE * mine.total() <= mine[code] and 2 * theirs[code] < theirs.total()


def exchanged_rows(rows: Sequence[Sequence[str]], langs: Sequence[str]) -> list[int]:
    """Return the places of rows of source and target whose sides stand the other way round than those of most rows: by
    scripts, or by a detector that knows both languages, or one of wide use."""
    scripts = [(script_of([src]), script_of([tgt])) for src, tgt in rows]
    if counts := Counter(pair for pair in scripts if "" not in pair and pair[0] != pair[1]):
        usual, count = counts.most_common(1)[0]
        if count + counts[usual[::-1]] >= _SURE * len(rows):
            return [place for place, pair in enumerate(scripts) if pair == usual[::-1]]
    codes = list(map(language_of, langs))
    long = [place for place, row in enumerate(rows) if min(map(len, row)) >= 2 * _TOGETHER][:_MOST]
    identifier = _identifier() if len(long) >= _LEAST and codes[0] != codes[1] else None
    if identifier is None:
        return []
    known = set(codes) & set(identifier.nb_classes)
    if len(known) < 2 and not known & _GUESSED:
        return []

    def is_exchanged(row: Sequence[str]) -> bool:
        if len(known) == 2:
            ranks = [dict(identifier.rank(line)) for line in row]
            return all(rank[other] > rank[own] for rank, own, other in zip(ranks, codes, codes[::-1], strict=True))
        return [identifier.classify(line)[0] in known for line in row] == [code not in known for code in codes]

    return [place for place in long if is_exchanged(rows[place])]


def _votes(lines: Sequence[str]) -> Counter[str]:
    """Return the languages that a detector finds in groups of different lines; none without one, or of few lines."""
    filled = list(dict.fromkeys(line for line in lines if line.strip()))[:_MOST]
    words = {word for line in filled for word in line.split() if word.isalpha()}
    identifier = _identifier() if min(len(filled), len(words)) >= _LEAST else None
    if identifier is None:
        return Counter()
    texts = [" ".join(filled[start : start + _TOGETHER]) for start in range(0, len(filled) - _TOGETHER + 1, _TOGETHER)]
    return Counter(identifier.classify(text)[0] for text in texts)


@lru_cache(maxsize=1)
def _identifier() -> Any:
    """Return the detector of languages; None if the extra that has it is not installed."""
    if find_spec("py3langid") is None:
        return None
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)
