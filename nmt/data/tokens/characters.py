"""Classify characters by script, and as letter, digit or other, in tables that NumPy can index; and store many lines as
one array of code points, so that all can be examined at once."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, cached_property
from unicodedata import category

import numpy as np

HAN = "Han"
"""Chinese characters with kana and bopomofo, which are mixed in text."""
_TOGETHER = dict.fromkeys(("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "KATAKANA-HIRAGANA", "IDEOGRAPHIC"), HAN)
# First words of letters' names that are not scripts.
_NO_SCRIPT = ("MODIFIER", "MATHEMATICAL", "SUPERSCRIPT", "SUBSCRIPT", "DOUBLE-STRUCK", "SCRIPT", "BLACK-LETTER")
_WIDTHS = ("FULLWIDTH", "HALFWIDTH")
_MOST_CODE = 0x110000
_HAN_PLANES = range(0x20000, 0x40000)


class Characters:
    """Tables indexed by code point.

    Attributes:
        scripts: Names of scripts; number 0 means none.
        script: uint8 [code points]; the number of a letter's script.
        folded: uint32 [code points]; letters and digits without case, 0 for everything else.
    """

    def __init__(self) -> None:
        self.scripts: list[str] = [""]
        self.script = np.zeros(_MOST_CODE, dtype=np.uint8)
        self.folded = np.zeros(_MOST_CODE, dtype=np.uint32)
        numbers: dict[str, int] = {"": 0}
        for code in range(_HAN_PLANES.start):
            character = chr(code)
            kind = unicodedata.category(character)[0]
            if kind not in "LNM":
                continue
            lower = character.lower()
            self.folded[code] = ord(lower) if len(lower) == 1 else code
            if kind != "L":
                continue
            name = _script(unicodedata.name(character, ""))
            if name not in numbers:
                numbers[name] = len(numbers)
                self.scripts.append(name)
            self.script[code] = numbers[name]
        han = slice(_HAN_PLANES.start, _HAN_PLANES.stop)
        self.script[han] = numbers[HAN]
        self.folded[han] = np.arange(han.start, han.stop)

    def number(self, script: str) -> int:
        """Return the number of a script in the table."""
        return self.scripts.index(script)


characters = cache(Characters)
"""Returns the tables, built on the first call (a fifth of a second)."""


def _script(name: str) -> str:
    """Return the script of a letter, taken from its Unicode name: `LATIN SMALL LETTER A` is Latin."""
    words = name.split()
    if words and words[0] in _WIDTHS:
        words = words[1:]
    if not words or words[0] in _NO_SCRIPT:
        return ""
    return _TOGETHER.get(words[0], words[0].capitalize())


class TextBlock:
    """Lines, and their characters concatenated.

    Attributes:
        lines: The lines as they were read.
        codes: uint32 [sum of lengths]; code points. Bytes that were not UTF-8 are lone surrogates.
        lengths: int64 [N]; the number of characters of each line.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.codes = np.frombuffer("".join(lines).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        self.lengths = np.fromiter(map(len, lines), dtype=np.int64, count=len(lines))

    def __len__(self) -> int:
        return len(self.lines)

    def count(self, marked: np.ndarray) -> np.ndarray:
        """Return how many characters of each line are marked (bool, as long as `codes`): int64 [N]."""
        kind = np.int32 if len(marked) < 2**31 else np.int64  # writing half the bytes takes half the time
        sums = np.zeros(len(marked) + 1, kind)
        np.cumsum(marked, dtype=kind, out=sums[1:])
        ends = np.cumsum(self.lengths)
        return (sums[ends] - sums[ends - self.lengths]).astype(np.int64)

    def lines_of(self, places: np.ndarray) -> np.ndarray:
        """Return the distinct line numbers, int64, of the characters at the given indices of `codes`."""
        return np.unique(np.searchsorted(np.cumsum(self.lengths), places, side="right"))

    def marks(self, places: np.ndarray) -> np.ndarray:
        """Return which lines contain at least one of the characters at the given indices: bool [N]."""
        found = np.zeros(len(self), dtype=bool)
        found[self.lines_of(places)] = True
        return found

    def follows(self, places: np.ndarray) -> np.ndarray:
        """Return which of the given characters are followed by another one in their line: bool."""
        ends = np.cumsum(self.lengths)
        last = np.zeros(len(self.codes) + 1, dtype=bool)
        last[ends[self.lengths > 0] - 1] = True
        return ~last[places]

    @cached_property
    def script(self) -> np.ndarray:
        """Return the script number of each letter: uint8, as long as `codes`."""
        script: np.ndarray = characters().script[self.codes]
        return script


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
