"""Subwords drawn anew each time a sentence is read: BPE-dropout and unigram sampling, by sentencepiece itself.

With BPE a merge is left out with probability alpha (Provilkov et al. 2020, section 3.1); with a unigram model one of
all segmentations is drawn, by its probability to the power alpha (Kudo 2018, section 3.2).
"""

from __future__ import annotations

import numpy as np

from nmt.data.corpus import ParallelCorpus
from nmt.data.rows import TokenRows
from nmt.data.subwords import Subwords
from nmt.errors import ConfigError
from nmt.special_tokens import UNK_ID

_SAMPLE = 1000
"""Sentences from which is learned how much longer a side becomes."""


class SubwordSampler:
    """Other cuts of the sentences of a corpus, a function of (seed, epoch, number of the batch) alone.

    The text is taken from the ids; sentences with unknown characters, which ids do not tell, keep their cut.

    Args:
        subwords: Of both sides.
        alphas: Of both sides; None leaves a side as it is.
        seed: Of the run.
    """

    def __init__(
        self, subwords: tuple[Subwords, Subwords], alphas: tuple[float | None, float | None], seed: int
    ) -> None:
        self._subwords, self._alphas, self._seed = subwords, alphas, seed
        for side, kind, alpha in zip(("src", "tgt"), subwords, alphas, strict=True):
            if alpha is not None and not kind.can_sample:
                raise ConfigError(
                    f"data.{side}.sampling_alpha: must be null with subwords that can be cut in one way alone, got "
                    f"{alpha:g}; it is for unigram and bpe of sentencepiece"
                )

    def growth(self, corpus: ParallelCorpus) -> tuple[float, float]:
        """How many times as many subwords a side has when they are drawn, by the first sentences."""
        rows = np.arange(min(_SAMPLE, len(corpus)))
        drawn = self.draw(corpus, rows, 0, 0)
        before = [int(side.lengths_of(rows).sum()) for side in (corpus.src, corpus.tgt)]
        after = [len(side.tokens) for side in drawn]
        found = [max(1.0, after[n] / max(1, before[n])) for n in (0, 1)]
        return found[0], found[1]

    def draw(self, corpus: ParallelCorpus, rows: np.ndarray, epoch: int, number: int) -> tuple[TokenRows, TokenRows]:
        """The sentences `rows` of both sides, cut anew for batch `number` of an epoch."""
        drawn = []
        for place, side in enumerate((corpus.src, corpus.tgt)):
            of_side = side.taken(rows)
            alpha = self._alphas[place]
            if alpha is not None:
                seeds = np.random.SeedSequence([self._seed, epoch, number, place]).generate_state(1)
                of_side = self._redrawn(of_side, self._subwords[place], alpha, int(seeds[0]))
            drawn.append(of_side)
        return drawn[0], drawn[1]

    def _redrawn(self, rows: TokenRows, subwords: Subwords, alpha: float, seed: int) -> TokenRows:
        """The same sentences cut anew."""
        ids = [row.tolist() for row in rows]
        known = [n for n, row in enumerate(ids) if UNK_ID not in row]
        cut = subwords.sample(subwords.decode([ids[n] for n in known]), alpha, seed)
        for n, row in zip(known, cut, strict=True):
            ids[n] = row
        return TokenRows.from_lists(ids)
