"""Updates whose loss leaps: told by the losses before them, and left out, or undone with what led to them.

The rule: an update is a spike where its loss a token is more than `training.spike_deviations` standard deviations above
the mean of the updates before it, both running with a decay of 0.99, once 50 updates are known (West 1979 for the
running variance). With loss_spikes: skip it changes nothing. With loss_spikes: rollback parameters, optimizer and
averages go back to where they were at the last validation, and the run goes on with the batches behind the spike: those
from there to the spike have no effect (Chowdhery et al. 2022, section 5.1). Before the first validation a spike is
skipped.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nmt.errors import NMTError

if TYPE_CHECKING:
    from nmt.config import TrainingConfig
    from nmt.train.updates.state import TrainingState

KNOWN = 50
"""Updates before any can be a spike."""
_DECAY = 0.99
MOST_IN_A_ROW = 10
"""Spikes in a row: the loss has changed for good, and leaving out more of them would train nothing."""


class SpikeWatch:
    """Keeps the mean and the variance of the loss in the state of a run, which every checkpoint holds.

    Args:
        settings: The training section.
        state: Of the run; changed in place.
    """

    def __init__(self, settings: TrainingConfig, state: TrainingState) -> None:
        self.is_on, self.rolls_back = settings.loss_spikes != "keep", settings.loss_spikes == "rollback"
        self._most, self._state = settings.spike_deviations, state
        self._in_row = 0

    @property
    def limit(self) -> float:
        """Return the loss a token above which an update is a spike."""
        state = self._state
        if state.known_losses < KNOWN:
            return math.inf
        return state.loss_mean + self._most * math.sqrt(state.loss_variance)

    def is_spike(self, loss: float) -> bool:
        """Return whether an update with this loss a token is one. Nothing is noted yet."""
        return self.is_on and loss > self.limit

    def note(self, loss: float) -> None:
        """Take in the loss of an update that was no spike."""
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
        """Take note of a spike. Raises NMTError after too many in a row."""
        self._in_row += 1
        if self._in_row >= MOST_IN_A_ROW:
            raise NMTError(
                f"training: the loss must be below {self.limit:.4g} nats a token (training.spike_deviations: "
                f"{self._most:g}), got {loss:.4g} and {MOST_IN_A_ROW} such updates in a row; lower "
                "training.learning_rate, or set training.loss_spikes: keep"
            )
