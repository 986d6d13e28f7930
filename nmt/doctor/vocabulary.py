"""Check whether the subwords fit the texts: unknown characters, tokens that never occur, sentences that are too
long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from nmt.data.tokens.factors import FactorError
from nmt.doctor.findings import Finding, Tally, found
from nmt.special_tokens import EOS_ID, UNK_ID

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.corpora.corpus import Side
    from nmt.doctor.texts import Text

_RARE = 5
"""An embedding is learned from the occurrences of its token; fewer than this many teach little."""
_MOST_RARE = 0.5
_LEAST_UNITS = 200
_MOST_UNKNOWN = 0.001
_MOST_LONG = 0.01
_SHOWN = 8


class Vocabulary:
    """Counts the tokens of texts. `config`: the settings, which say where the subwords come from."""

    def __init__(self, sides: Sequence[Side], config: Config) -> None:
        self._sides, self._is_given = sides, config.training.load_model is not None
        self._asked = config.data.subwords
        self._counts = [np.zeros(side.subwords.vocab_size, dtype=np.int64) for side in sides]

    def check(self, text: Text, lines: Sequence[Sequence[str]], *, training: bool) -> list[Finding]:
        """Tokenize the cleaned lines of each side, which start at the first line; return findings about unknown
        characters and, for training text, about sentences that are too long."""
        findings: list[Finding | None] = []
        too_long = np.zeros(len(lines[0]), dtype=bool)
        for side, counts, these, file in zip(self._sides, self._counts, lines, text.files, strict=True):
            rows = _units(side, these, file)
            unknown = np.fromiter((UNK_ID in row for row in rows), dtype=bool, count=len(rows))
            lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
            too_long |= lengths > side.config.max_length
            if training:
                tokens = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(lengths.sum()))
                counts += np.bincount(tokens, minlength=len(counts))
            findings.append(_unknown(side, file, these, rows, unknown, self._advice))
        if training:
            findings.append(_long(text, too_long, lines))
        return found(findings)

    @property
    def _advice(self) -> str:
        """Return the advice about unknown characters."""
        if self._is_given:
            return "training.extend_vocabulary adds subwords to those of training.load_model"
        asked = self._asked
        if asked.model_file or asked.src_model_file or asked.tgt_model_file:
            return "let nmt learn subwords of this text, without data.subwords.model_file"
        advice = ["raise data.subwords.character_coverage"] if asked.character_coverage < 1 else []
        if asked.type == "word":
            advice.append("use subwords instead of words (data.subwords.type: unigram), of text with these characters")
        return ", or ".join(advice) or "the training text has none of these characters; add text that has them"

    def absurd(self, text: Text, share: float) -> list[Finding]:
        """Return findings about rarely used vocabularies, but for one whose size is chosen by the text; `share` is the
        checked part of the training text."""
        asked, is_words = self._asked.vocab_size, self._asked.type == "word"
        if asked == "auto" and not (is_words or self._is_given):
            return []
        findings = []
        groups: dict[int, list[int]] = {}
        for number, side in enumerate(self._sides):
            groups.setdefault(id(side.subwords), []).append(number)
        for numbers in groups.values():
            counts = np.sum([self._counts[number] for number in numbers], axis=0)[EOS_ID + 1 :]
            rare = int((counts < max(1, _RARE * share)).sum())
            if len(counts) > _LEAST_UNITS and rare > _MOST_RARE * len(counts):
                files = ", ".join(text.files[number] for number in numbers)
                what = f"of the vocabulary are seen less than {_RARE} times in the training text"
                better = "subwords (data.subwords.type: unigram) learn" if is_words else "auto learns"
                advice = f"too few to learn a vector from: data.subwords.vocab_size is {asked}; {better} more"
                if self._is_given:
                    advice = "too few to learn a vector from; they stay as the model of training.load_model has them"
                findings.append(Finding("vocabulary", "warning", files, rare, len(counts), what, "units", (), advice))
        return findings


def _units(side: Side, lines: Sequence[str], file: str) -> list[list[int]]:
    """Return the token ids of lines. Raises DataError for a word with another number of factors."""
    subwords = side.subwords
    try:
        rows = subwords.encode(lines)
    except FactorError as error:
        raise error.at(f"{file}, line {error.index + 1}") from None
    return [list(subwords.unit_ids(row)) for row in rows] if subwords.factor_sizes else rows


def _unknown(
    side: Side, file: str, lines: Sequence[str], rows: list[list[int]], marked: np.ndarray, advice: str
) -> Finding | None:
    """Return the finding about unknown tokens if there are more than a few, or None."""
    units = sum(map(len, rows))
    count = sum(row.count(UNK_ID) for row in rows)
    if not units or count / units < _MOST_UNKNOWN:
        return None
    examples = Tally()
    examples.add(marked, 0, lines)
    unknown: Counter[str] = Counter()
    for number in np.flatnonzero(marked)[:1000].tolist():
        pieces = side.subwords.cut([lines[number]])[0]
        unknown.update(piece.strip("▁") for piece, unit in zip(pieces, rows[number], strict=True) if unit == UNK_ID)
    often = " ".join(piece for piece, _ in unknown.most_common(_SHOWN))
    what = f"are unknown to the vocabulary, most often {often}"
    return Finding("unknown", "warning", file, count, units, what, "units", tuple(examples.examples), advice)


def _long(text: Text, marked: np.ndarray, lines: Sequence[Sequence[str]]) -> Finding | None:
    """Return the finding about lines over max_length if there are more than a few, or None."""
    if marked.mean() <= _MOST_LONG:
        return None
    tally = Tally()
    tally.add(marked, 0, *lines)
    limits = " and ".join(f"data.{name}.max_length" for name in ("src", "tgt")[2 - len(text.sides) :])
    unit = "pairs" if len(text.sides) == 2 else "lines"
    advice = f"raise {limits}, or split the text into sentences"
    return tally.finding("long", text.where, len(marked), "are longer than max_length", unit=unit, advice=advice)
