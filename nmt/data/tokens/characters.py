"""Classify characters by script, and as letter, digit or other, in tables that NumPy can index."""

from __future__ import annotations

import unicodedata
from functools import cache

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


@cache
def characters() -> Characters:
    """Return the tables, built on the first call (a fifth of a second)."""
    return Characters()


def _script(name: str) -> str:
    """Return the script of a letter, taken from its Unicode name: `LATIN SMALL LETTER A` is Latin."""
    words = name.split()
    if words and words[0] in _WIDTHS:
        words = words[1:]
    if not words or words[0] in _NO_SCRIPT:
        return ""
    return _TOGETHER.get(words[0], words[0].capitalize())
