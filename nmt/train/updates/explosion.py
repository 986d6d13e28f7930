"""A loss that no model has which learns: when to give a run up, and never to call it the best."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nmt.errors import NMTError

TIMES_GUESSING = 3.0
LEAST = 20.0
"""Nats a token: a loss is out of hand above TIMES_GUESSING times that of guessing, the logarithm of the vocabulary's
size, and above this, which a model of very few words may reach by being sure of the wrong one."""

MAX_IN_A_ROW = 10
"""Updates in a row with such a loss, or with a loss or gradient that is not finite, before the run gives up: one may
come from a single strange batch."""


@dataclass(frozen=True)
class LossLimit:
    """The loss above which a model of so many target subwords is lost."""

    vocab_size: int

    @property
    def nats(self) -> float:
        """Return the limit of a token's mean negative log-likelihood."""
        return max(LEAST, TIMES_GUESSING * math.log(self.vocab_size))

    def is_broken(self, nll: float) -> bool:
        """Return whether a token's mean negative log-likelihood is above it, or no number."""
        return not nll <= self.nats

    def give_up(self, where: str, fact: str) -> NMTError:
        """Return the error that ends the run."""
        return NMTError(
            f"{where}: the loss must be finite and below {self.nats:.1f} nats a token ({TIMES_GUESSING:g} times that "
            f"of guessing among {self.vocab_size:,} subwords, or {LEAST:g}), got {fact}; lower training.learning_rate "
            "or training.clip_grad_norm and run again"
        )
