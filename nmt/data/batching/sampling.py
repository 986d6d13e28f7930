"""Subword segmentations sampled each time a sentence is read: BPE-dropout and unigram sampling.

With BPE, a merge is dropped with probability alpha (Provilkov et al. 2020, section 3.1); with a unigram model, one of
all segmentations is sampled with its probability to the power alpha (Kudo 2018, section 3.2). segmentations.py segments
single words.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np

from nmt.data.corpora.corpus import ParallelCorpus
from nmt.data.corpora.rows import TokenRows
from nmt.data.tokens.segmentations import segmentation_of
from nmt.data.tokens.subwords import Subwords
from nmt.errors import ConfigError
from nmt.special_tokens import SPACE

_SAMPLE = 1000
"""The number of sentences used to measure how much longer a side becomes."""


class SubwordSampler:
    """Samples segmentations of the sentences of a corpus; they depend on (seed, epoch, batch number) alone. `alphas`:
    one for each side; None turns sampling off for that side."""

    def __init__(
        self, subwords: tuple[Subwords, Subwords], alphas: tuple[float | None, float | None], seed: int
    ) -> None:
        self._seed = seed
        sides = zip(("src", "tgt"), subwords, alphas, strict=True)
        self._samplers = [None if alpha is None else _WordSampler(side, kind, alpha) for side, kind, alpha in sides]

    def growth(self, corpus: ParallelCorpus) -> tuple[float, float]:
        """Return by what factor sampling lengthens each side, measured on the first sentences."""
        rows = np.arange(min(_SAMPLE, len(corpus)))
        drawn = self.draw(corpus, rows, 0, 0)
        before = [int(side.lengths_of(rows).sum()) for side in (corpus.src, corpus.tgt)]
        after = [len(side.tokens) for side in drawn]
        found = [max(1.0, after[n] / max(1, before[n])) for n in (0, 1)]
        return found[0], found[1]

    def draw(self, corpus: ParallelCorpus, rows: np.ndarray, epoch: int, number: int) -> tuple[TokenRows, TokenRows]:
        """Return the sentences `rows` of both sides, with segmentations sampled for batch `number` of an epoch."""
        drawn = []
        for place, side in enumerate((corpus.src, corpus.tgt)):
            of_side = side.taken(rows)
            cutter = self._samplers[place]
            if cutter is not None:
                seeds = np.random.SeedSequence([self._seed, epoch, number, place]).generate_state(1)
                random = Random(int(seeds[0]))  # noqa: S311 - not a secret
                of_side = TokenRows.from_lists([cutter.draw(row.tolist(), random) for row in of_side])
            drawn.append(of_side)
        return drawn[0], drawn[1]


class _WordSampler:
    """Samples segmentations of words; symbols that are never split, bytes and unknown characters stay."""

    def __init__(self, side: str, subwords: Subwords, alpha: float) -> None:
        units = subwords.units_of_text
        segmentation = segmentation_of(units, alpha)
        if segmentation is None:
            raise ConfigError(
                f"data.{side}.sampling_alpha: must be null with subwords that have only one segmentation, got "
                f"{alpha:g}; it is for unigram and bpe of sentencepiece"
            )
        self._segmentation = segmentation
        self._ids = {unit: subwords.of_model(number) for unit, number in units.numbers.items()}
        self._units = {id: unit for unit, id in self._ids.items()}
        self._words_end_at_spaces = not any(SPACE in unit[1:] for unit in units.scores)

    def draw(self, ids: list[int], random: Random) -> list[int]:
        """Return the ids of a sampled segmentation of a sentence."""
        found: list[int] = []
        for word, before in self._words(ids):
            units = self._segmentation.draw(word, random) if word else None
            found += before if units is None else [self._ids[unit] for unit in units]
        return found

    def _words(self, ids: list[int]) -> Iterator[tuple[str, list[int]]]:
        """Yield the words of a sentence with their ids; each id that must stay comes alone, with an empty text."""
        word, of_word = "", list[int]()
        for id in ids:
            unit = self._units.get(id)
            if word and (unit is None or (unit[0] == SPACE and self._words_end_at_spaces)):
                yield word, of_word
                word, of_word = "", []
            if unit is None:
                yield "", [id]
            else:
                word += unit
                of_word.append(id)
        if word:
            yield word, of_word
