"""Vocabularies listed token by token, used without a sentencepiece model: words, characters, or the pieces of a
subword-nmt code. Imported models have such vocabularies.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

from nmt.data.tokens.subwords import SPECIAL_PIECES, Subwords
from nmt.errors import BREAKS, DataError
from nmt.overriding import override
from nmt.special_tokens import EOS_ID, SPACE, UNK_ID

Split = Literal["words", "characters"]
Unknown = Literal["token", "left_out"]

_KEY = "nmt_vocabulary"
_VERSION = 1
START = b'{"' + _KEY.encode()
"""The first bytes of every such file, and of no sentencepiece model."""
_MOST_UNITS = 10_000_000
_JOINER = "@@"
"""The suffix that subword-nmt adds to a piece that does not end its word."""


class Vocabulary(Subwords):
    """A list of tokens; ids 0 to 3 are padding, unknown, BOS and EOS, and `units` follow from 4 on.

    split: Where text is split: at spaces (words) or between all characters. merges: Pairs of pieces in the order in
    which subword-nmt (Sennrich et al. 2016, section 3.2; its file's version 0.2) joins them inside words; tokens are
    then pieces, with `@@` where the word continues. unknown: How a token that is not listed is treated: it becomes the
    unknown token, or it is dropped.
    """

    _most_words = 1_000_000

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
        """Whether the tokens are sentencepiece pieces, already split elsewhere: word boundaries are unknown here."""

    def __repr__(self) -> str:
        return f"Vocabulary({self.vocab_size:,} units, {self.split})"

    @property
    def vocab_size(self) -> int:
        """Return the number of tokens, including the four special ones."""
        return len(SPECIAL_PIECES) + len(self.units)

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
        """Return the tokens of a sentence that the model reads."""
        units = list(sentence) if self.split == "characters" else sentence.split()
        if self._ranks and self.split == "words":
            units = [piece for word in units for piece in self._pieces(word)]
        return [unit for unit in units if unit in self._ids] if self.unknown == "left_out" else units

    def _pieces(self, word: str) -> list[str]:
        """Return the pieces of a word, cached for the first `_most_words` words."""
        if (found := self._words.get(word)) is None:
            found = self._cut(word)
            if len(self._words) < self._most_words:
                self._words[word] = found
        return found

    def _cut(self, word: str) -> list[str]:
        """Return the pieces of a word, by repeatedly joining the neighbouring pair whose merge was learned first."""
        parts = [*word[:-1], word[-1] + "</w>"]
        while len(parts) > 1:
            rank, at = min((self._ranks.get((a, b), len(self._ranks)), n) for n, (a, b) in enumerate(pairwise(parts)))
            if rank == len(self._ranks):
                break
            parts = _joined(parts, parts[at], parts[at + 1])
        parts[-1] = parts[-1].removesuffix("</w>")
        return [part + _JOINER for part in parts[:-1]] + parts[-1:]

    def _text(self, units: Sequence[str]) -> str:
        """Return the text of tokens."""
        text = ("" if self.split == "characters" else " ").join(units)
        if self._ranks:
            text = text.replace(f"{_JOINER} ", "").removesuffix(_JOINER)
        return BREAKS.sub(" ", text)

    def _marked(self, units: Sequence[str]) -> list[str]:
        """Return tokens with `▁` at the start of each word, as sentencepiece shows them."""
        if self.are_pieces:
            return list(units)
        if self.split == "characters":
            return [SPACE if unit == " " else unit for unit in units]
        goes_on = [False, *(bool(self._ranks) and unit.endswith(_JOINER) for unit in units[:-1])]
        special = SPECIAL_PIECES
        return [u if on or u in special else SPACE + u for u, on in zip(units, goes_on, strict=False)]


def _joined(parts: list[str], a: str, b: str) -> list[str]:
    """Return the parts with every `a` that precedes a `b` joined to it."""
    found: list[str] = []
    n = 0
    while n < len(parts):
        both = parts[n] == a and n + 1 < len(parts) and parts[n + 1] == b
        found.append(a + b if both else parts[n])
        n += 2 if both else 1
    return found


def read_vocabulary(content: bytes, where: str) -> Vocabulary:
    """Return a vocabulary from its bytes. Raises DataError, beginning with `where`, if they are damaged."""
    try:
        values: dict[str, Any] = json.loads(content)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: must be a vocabulary, got a part of one; restore a copy") from None
    if problem := _problem(values):
        raise DataError(f"{where}: must be a vocabulary, got {problem}; restore a copy")
    merges = [(a, b) for a, b in values["merges"]]
    return Vocabulary(values["units"], split=values["split"], unknown=values["unknown"], merges=merges)


def _problem(values: dict[str, Any]) -> str:
    """Return what is wrong with the contents of a file, or an empty text."""
    if values.get(_KEY) != _VERSION:
        return f"another version than {_VERSION}"
    if values.get("split") not in ("words", "characters") or values.get("unknown") not in ("token", "left_out"):
        return "no known way to split text"
    units, merges = values.get("units"), values.get("merges")
    if not isinstance(units, list) or len(units) > _MOST_UNITS or not all(isinstance(u, str) and u for u in units):
        return "units that are not texts"
    if len(set(units)) != len(units):
        return "a unit twice"
    if any(not unit.isascii() and any("\ud800" <= c <= "\udfff" for c in unit) for unit in units):
        return "units that are not texts"
    if not isinstance(merges, list) or not all(
        isinstance(m, list) and len(m) == 2 and all(isinstance(part, str) for part in m) for m in merges
    ):
        return "merges that are not pairs of texts"
    return ""
