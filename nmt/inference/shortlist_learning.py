"""Learn a lexical shortlist from the model's attention and output on its training text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nmt.errors import ConfigError
from nmt.inference.pipeline import TranslationPipeline, attends

if TYPE_CHECKING:
    from nmt.decode import Shortlist

_LEAST_WEIGHT = 0.05
"""The least attention that is counted: the many smaller weights are noise."""


class ShortlistLearner:
    """A collector of the total attention of each pair of subwords; sizes are those of the vocabularies. Memory grows
    with the number of distinct pairs of subwords, not with the text."""

    def __init__(self, src_vocab_size: int, tgt_vocab_size: int) -> None:
        self._sizes = src_vocab_size, tgt_vocab_size
        self._pairs: np.ndarray = np.zeros(0, np.int64)  # source * target size + target, sorted
        self._mass: np.ndarray = np.zeros(0)
        self._counts = np.zeros(tgt_vocab_size, np.int64)

    def add(
        self, src_ids: Sequence[Sequence[int]], tgt_ids: Sequence[Sequence[int]], attentions: Iterable[np.ndarray]
    ) -> None:
        """Add sentences with their translations and the attention [T, S + 1] of each, whose last column is EOS."""
        pairs, mass = [self._pairs], [self._mass]
        for src, tgt, weights in zip(src_ids, tgt_ids, attentions, strict=True):
            t, s = np.nonzero(weights[: len(tgt), : len(src)] >= _LEAST_WEIGHT)
            pairs.append(np.array(src, np.int64)[s] * self._sizes[1] + np.array(tgt, np.int64)[t])
            mass.append(weights[t, s].astype(np.float64))
            self._counts += np.bincount(tgt, minlength=self._sizes[1])
        self._pairs, place = np.unique(np.concatenate(pairs), return_inverse=True)
        self._mass = np.bincount(place, np.concatenate(mass), minlength=len(self._pairs))

    def shortlist(self, per_source: int, frequent: int, mass: float = 1.0) -> Shortlist:
        """Return a shortlist: for each source subword the target subwords with most of its attention, as few as have
        the share `mass` of it and at most `per_source`; for all sentences the `frequent` most frequent ones."""
        from nmt.decode import Shortlist

        src_size, tgt_size = self._sizes
        source, target = np.divmod(self._pairs, tgt_size)
        order = np.lexsort((target, -self._mass, source))
        source, target = source[order], target[order]
        first = np.searchsorted(source, source)
        rank = np.arange(len(source)) - first
        # The attention of the better subwords of the same source: a subword is kept while they have less than `mass`.
        before = np.cumsum(self._mass[order]) - self._mass[order]
        whole = np.bincount(source, self._mass[order], minlength=src_size)
        kept = (rank < per_source) & (before - before[first] < mass * whole[source])
        starts = np.searchsorted(source[kept], np.arange(src_size + 1))
        always = self._by_frequency()[:frequent]
        return Shortlist(starts, target[kept].astype(np.int32), always.astype(np.int32), tgt_size)

    def enough_frequent(
        self,
        per_source: int,
        mass: float,
        most_missed: float,
        src_ids: Sequence[Sequence[int]],
        tgt_ids: Sequence[Sequence[int]],
    ) -> int:
        """Return the smallest `frequent` with which `shortlist` misses at most `most_missed` percent of these target
        subwords (as counted by `count_misses`); if none is enough, the number of all observed target subwords."""
        bare = self.shortlist(per_source, 0, mass)
        ordered = self._by_frequency()
        rank = np.full(self._sizes[1], len(ordered))
        rank[ordered] = np.arange(len(ordered))
        missing = [_missing(bare, src, tgt) for src, tgt in zip(src_ids, tgt_ids, strict=True)]
        ranks = np.sort(rank[np.concatenate([*missing, np.zeros(0, np.int64)])])
        allowed = int(most_missed / 100 * sum(len(tgt) + 1 for tgt in tgt_ids))
        return min(int(ranks[-1 - allowed]) + 1, len(ordered)) if len(ranks) > allowed else 0

    def _by_frequency(self) -> np.ndarray:
        """Return the target subwords that have occurred, the most frequent first."""
        order = np.argsort(-self._counts, kind="stable")
        return order[self._counts[order] > 0]


@dataclass(frozen=True)
class Misses:
    """Misses among `tokens` target subwords with EOS: not candidates of their sentence; mean number of those."""

    tokens: int
    missing: int
    candidates: float

    @property
    def rate(self) -> float:
        """Return the percentage of missing subwords."""
        return 100.0 * self.missing / max(1, self.tokens)


def count_misses(shortlist: Shortlist, src_ids: Sequence[Sequence[int]], tgt_ids: Sequence[Sequence[int]]) -> Misses:
    """Count the target subwords that a shortlist lacks (given without EOS, which is always a candidate)."""
    missing = sum(len(_missing(shortlist, src, tgt)) for src, tgt in zip(src_ids, tgt_ids, strict=True))
    total = sum(len(shortlist.candidates(src)) for src in src_ids)
    return Misses(sum(len(tgt) + 1 for tgt in tgt_ids), missing, total / max(1, len(src_ids)))


def _missing(shortlist: Shortlist, src: Sequence[int], tgt: Sequence[int]) -> np.ndarray:
    """Return the target subwords that are not candidates."""
    tokens = np.array(tgt, np.int64)
    return tokens[~np.isin(tokens, shortlist.candidates(src))]


def candidates_together(shortlist: Shortlist, src_ids: Sequence[Sequence[int]], batch_size: int) -> float:
    """Return the mean number of candidates of a batch, which is the size of the output layer that is computed."""
    from nmt.decode.hypotheses import length_blocks

    blocks = [
        np.unique(np.concatenate([shortlist.candidates(src_ids[n]) for n in block]))
        for block in length_blocks(src_ids, batch_size)
    ]
    return sum(map(len, blocks)) / max(1, len(blocks))


def learn_from(
    translator: TranslationPipeline,
    learner: ShortlistLearner,
    src_ids: Sequence[list[int]],
    tgt_ids: Sequence[list[int]],
) -> None:
    """Add the attention of translations, by forced decoding. Raises ConfigError for a model without attention."""
    from nmt.decode import force
    from nmt.special_tokens import EOS_ID

    if not attends(translator):
        raise ConfigError("nmt-shortlist: must have attention to learn from, got a model without")
    size = translator.config.decoding.batch_size
    targets = [[*row, EOS_ID] for row in tgt_ids]
    options = {"batch_size": size, "threads": translator.num_threads}
    forced = force(translator.model, src_ids, targets, attention=True, **options)
    learner.add(src_ids, tgt_ids, (one.attention for one in forced if one.attention is not None))


def translated(
    translator: TranslationPipeline, src_ids: Sequence[list[int]], on_ended: Callable[[int], None] | None = None
) -> list[list[int]]:
    """Return translations by greedy search over the whole vocabulary; on_ended is as in `search`."""
    from nmt.decode import search

    decoding = translator.config.decoding
    found = search(
        translator.model,
        src_ids,
        beam_size=1,
        max_length_ratio=decoding.max_length_ratio,
        max_length_extra=decoding.max_length_extra,
        batch_size=decoding.batch_size,
        threads=translator.num_threads,
        on_ended=on_ended,
    )
    return [hypotheses[0].ids for hypotheses in found]
