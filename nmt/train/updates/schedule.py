"""Learning rate schedules: a function of update and epoch for each, and the little state of `plateau`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.config import FixedTraining


def _warmed(settings: FixedTraining, update: int) -> float:
    """Return the configured rate after a linear warm-up."""
    return settings.learning_rate * _warmup(settings, update)


def _warmup(settings: FixedTraining, update: int) -> float:
    return min(1.0, update / max(1, settings.learning_rate_warmup))


def _inverse_square_root(settings: FixedTraining, update: int, epoch: int, model_size: int) -> float:
    """Vaswani et al. 2017, section 5.3, scaled so that `learning_rate` is the peak."""
    peak = max(1, settings.learning_rate_warmup)
    return _warmed(settings, update) * math.sqrt(peak / max(update, peak))


def _linear(settings: FixedTraining, update: int, epoch: int, model_size: int) -> float:
    """Linear decay to zero at the last update, `training.updates`."""
    last, warm = settings.updates or update, settings.learning_rate_warmup
    left = (last + 1 - update) / max(1, last + 1 - warm)
    return _warmed(settings, update) * min(1.0, max(0.0, left))


def _cosine(settings: FixedTraining, update: int, epoch: int, model_size: int) -> float:
    """Cosine decay to zero at the last update (Loshchilov & Hutter 2017, equation 5, without restarts)."""
    last, warm = settings.updates or update, settings.learning_rate_warmup
    done = min(1.0, max(0.0, (update - warm) / max(1, last + 1 - warm)))
    return _warmed(settings, update) * 0.5 * (1.0 + math.cos(math.pi * done))


def _noam(settings: FixedTraining, update: int, epoch: int, model_size: int) -> float:
    """Vaswani et al. 2017, equation 3, times `learning_rate`."""
    warm = max(1, settings.learning_rate_warmup)
    return float(settings.learning_rate * model_size**-0.5 * min(update**-0.5, update * warm**-1.5))


def _epoch_decay(settings: FixedTraining, update: int, epoch: int, model_size: int) -> float:
    """JoeyNMT's `decaying` and `exponential`: `decrease_factor` every `decay_length` epochs."""
    return _decayed(settings, update, (epoch - 1) // (settings.decay_length or 1))


def _update_decay(settings: FixedTraining, update: int, epoch: int, model_size: int) -> float:
    """JoeyNMT's `warmupexponentialdecay`: `decrease_factor` every `decay_length` updates after the warm-up."""
    after = max(0, update - settings.learning_rate_warmup)
    return _decayed(settings, update, after / (settings.decay_length or 1))


def _decayed(settings: FixedTraining, update: int, times: float) -> float:
    rate = max(settings.learning_rate_min, settings.learning_rate * settings.decrease_factor**times)
    return float(rate * _warmup(settings, update))


_RATES: dict[str, Callable[[FixedTraining, int, int, int], float]] = {
    "inverse_square_root": _inverse_square_root,
    "linear": _linear,
    "cosine": _cosine,
    "noam": _noam,
    "exponential": _epoch_decay,
    "decaying": _epoch_decay,
    "warmupexponentialdecay": _update_decay,
}
"""The rate at an update in an epoch, both counted from 1, for a decoder state of a given size; the others are constant
after the warm-up."""


class Schedule:
    """The schedule that `settings.scheduling` names, for a decoder state of `model_size`."""

    def __init__(self, settings: FixedTraining, model_size: int = 512) -> None:
        self.settings, self._model_size = settings, model_size

    def learning_rate(self, update: int, epoch: int = 1) -> float:
        """Return the rate for an update in an epoch, both counted from 1."""
        rate = _RATES.get(self.settings.scheduling)
        if rate is None:
            return _warmed(self.settings, update)
        return rate(self.settings, update, epoch, self._model_size)

    def validated(self, *, improved: bool) -> None:
        """Record the result of a validation."""

    @property
    def finished(self) -> bool:
        """Return whether the rate has fallen so low that training should end."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint, as plain numbers."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""


class Plateau(Schedule):
    """Multiplies the rate by `decrease_factor` after `lower_after` validations without improvement."""

    def __init__(self, settings: FixedTraining, model_size: int = 512) -> None:
        super().__init__(settings, model_size)
        self.decreases = self.waited = 0

    def learning_rate(self, update: int, epoch: int = 1) -> float:
        """Return the rate for an update."""
        return super().learning_rate(update, epoch) * self.settings.decrease_factor**self.decreases

    def validated(self, *, improved: bool) -> None:
        """Reset the counter after an improvement; lower the rate after too many validations without one."""
        self.waited = 0 if improved else self.waited + 1
        if self.waited >= max(1, self.settings.lower_after):
            self.decreases, self.waited = self.decreases + 1, 0

    @property
    def finished(self) -> bool:
        """Return whether the rate has fallen below `learning_rate_min`; a warm-up does not count."""
        rate = self.settings.learning_rate * self.settings.decrease_factor**self.decreases
        return self.decreases > 0 and rate < self.settings.learning_rate_min

    def state_dict(self) -> dict[str, Any]:
        """Return the counters."""
        return {"decreases": self.decreases, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the counters."""
        self.decreases, self.waited = int(state.get("decreases", 0)), int(state.get("waited", 0))


def cooldown_factor(settings: FixedTraining, progress: float) -> float:
    """Return the factor for the schedule's rate: 1, then a linear fall to 0 over the last `cooldown` of the run.

    Warmup-stable-decay of Hu et al. 2024 (MiniCPM), section 4.2, with the linear decay of Haegele et al. 2024, section
    3. `progress` is the fraction of the run that is done, 0 to 1 (see `limits.progress`).
    """
    if not settings.cooldown:
        return 1.0
    return min(1.0, max(0.0, (1.0 - progress) / settings.cooldown))


def make_schedule(settings: FixedTraining, model_size: int = 512) -> Schedule:
    """Return the schedule that `settings.scheduling` names; `model_size` is the size of the decoder's state."""
    return (Plateau if settings.scheduling == "plateau" else Schedule)(settings, model_size)
