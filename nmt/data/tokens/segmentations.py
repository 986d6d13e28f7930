"""Sample segmentations of words: BPE-dropout, and sampling from a unigram model.

sentencepiece can sample as well, but from a generator that no other process can repeat (0.2.3 adds a salt of the
process to the seed), so a run could not be resumed with identical results. Here a segmentation depends on the word and
the random numbers alone. Precomputed data of each word are cached, so that a repeated word costs little more than its
random numbers."""

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
# The number of cached words: in a corpus of millions of sentences, fewer words make up most of the text.
_MOST_WORDS = 1 << 15


class Units(NamedTuple):
    """The subwords of a sentencepiece model with their scores.

    type: unigram, bpe or other. scores, numbers: For each subword that text is split into, its score and its number in
    the model; symbols that are never split, bytes and special tokens are not included.
    """

    type: str
    scores: dict[str, float]
    numbers: dict[str, int]


def units_of(model_bytes: bytes) -> Units:
    """Return the subwords of a sentencepiece model, parsed as a protocol buffer (sentencepiece_model.proto)."""
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
    """Return a sampler of segmentations with these subwords, or None if there is only one segmentation."""
    kinds: dict[str, type[Segmentation]] = {"unigram": UnigramSegmentation, "bpe": BpeSegmentation}
    kind = kinds.get(units.type)
    return None if kind is None else kind(units.scores, alpha)


class Segmentation(ABC):
    """Samples segmentations of words. `alpha`: see the two subclasses."""

    def __init__(self, scores: Mapping[str, float], alpha: float) -> None:
        self._scores, self._alpha = scores, alpha
        self._longest = max(map(len, scores), default=0)
        self._known: dict[str, Any] = {}

    def draw(self, word: str, random: Random) -> list[str] | None:
        """Return a sampled segmentation of the word, or None if the model cannot segment all of it."""
        found = self._known.get(word)
        if found is None:
            if len(self._known) >= _MOST_WORDS:
                self._known.clear()
            found = self._known[word] = self._prepared(word)
        return self._sampled(found, random)

    @abstractmethod
    def _prepared(self, word: str) -> Any:
        """Return the data to cache for a word."""

    @abstractmethod
    def _sampled(self, found: Any, random: Random) -> list[str] | None:
        """Return a sampled segmentation, given the cached data."""


class UnigramSegmentation(Segmentation):
    """Samples a segmentation of a word with its probability to the power alpha (Kudo 2018, section 3.2), exactly:
    probabilities are summed over the lattice from the left, and subwords sampled from the right."""

    def _prepared(self, word: str) -> list[list[tuple[float, str]]]:
        """Return the subwords that may end at each position, with their cumulative probabilities."""
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

    def _sampled(self, found: list[list[tuple[float, str]]], random: Random) -> list[str] | None:
        end, units = len(found) - 1, []
        while end:
            at_end = found[end]
            if not at_end:
                return None
            unit = at_end[-1][1]  # even if rounding leaves the last sum below the random number
            if len(at_end) > 1:
                number = random.random()
                unit = next((one for below, one in at_end if number < below), unit)
            units.append(unit)
            end -= len(unit)
        return units[::-1]


class BpeSegmentation(Segmentation):
    """Merges neighbouring pieces, starting from letters, always the best possible merge first; in each step, every
    possible merge is dropped with probability alpha. If all are dropped, the word stays as it is (Provilkov et al.
    2020, algorithm 1).

    Dropping matters only for merges better than the one that is applied, so random numbers are drawn for those alone.
    Most words are merged as without dropout, and these steps are cached.
    """

    def _prepared(self, word: str) -> list[list[str]]:
        """Return the pieces before each merge and after the last one, without dropout."""
        steps = [list(word)]
        while merges := self._merges(steps[-1]):
            steps.append(_merged(steps[-1], merges[0]))
        return steps

    def _sampled(self, found: list[list[str]], random: Random) -> list[str] | None:
        done = 0
        while done < len(found) - 1 and random.random() >= self._alpha:
            done += 1
        units = found[done]
        if done < len(found) - 1:  # the best merge of this step is dropped
            first = 1
            while (place := self._best_merge(units, first, random)) is not None:
                units, first = _merged(units, place), 0
        return None if any(unit not in self._scores for unit in units) else units

    def _best_merge(self, units: list[str], first: int, random: Random) -> int | None:
        """Return the position of the best merge that is not dropped, from index `first` of the order on, or None."""
        return next((place for place in self._merges(units)[first:] if random.random() >= self._alpha), None)

    def _merges(self, units: Sequence[str]) -> list[int]:
        """Return the positions of neighbours that can be merged, the best score and then the leftmost first."""
        scores = self._scores
        possible = [
            (-scores[pair], place)
            for place, pair in enumerate(map("".join, zip(units, units[1:], strict=False)))
            if pair in scores
        ]
        return [place for _, place in sorted(possible)]


def _merged(units: list[str], place: int) -> list[str]:
    """Return the pieces with the two at this position merged."""
    return [*units[:place], units[place] + units[place + 1], *units[place + 2 :]]
