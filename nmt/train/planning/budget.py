"""A run of a given duration: `nmt-train --budget`.

Some updates are timed first; from then on the schedule follows the clock (`cooldown` with `max_minutes`), so that a
machine that becomes slower or faster changes the number of updates and not the duration.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.config import Config, config_from_dict
from nmt.errors import ConfigError
from nmt.storage.model_folder import LAST_NAME, load_folder_config
from nmt.train.log.progress import format_seconds
from nmt.train.planning.lengths import LEAST_BETWEEN, VALIDATIONS, WARMUP_SHARE, usual_updates

if TYPE_CHECKING:
    from nmt.train.tasks.task import Task

_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_LEAST_SECONDS = 30.0
_MEASURED_SHARE = 0.05
_MOST_MEASURED = 8.0
"""The share of the budget that is spent on timing updates, and its upper limit in seconds."""
_UPDATES, _WARM_UP = 30, 3
_TRAINING_SHARE = 0.9
"""Estimated share of the time for training; reading, validating and saving take the rest. It determines only how often
the model is validated and the length of the warm-up."""
_ENOUGH = 0.5
"""The share of the usual epochs below which a warning says that the budget is short."""
COOLDOWN = 1 - 1 / WARMUP_SHARE
"""The rate rises during the first fourteenth, then falls linearly to zero, as in recipes with scheduling: linear."""
_DERIVED = ("validation_freq", "learning_rate_warmup")


@dataclass(frozen=True)
class Pace:
    """The pace of updates: `seconds` of one, `spent` on reading and timing, and the updates of a pass of the corpus."""

    seconds: float
    spent: float
    a_pass: int


def seconds_of(budget: str) -> float:
    """Return the seconds of a duration such as `2h`, `90m`, `1h30m`, `45min` or `600s`. Raises ConfigError if it is
    something else, or less than half a minute."""
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(min|[smhd])", budget)
    if not parts or "".join(f"{n}{unit}" for n, unit in parts) != re.sub(r"\s", "", budget):
        raise ConfigError(f"budget: must be a time such as 2h, 90m or 1h30m, got {budget!r}")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds < _LEAST_SECONDS:
        raise ConfigError(f"budget: must be at least {_LEAST_SECONDS:g}s, got {budget}; a shorter run learns nothing")
    return seconds


def fit_to_budget(
    config: Config, budget: str, measure: Callable[[Config, float], Pace], notify: Callable[[str], None]
) -> Config:
    """Return the settings of a run of that duration: as many updates as it allows, a learning rate of zero at its end,
    eight validations, or one if that is short (and some early ones, see `is_early_validation`), and no other limit.

    The time that timing took counts (`Measurement.spent`). A resumed run keeps the measurements from its start; the
    time of earlier runs counts. With a different budget, validation interval and warm-up change in proportion, but the
    warm-up, which may be over, never becomes longer.
    Raises ConfigError if the budget is not a duration, or is too short for the updates of this machine.

    `budget`: the duration (see `seconds_of`) of training and validation; scoring data.test is extra; `measure`: times
    updates with the settings for about the given number of seconds (see `Measurement`).
    """
    seconds = seconds_of(budget)
    timed: dict[str, Any] = {
        "scheduling": "constant",
        "cooldown": COOLDOWN,
        "updates": None,
        "epochs": 1_000_000,
        "stop_after": None,
        "max_minutes": seconds / 60,
    }
    folder = Path(config.model_dir)
    if (folder / LAST_NAME).exists():
        before = load_folder_config(folder).training.to_dict()
        if before["max_minutes"] is not None and before["cooldown"] == COOLDOWN:
            derived = _refitted(before, timed["max_minutes"] / before["max_minutes"])
            if timed["max_minutes"] != before["max_minutes"]:
                notify(
                    f"budget: {budget}, where the run had {before['max_minutes']:.3g} minutes: "
                    f"{derived['learning_rate_warmup']:,} updates to warm up, validated after each "
                    f"{derived['validation_freq']:,}; time that it took counts"
                )
            return _changed(config, {**timed, **derived})
    # Numbers, since the timing is too short for warm-up or validations, and auto would be reported as chosen.
    for_now = timed | {"learning_rate_warmup": 0, "validation_freq": 1}
    pace = measure(_changed(config, for_now), min(_MOST_MEASURED, _MEASURED_SHARE * seconds))
    left = seconds - pace.spent
    updates = int(_TRAINING_SHARE * left / pace.seconds)
    if updates < 2 * VALIDATIONS:
        needed = pace.spent + 2 * VALIDATIONS * pace.seconds / _TRAINING_SHARE
        raise ConfigError(
            f"budget: must allow at least {2 * VALIDATIONS} updates, got {budget}: here an update takes "
            f"{pace.seconds:.1f} s and the preparation {pace.spent:.0f} s; give at least {-int(-needed // 60)}m, or "
            "make model or batches smaller"
        )
    # A short run would mostly validate: its last update alone is followed by a validation.
    between = max(updates // VALIDATIONS, LEAST_BETWEEN) if updates >= 2 * LEAST_BETWEEN else updates
    derived = {"validation_freq": between, "learning_rate_warmup": updates // WARMUP_SHARE}
    derived["logging_freq"] = min(config.training.logging_freq, max(1, updates // 20))  # a curve of 20 points at least
    notify(
        f"budget: {budget}, {format_seconds(left)} of it left after reading and timing; an update takes "
        f"{pace.seconds:.3g} s here: about {updates:,} updates, "
        f"{derived['learning_rate_warmup']:,} of them to warm up, validated after each {derived['validation_freq']:,}"
    )
    if line := _doubt(config, budget, pace, updates):
        notify(line)
    return _changed(config, {**timed, **derived})


def _doubt(config: Config, budget: str, pace: Pace, updates: int) -> str | None:
    """Return a warning if the updates that a budget allows are too few; None otherwise."""
    usual = config.training.updates
    if not isinstance(usual, int):
        usual = usual_updates(config.training, pace.a_pass)
    if updates >= _ENOUGH * usual:
        return None
    needed = format_seconds(usual * pace.seconds / _TRAINING_SHARE)
    return (
        f"warning: a budget of {budget} allows about {updates / pace.a_pass:.2g} epochs of this text; "
        f"{usual / pace.a_pass:.3g} are usual, which take about {needed} here; give more time, or use a smaller model"
    )


@dataclass
class Measurement:
    """Times updates of a fresh model, which is discarded; its `task`, the text as it was read, is that of the run, and
    `spent` are the seconds that it took. A DryRun takes the other arguments."""

    threads: int | None
    device: str | None
    notify: Callable[[str], None]
    task: Task | None = None
    spent: float = 0.0

    def __call__(self, config: Config, seconds: float) -> Pace:
        """Return the pace of updates that are timed for about so many seconds."""
        from nmt.train.planning.dry_run import DryRun

        began = time.monotonic()
        run = DryRun(config, self.threads, self.notify, self.device, keep=True)
        self.task = run.task
        timing = run.measure(_UPDATES, warm_up=_WARM_UP, seconds=seconds)
        self.spent = time.monotonic() - began
        return Pace(timing.median, self.spent, run.dealing.num_updates(1))


def _refitted(before: dict[str, Any], times: float) -> dict[str, Any]:
    """Return validation interval and warm-up, in updates, of a run whose budget has changed by the factor `times`."""
    freq, warmup = (before[name] for name in _DERIVED)
    return {
        "validation_freq": max(1, round(freq * times)),
        "learning_rate_warmup": round(warmup * min(1.0, times)),
        "logging_freq": before["logging_freq"],
    }


def _changed(config: Config, training: dict[str, Any]) -> Config:
    values = config.to_dict()
    values["training"] |= training
    return config_from_dict(values, "--budget")
