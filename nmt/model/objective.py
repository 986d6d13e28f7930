"""What training adds to the likelihood of the target, or has in its place: nothing, unless the settings ask for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Alignment:
    """Which source positions the target tokens of a batch translate.

    Entry i says that the token predicted at step `step[i]` of row `row[i]` belongs to source position `position[i]`
    with `share[i]`; the shares of a token add up to 1. int64 [N] and float64 [N], of the host. A token without entries
    is free.
    """

    step: np.ndarray
    row: np.ndarray
    position: np.ndarray
    share: np.ndarray


@dataclass(frozen=True)
class Risk:
    """Candidates of sentences, one in each row of a batch.

    sentence: Number of the sentence, from 0 without gaps, int64 [B]. cost: of the candidate, 0 for a perfect one and 1
    for a useless one, float64 [B]. is_reference: whether it is the reference, which every sentence has once, bool [B].
    alpha: sharpness of the distribution over candidates. likelihood: how much of the reference's negative
    log-likelihood is added.
    """

    sentence: np.ndarray
    cost: np.ndarray
    is_reference: np.ndarray
    alpha: float
    likelihood: float

    def tokens(self, lengths: np.ndarray) -> int:
        """Real tokens of the references, of rows with lengths [B]."""
        return int(lengths[self.is_reference].sum())

    def weigh(self, log_probs: np.ndarray, lengths: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss of candidates with log-probabilities [B], and its derivative by each of them.

        A candidate y has the weight Q(y) = P(y)^alpha / sum of P(y')^alpha over the candidates of its sentence, and the
        sentence the risk R = sum of Q(y) cost(y); dR / d log P(y) = alpha Q(y) (cost(y) - R) (Shen et al. 2016, section
        3.2). The loss counts a sentence as often as its reference has tokens: like a likelihood it is then a sum over
        tokens, of which an update takes the mean.
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
    """Weights of what is added to the loss of a batch, each 0 for nothing.

    r_drop: of the divergence between neighbouring rows of the batch, which then holds every sentence twice (see
    Device.output_loss). guided_alignment: of the cross entropy between attention and `alignment`; coverage: of
    attention that comes back to the same place (see attention_loss.py). widest_source: source positions that a batch
    may have, for which attention is read out; a wider one compiles anew. risk: of the batch's rows, which then are
    candidates, in place of their likelihood (see risk.py); nothing is added to it.
    """

    r_drop: float = 0.0
    guided_alignment: float = 0.0
    coverage: float = 0.0
    alignment: Alignment | None = None
    widest_source: int = 0
    risk: Risk | None = None

    @property
    def reads_attention(self) -> bool:
        """Return whether the loss is of the attention, too."""
        return self.coverage > 0 or (self.guided_alignment > 0 and self.alignment is not None)

    def tokens(self, lengths: np.ndarray) -> int:
        """Return target tokens that the loss is a sum over, of rows with lengths [B]."""
        return int(lengths.sum()) if self.risk is None else self.risk.tokens(lengths)


LIKELIHOOD = Objective()
"""The likelihood alone."""
