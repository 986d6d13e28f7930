"""Learning rate schedules: a function of the update for each, and the little state of `plateau`."""

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


def _inverse_square_root(settings: FixedTraining, update: int) -> float:
    """Vaswani et al. 2017, section 5.3, scaled so that `learning_rate` is the peak."""
    peak = max(1, settings.learning_rate_warmup)
    return _warmed(settings, update) * math.sqrt(peak / max(update, peak))


def _linear(settings: FixedTraining, update: int) -> float:
    """Linear decay to zero at the last update, `training.updates`."""
    last, warm = settings.updates or update, settings.learning_rate_warmup
    left = (last + 1 - update) / max(1, last + 1 - warm)
    return _warmed(settings, update) * min(1.0, max(0.0, left))


def _cosine(settings: FixedTraining, update: int) -> float:
    """Cosine decay to zero at the last update (Loshchilov & Hutter 2017, equation 5, without restarts)."""
    last, warm = settings.updates or update, settings.learning_rate_warmup
    done = min(1.0, max(0.0, (update - warm) / max(1, last + 1 - warm)))
    return _warmed(settings, update) * 0.5 * (1.0 + math.cos(math.pi * done))


_RATES: dict[str, Callable[[FixedTraining, int], float]] = {
    "inverse_square_root": _inverse_square_root,
    "linear": _linear,
    "cosine": _cosine,
}
"""The rate at an update, counted from 1; the others are constant after the warm-up."""


class Schedule:
    """The schedule that `settings.scheduling` names."""

    def __init__(self, settings: FixedTraining) -> None:
        self.settings = settings

    def learning_rate(self, update: int) -> float:
        """Return the rate for an update, counted from 1."""
        return _RATES.get(self.settings.scheduling, _warmed)(self.settings, update)

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

    def __init__(self, settings: FixedTraining) -> None:
        super().__init__(settings)
        self.decreases = self.waited = 0

    def learning_rate(self, update: int) -> float:
        """Return the rate for an update."""
        return super().learning_rate(update) * self.settings.decrease_factor**self.decreases

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


def make_schedule(settings: FixedTraining) -> Schedule:
    """Return the schedule that `settings.scheduling` names."""
    return (Plateau if settings.scheduling == "plateau" else Schedule)(settings)
