"""When a run ends, and the time until then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nmt.train.log.progress import format_seconds

if TYPE_CHECKING:
    from nmt.config import FixedTraining
    from nmt.train.updates.schedule import Schedule
    from nmt.train.updates.state import TrainingState


FIRST_SECONDS = 20.0
"""Seconds after which a run that follows the clock shows for the first time what it has learnt."""
OVER = " are over (training.max_minutes)"
"""End of the reason of a run whose time is over."""


def stop_reason(
    state: TrainingState, settings: FixedTraining, schedule: Schedule, *, elapsed: float, validation_seconds: float
) -> str | None:
    """Return in words why training ends here; None if it continues."""
    if settings.updates is not None and state.update >= settings.updates:
        return f"{state.update} updates (training.updates)"
    if state.epoch > settings.epochs:
        return f"{settings.epochs} epochs (training.epochs)"
    if settings.max_minutes is not None:
        # Also right after a validation: each further update needs another validation, for which there is no time.
        if elapsed >= _training_limit(settings.max_minutes, validation_seconds):
            return format_seconds(settings.max_minutes * 60) + OVER
    if schedule.finished:
        return f"learning rate below {settings.learning_rate_min:g} (training.learning_rate_min)"
    patience, count = settings.stop_after, state.without_improvement
    if patience is None or count < patience:
        return None
    return f"no better {settings.metric} in {count} validations (training.stop_after)"


def is_early_validation(state: TrainingState, settings: FixedTraining, elapsed: float, last: float) -> bool:
    """Return whether a validation is due before the first regular one: after `FIRST_SECONDS`, then each time the run
    is twice as old as at the `last`. Only in runs that follow the clock (`--budget`), where it changes nothing that is
    learnt, and not shortly before the regular one."""
    follows_clock = settings.max_minutes is not None and settings.updates is None and settings.stop_after is None
    is_soon = 3 * state.update >= 2 * settings.validation_freq
    return (
        follows_clock and settings.scheduling == "constant" and not is_soon and elapsed >= max(FIRST_SECONDS, 2 * last)
    )


def progress(
    state: TrainingState,
    settings: FixedTraining,
    *,
    num_batches: int,
    elapsed: float,
    validation_seconds: float,
    of_update: int = 1,
) -> float:
    """Return the fraction of the run that was done when update `state.update` began, from 0 to 1.

    The limit that will be reached first at the pace so far determines it. It is 1 only past that limit: before the last
    update it is less. Without `max_minutes` it depends on the state alone, so that a resumed run computes the same.

    Args:
        num_batches: Batches in the current epoch; other epochs are assumed to have the same number.
        validation_seconds: Duration of the last validation; there is one more after the last update.
        of_update: Batches of the current update.
    """
    shares = [(state.epoch - 1 + (state.position - of_update) / num_batches) / settings.epochs]
    if settings.updates is not None:
        shares.append((state.update - 1) / settings.updates)
    if settings.max_minutes is not None:
        shares.append(elapsed / _training_limit(settings.max_minutes, validation_seconds))
    return min(1.0, max(0.0, *shares))


def _training_limit(max_minutes: float, validation_seconds: float) -> float:
    """Return the seconds before the final validation, which is part of the run: at least half of the limit."""
    limit = max_minutes * 60
    return limit - min(validation_seconds, limit / 2)


def seconds_left(
    state: TrainingState, settings: FixedTraining, *, num_batches: int, seconds_per_update: float, elapsed: float
) -> float:
    """Return the estimated seconds to the nearest predictable limit: updates, epochs or minutes. `num_batches`: batches
    in the current epoch; other epochs are assumed to have the same number; `seconds_per_update`: wall-clock seconds,
    including validations and saving; infinity if not yet known."""
    batches = num_batches - state.position + (settings.epochs - state.epoch) * num_batches
    updates = -(-batches // state.batches_an_update)
    if settings.updates is not None:
        updates = min(updates, settings.updates - state.update)
    seconds = updates * seconds_per_update if updates > 0 else 0.0
    if settings.max_minutes is not None:
        seconds = min(seconds, settings.max_minutes * 60 - elapsed)
    return max(0.0, seconds)
