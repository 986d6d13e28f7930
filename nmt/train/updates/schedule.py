"""Learning rate schedules: a function of the update for each, and the little state of `plateau`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.config import FixedTraining


def _warmed(settings: FixedTraining, update: int) -> float:
    """Return the configured rate after a linear warm-up."""
    return settings.learning_rate * min(1.0, update / max(1, settings.learning_rate_warmup))


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
    """The schedule that `settings.scheduling` names. plateau multiplies the rate by `decrease_factor` after
    `lower_after` validations without improvement; what it counts is the state of a schedule."""

    def __init__(self, settings: FixedTraining) -> None:
        self.settings = settings
        self.decreases = self.waited = 0

    def learning_rate(self, update: int) -> float:
        """Return the rate for an update, counted from 1."""
        rate = _RATES.get(self.settings.scheduling, _warmed)(self.settings, update)
        return rate * self.settings.decrease_factor**self.decreases

    def validated(self, *, improved: bool) -> None:
        """Record the result of a validation."""
        if self.settings.scheduling == "plateau":
            self.waited = 0 if improved else self.waited + 1
            if self.waited >= max(1, self.settings.lower_after):
                self.decreases, self.waited = self.decreases + 1, 0

    @property
    def finished(self) -> bool:
        """Return whether the rate has fallen below `learning_rate_min`; a warm-up does not count."""
        rate = self.settings.learning_rate * self.settings.decrease_factor**self.decreases
        return self.decreases > 0 and rate < self.settings.learning_rate_min

    def state_dict(self) -> dict[str, Any]:
        """Return the counters, for a checkpoint."""
        return {"decreases": self.decreases, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the counters."""
        self.decreases, self.waited = int(state.get("decreases", 0)), int(state.get("waited", 0))


def cooldown_factor(settings: FixedTraining, progress: float) -> float:
    """Return the factor for the schedule's rate: 1, then a linear fall to 0 over the last `cooldown` of the run.
    Warmup-stable-decay of Hu et al. 2024 (MiniCPM), section 4.2, with the linear decay of Haegele et al. 2024, section
    3. `progress` is the fraction of the run that is done, 0 to 1 (see `loop.progress`)."""
    return min(1.0, max(0.0, (1.0 - progress) / settings.cooldown)) if settings.cooldown else 1.0


_MASK = (1 << 64) - 1


@dataclass
class TrainingState:
    """The position of a run. An epoch and an update are counted from 1, so 0 means none yet."""

    update: int = 0
    """Updates of the parameters, including skipped ones."""
    epoch: int = 1
    """Number of the current epoch."""
    position: int = 0
    """Batches of this epoch that have been used."""
    elapsed: float = 0.0
    """Wall-clock seconds until the last save, including earlier runs."""
    src_tokens: int = 0
    tgt_tokens: int = 0
    """Target tokens trained on, without padding."""
    skipped: int = 0
    """Updates skipped because a loss or gradient was not finite."""
    validated_update: int = 0
    """The update of the last validation."""
    validation_seconds: float = 0.0
    """The longer of the last two validations, by which a run with training.max_minutes ends earlier; 0 in others."""
    best_update: int = 0
    """The update of the best validation; 0 before the first."""
    best_scores: dict[str, float] = field(default_factory=dict)
    """All scores of the best validation."""
    without_improvement: int = 0
    """Validations since the best one."""
    kept: list[tuple[float, int]] = field(default_factory=list)
    """Score and update of each numbered best checkpoint (keep_best_ckpts)."""
    validation_pairs: int = 0
    """The pairs of data.dev that validations of this run read; 0 for all."""
    batches_an_update: int = 1
    """Batches whose gradients make one update: training.batch_multiplier times the number of ranks."""
    dealt: list[tuple[int, int]] = field(default_factory=list)
    """The grouping of the start of this epoch by earlier runs: pairs of (batches per update, batches used that way)."""
    corpus: list[int] = field(default_factory=list)
    """Numbers that identify the training corpus, to notice that it has changed; see `Task.fingerprint`."""
    dev: list[int] = field(default_factory=list)
    """Numbers that identify the validation text; empty in a checkpoint of a former version."""
    seen: str = ""
    """Fingerprints of the training text, by which an evaluation knows it; see `Task.seen`."""

    def forget_best(self) -> None:
        """Begin the search for the best validation again, and let the next one be due at once."""
        fresh = TrainingState()
        for name in ("validated_update", "best_update", "best_scores", "without_improvement"):
            setattr(self, name, getattr(fresh, name))
        self.kept = []

    def to_dict(self) -> dict[str, Any]:
        """Return the state as values that JSON can represent."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainingState:
        """Return the state that `to_dict` produced; keys of a later version are dropped."""
        names = {entry.name for entry in dataclasses.fields(cls)}
        state = cls(**{name: value for name, value in values.items() if name in names})
        state.kept = [(float(score), int(update)) for score, update in state.kept]
        state.dealt = [(int(size), int(count)) for size, count in state.dealt]
        return state


def update_seed(seed: int, update: int) -> int:
    """Return the seed of the dropout masks of one update's first batch, in [0, 2**62). It depends on the two numbers
    alone: a resumed run draws the same masks. The mixing is splitmix64's (Steele, Lea & Flood 2014, figure 17)."""
    return _mix(_mix(seed & _MASK) + update) >> 2


def batch_seed(seed: int, update: int, place: int) -> int:
    """Return the seed of the dropout masks of one batch of an update, counted from 0; batch 0 has the update's seed."""
    found = update_seed(seed, update)
    return update_seed(found, place) if place else found


def _mix(value: int) -> int:
    """Return a 64-bit number scattered by the finalizer of SplitMix64."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
