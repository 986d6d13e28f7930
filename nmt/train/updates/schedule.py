"""Learning rate schedules as small state machines: their state is a few plain numbers in a checkpoint."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nmt.overriding import override

if TYPE_CHECKING:
    from nmt.config import FixedTraining


class Constant:
    """The configured rate, after a linear warm-up."""

    def __init__(self, settings: FixedTraining) -> None:
        self.settings = settings

    def learning_rate(self, update: int, epoch: int = 1) -> float:
        """Return the rate for an update in an epoch, both counted from 1."""
        return self.settings.learning_rate * self._warmup(update)

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

    def _warmup(self, update: int) -> float:
        return min(1.0, update / max(1, self.settings.learning_rate_warmup))


class InverseSquareRoot(Constant):
    """Linear warm-up to the configured rate, then decay with the inverse square root of the update number.

    This is the schedule of Vaswani et al. 2017, section 5.3, scaled so that `learning_rate` is its peak.
    """

    @override
    def learning_rate(self, update: int, epoch: int = 1) -> float:
        peak = max(1, self.settings.learning_rate_warmup)
        return super().learning_rate(update, epoch) * math.sqrt(peak / max(update, peak))


class Linear(Constant):
    """Linear warm-up to the configured rate, then linear decay to zero at the last update, `training.updates`."""

    @override
    def learning_rate(self, update: int, epoch: int = 1) -> float:
        last, warm = self.settings.updates or update, self.settings.learning_rate_warmup
        left = (last + 1 - update) / max(1, last + 1 - warm)
        return super().learning_rate(update, epoch) * min(1.0, max(0.0, left))


class Noam(Constant):
    """The schedule of Vaswani et al. 2017, equation 3: `learning_rate` times the inverse square root of the model size,
    times the smaller of update ** -0.5 and update * warm-up ** -1.5."""

    def __init__(self, settings: FixedTraining, model_size: int) -> None:
        super().__init__(settings)
        self._size = model_size

    @override
    def learning_rate(self, update: int, epoch: int = 1) -> float:
        warm = max(1, self.settings.learning_rate_warmup)
        return float(self.settings.learning_rate * self._size**-0.5 * min(update**-0.5, update * warm**-1.5))


class Cosine(Constant):
    """Linear warm-up to the configured rate, then cosine decay to zero at the last update, `training.updates`
    (Loshchilov & Hutter 2017, equation 5, without restarts)."""

    @override
    def learning_rate(self, update: int, epoch: int = 1) -> float:
        last, warm = self.settings.updates or update, self.settings.learning_rate_warmup
        done = min(1.0, max(0.0, (update - warm) / max(1, last + 1 - warm)))
        return super().learning_rate(update, epoch) * 0.5 * (1.0 + math.cos(math.pi * done))


class EpochDecay(Constant):
    """Multiplies the rate by `decrease_factor` after every `decay_length` epochs (or after every epoch): JoeyNMT's
    `decaying` and `exponential`."""

    @override
    def learning_rate(self, update: int, epoch: int = 1) -> float:
        settings = self.settings
        factor = settings.decrease_factor ** ((epoch - 1) // (settings.decay_length or 1))
        return float(max(settings.learning_rate_min, settings.learning_rate * factor) * self._warmup(update))


class UpdateDecay(Constant):
    """Linear warm-up to the configured rate, then exponential decay by `decrease_factor` every `decay_length` updates:
    JoeyNMT's `warmupexponentialdecay`."""

    @override
    def learning_rate(self, update: int, epoch: int = 1) -> float:
        settings = self.settings
        after = max(0, update - settings.learning_rate_warmup)
        factor = settings.decrease_factor ** (after / (settings.decay_length or 1))
        return float(max(settings.learning_rate_min, settings.learning_rate * factor) * self._warmup(update))


class Plateau(Constant):
    """Multiplies the rate by `decrease_factor` after `patience` validations without improvement."""

    def __init__(self, settings: FixedTraining) -> None:
        super().__init__(settings)
        self.decreases = 0
        self.waited = 0

    @override
    def learning_rate(self, update: int, epoch: int = 1) -> float:
        return super().learning_rate(update, epoch) * self.settings.decrease_factor**self.decreases

    def validated(self, *, improved: bool) -> None:
        """Record a validation: an improvement resets the counter, too many without one lower the rate."""
        self.waited = 0 if improved else self.waited + 1
        if self.waited >= max(1, self.settings.patience):
            self.decreases += 1
            self.waited = 0

    @property
    def finished(self) -> bool:
        """Return whether the rate has fallen below `learning_rate_min`; a warm-up does not count."""
        settings = self.settings
        rate = settings.learning_rate * settings.decrease_factor**self.decreases
        return self.decreases > 0 and rate < settings.learning_rate_min

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint, as plain numbers."""
        return {"decreases": self.decreases, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self.decreases = int(state.get("decreases", 0))
        self.waited = int(state.get("waited", 0))


def cooldown_factor(settings: FixedTraining, progress: float) -> float:
    """Return the factor for the schedule's rate: 1, then a linear fall to 0 over the last `cooldown` of the run.

    Warmup-stable-decay of Hu et al. 2024 (MiniCPM), section 4.2, with the linear decay of Haegele et al. 2024, section
    3.

    Args:
        settings: The training section; its `cooldown` is a fraction of the run.
        progress: The fraction of the run that is done, 0 to 1 (see `limits.progress`).
    """
    if not settings.cooldown:
        return 1.0
    return min(1.0, max(0.0, (1.0 - progress) / settings.cooldown))


SCHEDULES: dict[str, type[Constant]] = {
    "plateau": Plateau,
    "inverse_square_root": InverseSquareRoot,
    "linear": Linear,
    "cosine": Cosine,
    "exponential": EpochDecay,
    "decaying": EpochDecay,
    "warmupexponentialdecay": UpdateDecay,
    "constant": Constant,
}


def make_schedule(settings: FixedTraining, model_size: int = 512) -> Constant:
    """Return the schedule that `settings.scheduling` names; `model_size` is the size of the decoder's state."""
    if settings.scheduling == "noam":
        return Noam(settings, model_size)
    return SCHEDULES[settings.scheduling](settings)
