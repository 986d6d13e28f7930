"""The probability that a person would keep a translation, from what is known when it is found: how sure the model was,
the lengths, and the share of the source that training never had. The validation text says what each of these is worth.

A word is a run of units with letters, in any case and however it is split into units; it is known by the hash of its
letters, and a pair of neighbouring units by that of their ids.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nmt.data.corpora.readers import TokenRows
from nmt.data.tokens.characters import lowered
from nmt.special_tokens import EOS_ID, PAD_ID, SPACE, UNK_ID, UNKNOWN_FEATURE_ID

if TYPE_CHECKING:
    from nmt.data.tokens.subwords import Subwords

KEPT = 60.0
"""chrF of a sentence from which a translation counts as one that a person would keep and correct."""
LEAST_PAIRS = 20
"""Validation pairs from which a calibration is learned."""
_MOST_LOSS, _LETTERS = 20.0, 1.5
"""The most nats for each subword that count; the mean length of words up to which a text is one of letters."""
_RIDGE, _LEAST_ERROR = 1.0, 1.0
_NORMAL = 1.7
"""The slope of the logistic function that is nearest to the normal distribution."""
FEATURES = 6
"""The number of features, 1 among them."""
_STEPS = 300
_MOST_HASHES = 2**18
"""The most words, and pairs of units, that are remembered: the most frequent ones."""
_TOKENS_AT_ONCE = 2**22
_FACTOR = np.uint32(0x9E3779B1)
_ALONE = re.compile("[\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]")
"""Signs of scripts without spaces between words: each unit is a word."""
_BEGINS = 128
"""Added to the size of a unit that begins a word."""


@dataclass(frozen=True)
class Calibration:
    """The lessons of a validation text about the translations of a model.

    Attributes:
        units, sizes: The hash of each unit of the source, uint32, and how many signs of a word it is, uint8: 0 for a
            unit without letters, _BEGINS more for one that begins a word.
        words, pairs: Hashes of what training had, uint32, in order.
        weights: Of 1 and of each feature, float64.
        usual: The share of words of the validation text that training never had.
        least: The chrF from which a translation of the validation text counted as kept; 100 asks for the reference.
    """

    units: np.ndarray
    sizes: np.ndarray
    words: np.ndarray
    pairs: np.ndarray
    weights: np.ndarray
    usual: float
    least: float

    def chances(self, rows: Sequence[Sequence[int]], log_probs: Sequence[float], lengths: Sequence[int]) -> np.ndarray:
        """Return the probability that a person would keep each translation. `rows`: the ids of the sources, none
        empty; `log_probs`, `lengths`: sums over the subwords of the translations, and their counts."""
        return _sigmoid(self._features(rows, log_probs, lengths) @ self.weights)

    def share_unseen(self, rows: Sequence[Sequence[int]]) -> float:
        """Return the share of the words of rows that training never had; 0 without words."""
        words = _Words(TokenRows.from_lists(rows), self.units, self.sizes)
        return float(words.are_new(self.words).mean()) if len(words.hashes) else 0.0

    def unseen(self, rows: Sequence[Sequence[int]]) -> list[list[slice]]:
        """Return where in each row the words are that training never had."""
        found: list[list[slice]] = [[] for _ in rows]
        if any(map(len, rows)):
            words = _Words(TokenRows.from_lists(rows), self.units, self.sizes)
            places = (words.rows, words.starts, words.ends, words.are_new(self.words))
            for row, start, end, is_new in zip(*(place.tolist() for place in places), strict=True):
                if is_new:
                    found[row].append(slice(start, end))
        return found

    def _features(
        self, rows: Sequence[Sequence[int]], log_probs: Sequence[float], lengths: Sequence[int]
    ) -> np.ndarray:
        """Return the features of translations, [N, 6] float64, the first of them 1."""
        source = TokenRows.from_lists(rows)
        words = _Words(source, self.units, self.sizes)
        most, read, written = len(rows), source.lengths, np.maximum(lengths, 1)
        counts = np.bincount(words.rows, minlength=most)
        new = np.bincount(words.rows, words.are_new(self.words), most)
        ends = np.cumsum(read + 1)
        strange = np.concatenate([[0], np.cumsum(~_are_in(_pairs(source), self.pairs))])
        columns = (
            np.ones(most),
            -np.sqrt(np.clip(-np.asarray(log_probs, np.float64) / written, 0, _MOST_LOSS)),
            np.log(written),
            np.log(written / np.maximum(read, 1)),
            new / np.maximum(counts, 1),
            np.diff(strange[ends], prepend=0) / (read + 1),
        )
        return np.stack(columns, 1)


def learn_known(subwords: Subwords, source: TokenRows) -> Calibration:
    """Return what training had, without weights: `source` are the rows of the training text."""
    units, sizes = _tables(subwords)
    return Calibration(
        units,
        sizes,
        _most_frequent(_Words(part, units, sizes).hashes for part in _parts(source)),
        _most_frequent(map(_pairs, _parts(source))),
        weights=np.zeros(0),
        usual=0.0,
        least=KEPT,
    )


def calibrated(
    known: Calibration,
    rows: Sequence[Sequence[int]],
    log_probs: Sequence[float],
    lengths: Sequence[int],
    scores: Sequence[float],
    least: float,
) -> Calibration | None:
    """Return a calibration by translations of the validation text, of which `scores` are the chrF and `least` that of
    one that is kept. None if they are too few to learn from.

    A line through the features predicts chrF, which tells more of a bad translation than that it is not kept; a
    logistic function of that line predicts which are kept. Both prefer small weights; the second begins as what follows
    from the first if its errors are normal, so that a model of which nothing is kept yet has an order, too.
    """
    if len(rows) < LEAST_PAIRS:
        return None
    features, chrf = known._features(rows, log_probs, lengths), np.asarray(scores, np.float64)
    mean, scale = features[:, 1:].mean(0), features[:, 1:].std(0) + 1e-6
    inner = (features[:, 1:] - mean) / scale
    slopes = np.linalg.solve(inner.T @ inner + _RIDGE * np.eye(inner.shape[1]), inner.T @ (chrf - chrf.mean()))
    line = chrf.mean() + inner @ slopes - least
    error = (chrf - least - line).std() + _LEAST_ERROR
    offset, slope = _logistic(line / error, chrf >= least)
    slopes = slope * slopes / (error * scale)
    offset += slope * (chrf.mean() - least) / error
    weights = np.concatenate([[offset - slopes @ mean], slopes])
    return replace(known, weights=weights, usual=known.share_unseen(rows), least=least)


def least_of(references: Sequence[str]) -> float:
    """Return the chrF from which a translation is kept: KEPT, or 100 where the text has single words or letters."""
    words = [line.split() for line in references]
    count, letters = sum(map(len, words)), sum(len(word) for line in words for word in line)
    return 100.0 if count < 2 * len(words) or letters < _LETTERS * count else KEPT


def _logistic(line: np.ndarray, kept: np.ndarray) -> tuple[float, float]:
    """Return offset and slope of the most probable logistic function. The targets are those of Platt (1999),
    "Probabilistic outputs for support vector machines", so that no text makes it certain; steps with the most curvature
    that there can be (Böhning 1992) never go too far."""
    good, bad = int(kept.sum()), int((~kept).sum())
    targets = np.where(kept, (good + 1) / (good + 2), 1 / (bad + 2))
    inputs = np.stack([np.ones(len(line)), line], 1)
    found = normal = np.array([0.0, _NORMAL])
    step = np.linalg.inv(inputs.T @ inputs / 4 + _RIDGE * np.eye(2))
    for _ in range(_STEPS):
        found = found - step @ (inputs.T @ (_sigmoid(inputs @ found) - targets) + _RIDGE * (found - normal))
    return float(found[0]), float(found[1])


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -30.0, 30.0))))


class _Words:
    """The words of rows of units: in which `rows` they are, their `starts` and `ends` in these, their `hashes`."""

    def __init__(self, source: TokenRows, units: np.ndarray, sizes: np.ndarray) -> None:
        tokens, count = source.tokens, len(source.tokens)
        of_unit = tokens % len(units)  # ids with factors count on beyond the units
        size = sizes[of_unit]
        begins = size >= _BEGINS
        size = (size % _BEGINS).astype(np.int64)
        begins |= size == 0
        begins[1:] |= size[:-1] == 0
        begins[source.starts[:-1][source.lengths > 0]] = True
        first = np.flatnonzero(begins)
        last = np.append(first[1:], count)
        read = np.cumsum(size)
        after = np.repeat(read[last - 1], last - first) - read  # signs that follow in the word
        unknown = (tokens == UNK_ID) | (tokens == UNKNOWN_FEATURE_ID)
        factors = np.append(np.uint32(1), np.full(int(after.max(initial=0)), _FACTOR))
        hashes = units[of_unit] * np.multiply.accumulate(factors, dtype=np.uint32)[after]
        if count:
            hashes, unknown = np.add.reduceat(hashes, first, dtype=np.uint32), np.logical_or.reduceat(unknown, first)
        is_word = size[first] > 0
        self.rows = np.searchsorted(source.starts, first, "right")[is_word] - 1
        self.starts = first[is_word] - source.starts[self.rows]
        self.ends = last[is_word] - source.starts[self.rows]
        self.hashes, self._unknown = hashes[is_word], unknown[is_word]

    def are_new(self, known: np.ndarray) -> np.ndarray:
        """Return which words have other hashes than the known ones, or units that no text has."""
        return self._unknown | ~_are_in(self.hashes, known)


def _tables(subwords: Subwords) -> tuple[np.ndarray, np.ndarray]:
    """Return hash and size of each unit."""
    units, sizes = np.zeros((2, subwords.vocab_size), np.uint32)
    for number, piece in enumerate(subwords.pieces(range(subwords.vocab_size))):
        signs = lowered(piece.removeprefix(SPACE))
        if any(unicodedata.category(one)[0] in "LM" for one in signs):
            found = 0
            for one in signs:
                found = (found * int(_FACTOR) + ord(one)) % 2**32
            units[number] = found
            begins = piece.startswith(SPACE) or _ALONE.search(signs)
            sizes[number] = min(len(signs), _BEGINS - 1) + (_BEGINS if begins else 0)
    sizes[UNK_ID] = 1
    return units, sizes.astype(np.uint8)


def _pairs(source: TokenRows) -> np.ndarray:
    """Return the hashes of neighbouring units of rows, in order, one more of each row than it has units."""
    ends, count = np.cumsum(source.lengths + 1) - 1, len(source.tokens) + len(source)
    is_end = np.zeros(count, bool)
    is_end[ends] = True
    after = np.full(count, EOS_ID, np.uint32)
    after[~is_end] = source.tokens.astype(np.uint32)
    before = np.concatenate([[PAD_ID], after[:-1]]).astype(np.uint32)
    before[1:][is_end[:-1]] = PAD_ID
    return np.asarray((before + 1) * _FACTOR + after)


def _parts(source: TokenRows) -> Iterator[TokenRows]:
    """Yield rows of some tokens at a time, so that their hashes take little memory."""
    first = 0
    while first < len(source):
        last = max(first + 1, int(np.searchsorted(source.starts, source.starts[first] + _TOKENS_AT_ONCE)))
        last = min(last, len(source))
        starts = source.starts[first : last + 1]
        yield TokenRows(source.tokens[starts[0] : starts[-1]], starts - starts[0])
        first = last


def _most_frequent(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Return the most frequent hashes, in order."""
    hashes, counts = np.zeros(0, np.uint32), np.zeros(0, np.int64)
    for part in parts:
        new, more = np.unique(part, return_counts=True)
        both, places = np.unique(np.concatenate([hashes, new]), return_inverse=True)
        hashes, counts = both, np.bincount(places, np.concatenate([counts, more])).astype(np.int64)
        if len(hashes) > 2 * _MOST_HASHES:
            kept = np.sort(np.argsort(-counts, kind="stable")[: 2 * _MOST_HASHES])
            hashes, counts = hashes[kept], counts[kept]
    return hashes[np.sort(np.argsort(-counts, kind="stable")[:_MOST_HASHES])]


def _are_in(hashes: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return which hashes are among those of `known`, which are in order."""
    if not len(known):
        return np.zeros(len(hashes), bool)
    places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return np.asarray(known[places] == hashes)
