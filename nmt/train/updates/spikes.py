"""Detection of loss spikes from the losses before them; an update that spikes is skipped, or the run is rolled back.

The rule: an update is a spike if its loss per token is more than `training.spike_deviations` standard deviations above
the mean of the updates before it. Mean and variance are running ones with a decay of 0.99 (West 1979 for the running
variance); no update counts as a spike before 50 losses are known. With loss_spikes: skip, the spike changes nothing.
With loss_spikes: rollback, parameters, optimizer and averages return to their values at the last validation and the run
continues with the batches after the spike, so the batches in between have no effect (Chowdhery et al. 2022, section
5.1). Before the first validation a spike is skipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nmt.errors import NMTError

if TYPE_CHECKING:
    from nmt.config import TrainingConfig
    from nmt.train.updates.state import TrainingState

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


KNOWN = 50
"""Number of losses that must be known before an update can be a spike."""
_DECAY = 0.99
MOST_IN_A_ROW = 10
"""Most spikes in a row: after them the loss has changed for good, and skipping more updates would train nothing."""


class SpikeWatch:
    """Keeps the running mean and variance of the loss in the state of the run, which every checkpoint contains.
    `state`: the state of the run; changed in place."""

    def __init__(self, settings: TrainingConfig, state: TrainingState) -> None:
        self.is_on, self.rolls_back = settings.loss_spikes != "keep", settings.loss_spikes == "rollback"
        self._most, self._state = settings.spike_deviations, state
        self._in_row = 0

    @property
    def limit(self) -> float:
        """Return the loss per token above which an update is a spike."""
        state = self._state
        if state.known_losses < KNOWN:
            return math.inf
        return state.loss_mean + self._most * math.sqrt(state.loss_variance)

    def is_spike(self, loss: float) -> bool:
        """Return whether an update with this loss per token is a spike, without recording it."""
        return self.is_on and loss > self.limit

    def note(self, loss: float) -> None:
        """Record the loss of an update that was no spike."""
        if not self.is_on:
            return
        state = self._state
        self._in_row = 0
        state.known_losses += 1
        decay = min(_DECAY, 1.0 - 1.0 / state.known_losses)
        difference = loss - state.loss_mean
        step = (1.0 - decay) * difference
        state.loss_mean += step
        state.loss_variance = decay * (state.loss_variance + difference * step)

    def count(self, loss: float) -> None:
        """Count a spike. Raises NMTError after too many in a row."""
        self._in_row += 1
        if self._in_row >= MOST_IN_A_ROW:
            raise NMTError(
                f"training: the loss must be below {self.limit:.4g} nats a token (training.spike_deviations: "
                f"{self._most:g}), got {loss:.4g} and {MOST_IN_A_ROW} such updates in a row; lower "
                "training.learning_rate, or set training.loss_spikes: keep"
            )
