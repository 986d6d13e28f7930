"""Units listed one by one, where no sentencepiece model cuts the text: words, characters, or the pieces of a
subword-nmt code. Imported models have such vocabularies."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

from nmt.data.tokens.segmentations import Units
from nmt.data.tokens.subwords import SPECIAL_PIECES, Subwords
from nmt.errors import DataError
from nmt.overriding import override
from nmt.special_tokens import EOS_ID, SPACE, UNK_ID

Split = Literal["words", "characters"]
Unknown = Literal["token", "left_out"]

_KEY = "nmt_vocabulary"
_VERSION = 1
START = b'{"' + _KEY.encode()
"""With this begin the bytes of every such file, and those of no sentencepiece model."""
_MOST_UNITS = 10_000_000
_JOINER = "@@"
"""What subword-nmt writes behind a piece that the word goes on after."""
_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class Vocabulary(Subwords):
    """A list of units; ids 0 to 3 are padding, unknown, begin and end, and `units` follow from 4 on.

    split: Where text is cut: at spaces (words) or between all characters. merges: Pairs of pieces in the order in which
    subword-nmt (Sennrich et al. 2016, section 3.2; its file's version 0.2) joins them inside words; units are then
    pieces, with `@@` where the word goes on. unknown: What becomes of a unit that is not listed: the unknown token, or
    it is left out.
    """

    def __init__(
        self,
        units: Sequence[str],
        *,
        split: Split = "words",
        unknown: Unknown = "token",
        merges: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.units, self.split, self.unknown = list(units), split, unknown
        self._ids = {unit: n for n, unit in enumerate(self.units, start=len(SPECIAL_PIECES))}
        self._ranks = {tuple(pair): n for n, pair in enumerate(merges)}
        content = {
            _KEY: _VERSION,
            "split": split,
            "unknown": unknown,
            "units": self.units,
            "merges": [list(pair) for pair in merges],
        }
        self.model_bytes = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
        self._words: dict[str, list[str]] = {}
        self.are_pieces = split == "words" and any(unit.startswith(SPACE) for unit in self.units)
        """Whether units are pieces of sentencepiece, cut by somebody else: words are not known here."""

    def __repr__(self) -> str:
        """Return how many units, of what kind."""
        return f"Vocabulary({self.vocab_size:,} units, {self.split})"

    @property
    def vocab_size(self) -> int:
        """Return number of units, the four special ones counted."""
        return len(SPECIAL_PIECES) + len(self.units)

    @property
    def units_of_text(self) -> Units:
        """See `Subwords`: there is one cut."""
        return Units("other", {}, {})

    @override
    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        return [[self._ids.get(unit, UNK_ID) for unit in self._kept(sentence)] for sentence in sentences]

    @override
    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        first = len(SPECIAL_PIECES)
        return [self._text([self.units[i - first] for i in row if i > EOS_ID]) for row in rows]

    @override
    def cut(self, sentences: Sequence[str]) -> list[list[str]]:
        return [self._marked(self._kept(sentence)) for sentence in sentences]

    @override
    def join(self, pieces: Sequence[str]) -> str:
        return self._text(pieces if self.are_pieces else [piece.removeprefix(SPACE) for piece in pieces])

    @override
    def pieces(self, ids: Sequence[int]) -> list[str]:
        first = len(SPECIAL_PIECES)
        return self._marked([SPECIAL_PIECES[i] if i < first else self.units[i - first] for i in ids])

    def _kept(self, sentence: str) -> list[str]:
        """Return the units of a sentence that the model reads."""
        units = self._units(sentence)
        if self.unknown == "left_out":
            units = [unit for unit in units if unit in self._ids]
        return units

    def _units(self, sentence: str) -> list[str]:
        """Return a sentence as it is cut, before anything is looked up."""
        if self.split == "characters":
            return list(sentence)
        words = sentence.split()
        return [piece for word in words for piece in self._pieces(word)] if self._ranks else words

    def _pieces(self, word: str) -> list[str]:
        """Return the pieces of a word: of the pairs side by side the one that was learned first is joined, again and
        again."""
        found = self._words.get(word)
        if found is None:
            parts = [*word[:-1], word[-1] + "</w>"]
            while len(parts) > 1:
                rank, at = min((self._ranks.get((a, b), len(self._ranks)), n) for n, (a, b) in enumerate(pairs(parts)))
                if rank == len(self._ranks):
                    break
                parts = _joined(parts, parts[at], parts[at + 1])
            parts[-1] = parts[-1].removesuffix("</w>")
            found = [part + _JOINER for part in parts[:-1]] + parts[-1:]
            if len(self._words) < 1_000_000:
                self._words[word] = found
        return found

    def _text(self, units: Sequence[str]) -> str:
        """Join units to a text."""
        text = ("" if self.split == "characters" else " ").join(units)
        if self._ranks:
            text = text.replace(f"{_JOINER} ", "").removesuffix(_JOINER)
        return _BREAKS.sub(" ", text)

    def _marked(self, units: Sequence[str]) -> list[str]:
        """Return units with the sign for a word's start where one starts, as sentencepiece shows them."""
        if self.are_pieces:
            return list(units)
        if self.split == "characters":
            return [SPACE if unit == " " else unit for unit in units]
        goes_on = [False, *(bool(self._ranks) and unit.endswith(_JOINER) for unit in units[:-1])]
        special = SPECIAL_PIECES
        return [u if on or u in special else SPACE + u for u, on in zip(units, goes_on, strict=False)]


def pairs(parts: Sequence[str]) -> list[tuple[str, str]]:
    """Neighbours."""
    return list(zip(parts, parts[1:], strict=False))


def _joined(parts: list[str], a: str, b: str) -> list[str]:
    """Return the parts with every a before a b joined to it."""
    found: list[str] = []
    n = 0
    while n < len(parts):
        both = parts[n] == a and n + 1 < len(parts) and parts[n + 1] == b
        found.append(a + b if both else parts[n])
        n += 2 if both else 1
    return found


def read_vocabulary(content: bytes, where: str) -> Vocabulary:
    """Return a vocabulary from its bytes, which begin with START. Raises DataError, which begins with `where`: they are
    damaged."""
    try:
        values: dict[str, Any] = json.loads(content)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: must be a vocabulary, got a part of one; put back a copy") from None
    if problem := _problem(values):
        raise DataError(f"{where}: must be a vocabulary, got {problem}; put back a copy")
    merges = [(a, b) for a, b in values["merges"]]
    return Vocabulary(values["units"], split=values["split"], unknown=values["unknown"], merges=merges)


def _problem(values: dict[str, Any]) -> str:
    """Return what is wrong with what a file holds; nothing where all is well."""
    units, merges = values.get("units"), values.get("merges")
    if values.get(_KEY) != _VERSION:
        return f"another version than {_VERSION}"
    if values.get("split") not in ("words", "characters") or values.get("unknown") not in ("token", "left_out"):
        return "no known way to split text"
    if not isinstance(units, list) or len(units) > _MOST_UNITS or not all(isinstance(u, str) and u for u in units):
        return "units that are no texts"
    if len(set(units)) != len(units):
        return "a unit twice"
    if any(not unit.isascii() and any("\ud800" <= c <= "\udfff" for c in unit) for unit in units):
        return "units that are no texts"
    if not isinstance(merges, list) or not all(
        isinstance(m, list) and len(m) == 2 and all(isinstance(part, str) for part in m) for m in merges
    ):
        return "merges that are no pairs of texts"
    return ""
