"""Find the terms of a glossary in a sentence, by one rule for what the search is asked for and for what counts as
followed.

A term occurs where its words stand next to each other, as whole words: next to punctuation, with spaces or hyphens
between them. In scripts without spaces it occurs anywhere between two syllables, Katakana as whole words. The first
letter of a word may be small or a capital, and all of them capitals in a word of four and more and in a sentence in
capitals; else a capital within a word stands for itself: US is not us. With snowballstemmer installed, the last word
may be inflected.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from heapq import heapify, heappop, heappush
from itertools import islice
from threading import Lock
from typing import Any
from unicodedata import category, normalize

from nmt.data.tokens.characters import is_in_capitals, lowered

_ALGORITHMS = dict(
    one.split(":")
    for one in (
        "ar:arabic ca:catalan da:danish de:german el:greek en:english es:spanish eu:basque fi:finnish fr:french "
        "ga:irish hi:hindi hu:hungarian hy:armenian id:indonesian it:italian lt:lithuanian nb:norwegian ne:nepali "
        "nl:dutch nn:norwegian no:norwegian pt:portuguese ro:romanian ru:russian sr:serbian sv:swedish ta:tamil "
        "tr:turkish yi:yiddish"
    ).split()
)
_STEMMED = range(3, 41)
"""Characters of words that are stemmed."""
_MOST_TOKENS = 4_000
"""Words and signs of a sentence in which terms are looked for: more than the model reads of it."""
_EMPHASIS = 4
"""The least number of capitals of a word that is emphasised: fewer may be an abbreviation."""
_SIGNS = str.maketrans(
    dict.fromkeys("\u2019\u2018\u02bc\u00b4`", "'")
    | dict.fromkeys("\u2581\u2122\u2120", " ")
    | dict(
        zip("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079", (f" {n}" for n in range(10)), strict=True)
    )
)
"""Signs for the same: apostrophes, and those that NFKC would make letters or digits of the word before."""
_HYPHENS = "\\-\u2010"
_BURMESE = "[\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e]"


@cache
def _tokens() -> re.Pattern[str]:
    """Return the expression of words, syllables and other signs."""
    marks = "".join(chr(code) for code in range(0x300, 0x1F000) if category(chr(code))[0] == "M")
    thai = "\u0e01-\u0e2f\u0e46-\u0e4f\u0e81-\u0eaf\u0edc-\u0edf"
    syllables = "|".join(
        (
            "[\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff]+",  # a run of Katakana is a word
            f"[\u0e40-\u0e44\u0ec0-\u0ec4]?[{thai}][\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3{marks}]*",
            f"[\u1780-\u17b3](?:\u17d2[\u1780-\u17b3]|[{marks}])*",  # Khmer, with consonants below
            f"{_BURMESE}(?:\u1039{_BURMESE}|[{marks}])*(?:{_BURMESE}\u103a[{marks}]*)*",
            f"[\u3005-\u3007\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff][{marks}]*",
        )
    )
    unspaced = (
        "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    )
    unspaced += "\uf900-\ufaff\U00020000-\U0003ffff"
    letter = f"(?:(?![{unspaced}])[\\w{marks}])"
    return re.compile(f"(?P<word>{syllables}|\\d+(?:[.,]\\d+)+{letter}*|{letter}+)|(?<=\\w)[{_HYPHENS}](?=\\w)|(\\S)")


def _split(text: str) -> tuple[str, list[tuple[int, int, str]]]:
    """Return a text normalised, and its tokens: start, end, text. Spaces, and hyphens within words, are none."""
    text = normalize("NFKC", text.translate(_SIGNS))
    text = text if text.isprintable() else "".join(one for one in text if category(one) != "Cf")
    found = _tokens().finditer(text)
    tokens = ((*one.span(), one[0]) for one in found if one.lastindex and one[0].isprintable())
    return text, list(islice(tokens, _MOST_TOKENS))


class _Node:
    """The terms that begin with the same words. `last`: numbers and last words, by the stem of these."""

    __slots__ = ("last", "next")

    def __init__(self) -> None:
        self.next: dict[str, _Node] = {}
        self.last: dict[str, list[tuple[int, str]]] = {}


class Terms:
    """Terms of a language, found in a sentence in a time that does not grow with their number.

    Args:
        terms: The terms; an empty one occurs nowhere.
        language: Their code, by whose stemmer last words are compared; without one they must be the same.
    """

    def __init__(self, terms: Sequence[str], language: str = "") -> None:
        self._language = language
        self._algorithm = _ALGORITHMS.get(re.split("[-_]", language.lower())[0], "")
        self._root, self._words = _Node(), list[list[str]]()
        for number, term in enumerate(terms):
            words = [token for _, _, token in _split(term)[1]]
            self._words.append(words)
            if words:
                node = self._root
                for word in words[:-1]:
                    node = node.next.setdefault(self._folded(word), _Node())
                node.last.setdefault(self._stem(words[-1]), []).append((number, words[-1]))

    def found(self, text: str, *, overlapping: bool = False) -> list[int]:
        """Return the numbers of the terms that occur in a text, in order. Of terms that overlap the longest wins, of
        terms for the same words the one that is written like them; with `overlapping` all are returned."""
        text, tokens = _split(text)
        words, any_case = [word for _, _, word in tokens], is_in_capitals(text)
        ends = self._ends(words, any_case)
        # The longest first: by the length of the text from the first to the last word, and where it begins.
        waiting = [(tokens[n][0] - tokens[of[-1][0] - 1][1], n) for n, of in enumerate(ends) if of]
        heapify(waiting)
        numbers, taken = set[int](), bytearray(len(tokens) + 1)
        while waiting:
            _, first = heappop(waiting)
            end, candidates = ends[first].pop()
            fitting = [
                (number, is_same and self._words[number] == words[first:end])
                for number, is_same in ([] if taken[first] or taken[end - 1] else candidates)
                if any_case or all(map(self._is_of_case, self._words[number], words[first : end - 1]))
            ]
            if fitting:
                best = not overlapping and any(is_same for _, is_same in fitting)
                numbers.update(number for number, is_same in fitting if is_same or not best)
                if not overlapping:
                    taken[first:end] = b"\1" * (end - first)
            if ends[first] and not taken[first]:
                heappush(waiting, (tokens[first][0] - tokens[ends[first][-1][0] - 1][1], first))
        return sorted(numbers)

    def _ends(self, words: list[str], any_case: bool) -> list[list[tuple[int, list[tuple[int, bool]]]]]:
        """Return for each word of a text where terms that begin there may end, the nearest first: the place of the next
        word, and the terms whose last word it is, each with whether it is written like it."""
        folded, stems = list(map(self._folded, words)), list(map(self._stem, words))
        good, found = dict[tuple[int, str], list[tuple[int, bool]]](), []
        for first in range(len(words)):
            node = self._root
            found.append(ends := list[tuple[int, list[tuple[int, bool]]]]())
            for last in range(first, len(words)):
                if (candidates := node.last.get(stems[last])) is not None:
                    key = id(candidates), words[last]
                    if key not in good:
                        good[key] = [
                            (number, word == words[last])
                            for number, word in candidates
                            if any_case or self._is_of_case(word, words[last])
                        ]
                    if good[key]:
                        ends.append((last + 1, good[key]))
                if (following := node.next.get(folded[last])) is None:
                    break
                node = following
        return found

    def _is_of_case(self, word: str, there: str) -> bool:
        """Return whether a word of a term may be written as it is in a text, which differs in case or at its end."""
        if word == there or (len(there) >= _EMPHASIS and there.isupper() and self._is_small(word[1:])):
            return True
        same = 0
        while same < min(len(word), len(there)) and self._folded(word[same]) == self._folded(there[same]):
            same += 1
        return word[1:same] == there[1:same] and self._is_small(there[max(same, 1) :])

    def _is_small(self, letters: str) -> bool:
        return letters == lowered(letters, self._language)

    def _folded(self, word: str) -> str:
        return lowered(word, self._language).casefold()

    def _stem(self, word: str) -> str:
        return _stem(self._folded(word), self._algorithm)


_turn = Lock()
"""A stemmer has a state while it works."""


@cache
def _stemmer(algorithm: str) -> Any:
    """Return the stemmer of a language; None if the library is not installed, or a version without it."""
    try:
        import snowballstemmer
    except ImportError:
        return None
    return snowballstemmer.stemmer(algorithm) if algorithm in snowballstemmer.algorithms() else None


@lru_cache(maxsize=2**16)
def _stem(word: str, algorithm: str) -> str:
    """Return the stem of a word in lower case; the word where there is no stemmer."""
    if not algorithm or len(word) not in _STEMMED or not word.isalpha():
        return word
    with _turn:
        stemmer = _stemmer(algorithm)
        return word if stemmer is None else str(stemmer.stemWord(word))
