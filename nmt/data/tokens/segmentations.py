"""A word cut into subwords in a way that is drawn: BPE-dropout, and sampling from a unigram model.

sentencepiece draws as well, but from a generator that no other process can repeat (0.2.3 adds a salt of the process to
the seed), so a run could not be resumed to the same bits. Here a cut is a function of the word and of the numbers that
are drawn. What is known of a word beforehand is kept, so that a word met again costs little more than its draws.
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from nmt.data.tokens.protobuf import fields

_UNIGRAM, _BPE = 1, 2
_NORMAL = 1
# Words of which something is kept: a corpus of millions of sentences has most of its text in fewer.
_MOST_WORDS = 1 << 15


class Units(NamedTuple):
    """What a sentencepiece model says of its units.

    type: unigram, bpe or other. scores, numbers: Of each unit that text is cut into, the number in the model itself;
    symbols that are never cut, bytes and special units are not among them.
    """

    type: str
    scores: dict[str, float]
    numbers: dict[str, int]


def units_of(model_bytes: bytes) -> Units:
    """Return the units of a sentencepiece model: a message of protocol buffers, sentencepiece_model.proto."""
    kind, scores, numbers, count = _UNIGRAM, {}, {}, 0
    content: Iterator[tuple[int, Any]] = fields(model_bytes)
    for field, value in content:
        if field == 1:
            piece: dict[int, Any] = {3: _NORMAL, **dict(fields(value))}
            if piece[3] == _NORMAL:
                text = piece[1].decode("utf-8", "replace")
                scores[text], numbers[text] = struct.unpack("<f", piece.get(2, bytes(4)))[0], count
            count += 1
        elif field == 2:
            own: dict[int, Any] = dict(fields(value))
            kind = own.get(3, kind)
    return Units({_UNIGRAM: "unigram", _BPE: "bpe"}.get(kind, "other"), scores, numbers)


def segmentation_of(units: Units, alpha: float) -> Segmentation | None:
    """Return what draws cuts of words with these units; None where there is one cut alone."""
    kinds: dict[str, type[Segmentation]] = {"unigram": UnigramSegmentation, "bpe": BpeSegmentation}
    kind = kinds.get(units.type)
    return None if kind is None else kind(units.scores, alpha)


class Segmentation(ABC):
    """Draws how words are cut.

    Args:
        scores: Of each unit.
        alpha: See the two kinds.
    """

    def __init__(self, scores: Mapping[str, float], alpha: float) -> None:
        self._scores, self._alpha = scores, alpha
        self._longest = max(map(len, scores), default=0)
        self._known: dict[str, Any] = {}

    def draw(self, word: str, random: Random) -> list[str] | None:
        """Return the units of a word; None if the model has no units for all of it. The same numbers, the same
        units."""
        found = self._known.get(word)
        if found is None:
            if len(self._known) >= _MOST_WORDS:
                self._known.clear()
            found = self._known[word] = self._prepared(word)
        return self._drawn(found, random)

    @abstractmethod
    def _prepared(self, word: str) -> Any:
        """Return what is to be kept of a word."""

    @abstractmethod
    def _drawn(self, found: Any, random: Random) -> list[str] | None:
        """Return a cut, by what is kept."""


class UnigramSegmentation(Segmentation):
    """Of all cuts of a word one is drawn by its probability to the power alpha (Kudo 2018, section 3.2), exactly:
    probabilities are summed over the lattice from the left, and the units drawn from the right."""

    def _prepared(self, word: str) -> list[list[tuple[float, str]]]:
        """For each place in the word the units that may end there, with their probabilities, summed up."""
        sums = [0.0] + [-math.inf] * len(word)
        ways: list[list[tuple[float, str]]] = [[]]
        for end in range(1, len(word) + 1):
            units = [word[start:end] for start in range(max(0, end - self._longest), end)]
            weights = [
                (sums[end - len(unit)] + self._alpha * self._scores[unit], unit)
                for unit in units
                if unit in self._scores and sums[end - len(unit)] > -math.inf
            ]
            most = max((weight for weight, _ in weights), default=-math.inf)
            total = math.fsum(math.exp(weight - most) for weight, _ in weights)
            sums[end] = most + math.log(total) if weights else most
            below, at_end = 0.0, []
            for weight, unit in weights:
                below += math.exp(weight - most) / total
                at_end.append((below, unit))
            ways.append(at_end)
        return ways

    def _drawn(self, found: list[list[tuple[float, str]]], random: Random) -> list[str] | None:
        end, units = len(found) - 1, []
        while end:
            at_end = found[end]
            if not at_end:
                return None
            unit = at_end[-1][1]  # also where rounding leaves the last sum below the number drawn
            if len(at_end) > 1:
                number = random.random()
                unit = next((one for below, one in at_end if number < below), unit)
            units.append(unit)
            end -= len(unit)
        return units[::-1]


class BpeSegmentation(Segmentation):
    """Merges from letters on, the best that is possible first, where each that is possible is left out of a step with
    probability alpha; if all are, the word stays as it is (Provilkov et al. 2020, algorithm 1).

    Whether a merge is left out matters only for those that are better than the one that is taken, so numbers are drawn
    for those alone. Most words are merged as without dropout, and those steps are kept.
    """

    def _prepared(self, word: str) -> list[list[str]]:
        """Return the units before each merge and after the last one, without dropout."""
        steps = [list(word)]
        while merges := self._merges(steps[-1]):
            steps.append(_merged(steps[-1], merges[0]))
        return steps

    def _drawn(self, found: list[list[str]], random: Random) -> list[str] | None:
        done = 0
        while done < len(found) - 1 and random.random() >= self._alpha:
            done += 1
        units = found[done]
        if done < len(found) - 1:  # the best merge of this step is left out
            first = 1
            while (place := self._taken(units, first, random)) is not None:
                units, first = _merged(units, place), 0
        return None if any(unit not in self._scores for unit in units) else units

    def _taken(self, units: list[str], first: int, random: Random) -> int | None:
        """Return the place of the best merge that is not left out, from number `first` of the order on."""
        return next((place for place in self._merges(units)[first:] if random.random() >= self._alpha), None)

    def _merges(self, units: Sequence[str]) -> list[int]:
        """Return the places of neighbours that can be merged: the best score first, of equal ones the left one."""
        scores = self._scores
        possible = [
            (-scores[pair], place)
            for place, pair in enumerate(map("".join, zip(units, units[1:], strict=False)))
            if pair in scores
        ]
        return [place for _, place in sorted(possible)]


def _merged(units: list[str], place: int) -> list[str]:
    """Return units of which two neighbours are one."""
    return [*units[:place], units[place] + units[place + 1], *units[place + 2 :]]
