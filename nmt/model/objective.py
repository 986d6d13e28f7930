"""Training objectives that are added to the likelihood of the target or replace it; by default there are none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Alignment:
    """The source positions that the target tokens of a batch translate.

    Entry i says that the token predicted at step `step[i]` of row `row[i]` is aligned to source position `position[i]`
    with `share[i]`; the shares of a token add up to 1. int64 [N] and float64 [N], on the host. A token without entries
    is not constrained.
    """

    step: np.ndarray
    row: np.ndarray
    position: np.ndarray
    share: np.ndarray


@dataclass(frozen=True)
class Risk:
    """Candidate translations, one in each row of a batch.

    sentence: the index of the sentence, from 0 without gaps, int64 [B]. cost: the cost of the candidate, 0 if it is
    perfect and 1 if it is useless, float64 [B]. is_reference: whether it is the reference, which every sentence has
    once, bool [B]. alpha: the sharpness of the distribution over candidates. likelihood: the weight of the reference's
    negative log-likelihood.
    """

    sentence: np.ndarray
    cost: np.ndarray
    is_reference: np.ndarray
    alpha: float
    likelihood: float

    def tokens(self, lengths: np.ndarray) -> int:
        """Return the number of real tokens of the references, given the lengths [B] of all rows."""
        return int(lengths[self.is_reference].sum())

    def weigh(self, log_probs: np.ndarray, lengths: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss of candidates with log-probabilities [B], and its derivative with respect to each of them.

        A candidate y has the weight Q(y) = P(y)^alpha / sum of P(y')^alpha over the candidates of its sentence, and the
        sentence has the risk R = sum of Q(y) cost(y); dR / d log P(y) = alpha Q(y) (cost(y) - R) (Shen et al. 2016,
        section 3.2). The loss weights a sentence by the number of tokens of its reference: like a likelihood it is then
        a sum over tokens, which an update averages.
        """
        count = int(self.sentence.max(initial=-1)) + 1
        logits = self.alpha * log_probs
        best = np.full(count, -np.inf)
        np.maximum.at(best, self.sentence, logits)
        powers = np.exp(logits - best[self.sentence])
        shares = powers / np.bincount(self.sentence, powers, count)[self.sentence]
        risks = np.bincount(self.sentence, shares * self.cost, count)
        weights = np.bincount(self.sentence[self.is_reference], lengths[self.is_reference], count)
        slopes = weights[self.sentence] * self.alpha * shares * (self.cost - risks[self.sentence])
        return float(weights @ risks), slopes


@dataclass(frozen=True)
class Objective:
    """Weights of the terms that are added to the loss of a batch; 0 disables a term.

    r_drop: of the divergence between adjacent rows of the batch, which then contains every sentence twice (see
    Device.output_loss). guided_alignment: of the cross entropy between attention and `alignment`
    (see attention_loss.py). widest_source: the number of source positions for
    which attention is recorded; a wider batch compiles again. risk: of the rows of the batch, which are then
    candidates, instead of their likelihood (see risk.py); no other term is added to it. copied: the source tokens
    [S, B] that a decoder copies, None for those of the batch.
    """

    r_drop: float = 0.0
    guided_alignment: float = 0.0
    alignment: Alignment | None = None
    widest_source: int = 0
    risk: Risk | None = None
    copied: np.ndarray | None = None

    @property
    def reads_attention(self) -> bool:
        """Return whether the loss depends on the attention weights."""
        return self.guided_alignment > 0 and self.alignment is not None

    def tokens(self, lengths: np.ndarray) -> int:
        """Return the number of target tokens that the loss is a sum over, given the lengths [B] of the rows."""
        return int(lengths.sum()) if self.risk is None else self.risk.tokens(lengths)


LIKELIHOOD = Objective()
"""The likelihood alone."""
