"""A run that fits a time: `nmt-train --budget`.

Some updates are measured first; from then on the clock itself is the schedule's measure (`cooldown` with
`max_minutes`), so that a machine that gets slower or faster on the way changes the number of updates and not the end.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.config import config_from_dict
from nmt.errors import ConfigError
from nmt.storage.model_folder import LAST_NAME, load_folder_config
from nmt.train.planning.lengths import VALIDATIONS, WARMUP_SHARE

if TYPE_CHECKING:
    from nmt.config import Config

_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_LEAST_SECONDS = 30.0
_MEASURED_SHARE = 0.05
_MOST_MEASURED = 20.0
"""Seconds that are measured at most, and share of the budget."""
_UPDATES, _WARM_UP = 30, 3
_TRAINING_SHARE = 0.9
"""Of the time; the rest is reading, validating and saving. What it says decides nothing but how often is validated."""
COOLDOWN = 1 - 1 / WARMUP_SHARE
"""The learning rate rises over a fourteenth and falls to zero over the rest, as in recipes with scheduling: linear."""
_DERIVED = ("validation_freq", "learning_rate_warmup")


@dataclass(frozen=True)
class Pace:
    """What some updates of a run took: seconds each. `spent`: seconds of reading and measuring."""

    seconds: float
    spent: float


def seconds_of(budget: str) -> float:
    """Return the seconds of `2h`, `90m`, `1h30m`, `45min`, `600s`.

    Raises ConfigError: It is something else, or less than half a minute.
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(min|[smhd])", budget)
    if not parts or "".join(f"{n}{unit}" for n, unit in parts) != re.sub(r"\s", "", budget):
        raise ConfigError(f"--budget: must be a time such as 2h, 90m or 1h30m, got {budget!r}")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds < _LEAST_SECONDS:
        raise ConfigError(f"--budget: must be at least {_LEAST_SECONDS:g}s, got {budget}; nothing is learned in less")
    return seconds


def fit_to_budget(
    config: Config, budget: str, measure: Callable[[Config, float], Pace], say: Callable[[str], None]
) -> Config:
    """Return the settings of a run of that time: as many updates as it allows, the learning rate at zero at its end,
    eight validations on the way, and no other limit.

    A run that goes on keeps what was measured at its start; time that former runs took counts. With another budget than
    it had, validations and warm-up change in proportion, but the warm-up, which may be over, gets no longer.

    Args:
        config: The settings.
        budget: See `seconds_of`. Training and validation; scoring data.test comes after it.
        measure: Times updates of the settings for about so many seconds (see `measured_pace`).
        say: Told what came of it.

    Raises:
        ConfigError: The budget is no time, or too short for the updates of this machine.
    """
    seconds = seconds_of(budget)
    timed: dict[str, Any] = {
        "scheduling": "constant",
        "cooldown": COOLDOWN,
        "updates": None,
        "epochs": 1_000_000,
        "early_stopping_patience": None,
        "max_minutes": seconds / 60,
    }
    folder = Path(config.model_dir)
    if (folder / LAST_NAME).exists():
        before = load_folder_config(folder).training.to_dict()
        if before["max_minutes"] is not None and before["cooldown"] == COOLDOWN:
            minutes = _kept(seconds, before["max_minutes"])
            derived = _refitted(before, minutes / before["max_minutes"])
            if minutes != before["max_minutes"]:
                say(
                    f"budget: {budget}, where the run had {before['max_minutes']:.3g} minutes: "
                    f"{derived['learning_rate_warmup']:,} updates to warm up, validated after each "
                    f"{derived['validation_freq']:,}; time that it took counts"
                )
            return _changed(config, {**timed, **derived, "max_minutes": minutes})
    # Warm-up and validations, which nothing of this is long enough for, are numbers: auto would be told as such.
    for_now = timed | {"learning_rate_warmup": 0, "validation_freq": 1}
    pace = measure(_changed(config, for_now), min(_MOST_MEASURED, _MEASURED_SHARE * seconds))
    left = seconds - pace.spent
    updates = int(_TRAINING_SHARE * left / pace.seconds)
    if updates < 2 * VALIDATIONS:
        raise ConfigError(
            f"--budget: must allow at least {2 * VALIDATIONS} updates, got {budget}, in which this machine does "
            f"{max(0, updates)} of {pace.seconds:.1f} s; give more time, or make model or batches smaller"
        )
    derived = {"validation_freq": max(1, updates // VALIDATIONS), "learning_rate_warmup": updates // WARMUP_SHARE}
    say(
        f"budget: {budget}; an update takes {pace.seconds:.3g} s here: about {updates:,} updates, "
        f"{derived['learning_rate_warmup']:,} of them to warm up, validated after each {derived['validation_freq']:,}"
    )
    return _changed(config, {**timed, **derived, "max_minutes": left / 60})


def measured_pace(
    threads: int | None, device: str | None, say: Callable[[str], None]
) -> Callable[[Config, float], Pace]:
    """Return what times updates on this machine, in a fresh model that is thrown away; its subwords are those of the
    run.

    Args:
        threads, device: As `Trainer` takes them.
        say: Told what takes long.
    """

    def measure(config: Config, seconds: float) -> Pace:
        from nmt.train.planning.dry_run import DryRun

        began = time.monotonic()
        timing = DryRun(config, threads, say, device, keep=True).measure(_UPDATES, warm_up=_WARM_UP, seconds=seconds)
        return Pace(timing.median, time.monotonic() - began)

    return measure


def _kept(wanted: float, before: float) -> float:
    """Minutes of a run that goes on: those it had, which were the budget's less what measuring took, or those of
    another budget."""
    minutes = wanted / 60
    is_same = before <= minutes and minutes - before <= max(_MEASURED_SHARE * minutes, 10.0) / 2
    return before if is_same else minutes


def _refitted(before: dict[str, Any], times: float) -> dict[str, Any]:
    """Updates between validations and to warm up, of a run whose budget is so many times what it was."""
    freq, warmup = (before[name] for name in _DERIVED)
    return {
        "validation_freq": max(1, round(freq * times)),
        "learning_rate_warmup": round(warmup * min(1.0, times)),
    }


def _changed(config: Config, training: dict[str, Any]) -> Config:
    values = config.to_dict()
    values["training"] |= training
    return config_from_dict(values, "--budget")
