"""Upper and lower case of the scripts whose everyday text has both.

Unicode gives Cherokee and Georgian two cases, but everyday text has one: the upper case of Cherokee (U+13A0 to U+13F5;
the lower case U+AB70 is hardly ever written) and the lower case of Georgian (capitals, U+1C90, are for headlines).
"""

from __future__ import annotations

import re
from unicodedata import category

_LETTERS = "\u13a0-\u13ff\uab70-\uabbf"
CHEROKEE, _NOT_CHEROKEE = re.compile(f"[{_LETTERS}]"), re.compile(f"[^{_LETTERS}]+")
_TWO_CASES = re.compile(f"[^{_LETTERS}\u10a0-\u10ff\u1c90-\u1cbf\u2d00-\u2d2f]+")
"""Text without Cherokee and Georgian letters."""
_DOTTED = frozenset("tr az tur aze azj azb crh tt tat gag".split())
_DOTTED_SMALL, _DOTTED_CAPITAL = str.maketrans({"I": "ı", "İ": "i"}), str.maketrans({"i": "İ", "ı": "I"})
_LEAST_CAPITALS = 4
"""The least number of capitals of a sentence in capitals: fewer may be an abbreviation."""


def lowered(text: str, language: str = "") -> str:
    """Return the text in lower case; Cherokee letters stay. language: the code of its language if it is known."""
    if _has_dotted_i(language):
        text = text.replace("I\u0307", "i").translate(_DOTTED_SMALL)
    if text.isascii() or not CHEROKEE.search(text):
        return text.lower()
    return _NOT_CHEROKEE.sub(lambda found: found[0].lower(), text)


def capitals_of(text: str, language: str = "") -> str:
    """Return the text in capitals; Cherokee and Georgian letters stay. language: see `lowered`."""
    if _has_dotted_i(language):
        text = text.translate(_DOTTED_CAPITAL)
    return _TWO_CASES.sub(lambda found: found[0].upper(), text)


def titled(letter: str, language: str = "") -> str:
    """Return a letter as it begins a sentence. language: see `lowered`."""
    return capitals_of(letter, language) if _has_dotted_i(language) else letter.title()


def _has_dotted_i(language: str) -> bool:
    """Return whether a language has i with and without a dot: Unicode, SpecialCasing.txt, and other Turkic ones."""
    return language.replace("_", "-").split("-")[0].lower() in _DOTTED


def is_in_capitals(text: str) -> bool:
    """Return whether a sentence is written in capitals: all its letters but modifiers are capitals of a script of two
    cases. Words in a script of one case around an abbreviation are not."""
    if text.isascii() and not text.isupper():
        return False
    letters = [one for one in text if one.isalpha() and category(one) != "Lm"]
    return len(letters) >= _LEAST_CAPITALS and all(map(str.isupper, letters)) and not CHEROKEE.search(text)
