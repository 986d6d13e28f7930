"""The loss above which a training has diverged."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nmt.errors import NMTError

TIMES_GUESSING = 3.0
LEAST = 20.0
"""Nats per token: a loss has exploded if it exceeds both this and TIMES_GUESSING times the loss of guessing uniformly,
the logarithm of the vocabulary size. A model with very few words may exceed the latter alone by being sure of the wrong
word."""

MAX_IN_A_ROW = 10
"""Most updates in a row whose loss has exploded, or whose loss or gradient is not finite, before the run ends: a single
one may be due to one unusual batch."""


@dataclass(frozen=True)
class LossLimit:
    """The loss above which a model with this many target subwords has diverged."""

    vocab_size: int

    @property
    def nats(self) -> float:
        """Return the limit of the mean negative log-likelihood per token, in nats."""
        return max(LEAST, TIMES_GUESSING * math.log(self.vocab_size))

    def is_broken(self, nll: float) -> bool:
        """Return whether the mean negative log-likelihood per token is above the limit, or NaN."""
        return not nll <= self.nats

    def give_up(self, where: str, fact: str) -> NMTError:
        """Return the error that ends the run."""
        return NMTError(
            f"{where}: the loss must be finite and below {self.nats:.1f} nats a token ({TIMES_GUESSING:g} times that "
            f"of guessing among {self.vocab_size:,} subwords, or {LEAST:g}), got {fact}; lower training.learning_rate "
            "or training.clip_grad_norm and run again"
        )
