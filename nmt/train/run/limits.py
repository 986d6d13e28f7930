"""When a run is over, and how long that will take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nmt.train.log.progress import format_seconds

if TYPE_CHECKING:
    from nmt.config import FixedTraining
    from nmt.train.updates.schedule import Constant
    from nmt.train.updates.state import TrainingState


def stop_reason(
    state: TrainingState,
    settings: FixedTraining,
    schedule: Constant,
    *,
    elapsed: float,
    validation_seconds: float,
) -> str | None:
    """Return in words why training ends here; None if it goes on.

    Args:
        state: Where the run stands.
        settings: Its limits.
        schedule: Its learning rate.
        elapsed: Seconds by the clock, former runs included.
        validation_seconds: What the last validation took.
    """
    if settings.updates is not None and state.update >= settings.updates:
        return f"{state.update} updates (training.updates)"
    if state.epoch > settings.epochs:
        return f"{settings.epochs} epochs (training.epochs)"
    if settings.max_minutes is not None:
        # Also right after a validation: there is no time for another one, and a last one follows every update.
        if elapsed >= _training_limit(settings.max_minutes, validation_seconds):
            return f"{format_seconds(settings.max_minutes * 60)} are over (training.max_minutes)"
    if schedule.finished:
        return f"learning rate below {settings.learning_rate_min:g} (training.learning_rate_min)"
    return _stalled(state, settings)


def _stalled(state: TrainingState, settings: FixedTraining) -> str | None:
    """In words which measures have not improved for long enough to stop; None where they go on."""
    patience = settings.early_stopping_patience
    if patience is None:
        return None
    waited = {settings.early_stopping_metric: state.without_improvement}
    if settings.early_stopping_on != "first":
        waited |= {name: state.stalled.get(name, 0) for name in settings.early_stopping_metrics}
    over = [name for name, count in waited.items() if count >= patience]
    if not over or (settings.early_stopping_on == "all" and len(over) < len(waited)):
        return None
    count = min(waited[name] for name in over)
    return f"no better {', '.join(over)} in {count} validations (training.early_stopping_patience)"


def progress(
    state: TrainingState,
    settings: FixedTraining,
    *,
    num_batches: int,
    elapsed: float,
    validation_seconds: float,
    of_update: int = 1,
) -> float:
    """Return the share of the run that was over when update `state.update` began, from 0 to 1.

    Measured by the limit that comes first at the run's pace so far. It is 1 only past that limit: the last update has
    some way to go. Without `max_minutes` it follows from the state alone, so that a resumed run repeats it.

    Args:
        state: Where the run stands; the update under way is counted in it.
        settings: Its limits.
        num_batches: Of the epoch under way; the others are taken to have as many.
        elapsed: Seconds by the clock, former runs included.
        validation_seconds: What the last validation took: there is one more after the last update.
        of_update: Batches of the update under way.
    """
    shares = [(state.epoch - 1 + (state.position - of_update) / num_batches) / settings.epochs]
    if settings.updates is not None:
        shares.append((state.update - 1) / settings.updates)
    if settings.max_minutes is not None:
        shares.append(elapsed / _training_limit(settings.max_minutes, validation_seconds))
    return min(1.0, max(0.0, *shares))


def _training_limit(max_minutes: float, validation_seconds: float) -> float:
    """Return seconds for everything before the last validation, which belongs to the run: half of them at least."""
    limit = max_minutes * 60
    return limit - min(validation_seconds, limit / 2)


def seconds_left(
    state: TrainingState,
    settings: FixedTraining,
    *,
    num_batches: int,
    seconds_per_update: float,
    elapsed: float,
) -> float:
    """Return the time to the nearest limit that can be known: updates, epochs or minutes.

    Args:
        state: Where the run stands.
        settings: Its limits.
        num_batches: Of the epoch under way; the others are taken to have as many.
        seconds_per_update: By the clock, validations and saving included; infinity if not known
            yet.
        elapsed: Seconds by the clock, former runs included.
    """
    batches = num_batches - state.position + (settings.epochs - state.epoch) * num_batches
    updates = -(-batches // state.batches_an_update)
    if settings.updates is not None:
        updates = min(updates, settings.updates - state.update)
    seconds = updates * seconds_per_update if updates > 0 else 0.0
    if settings.max_minutes is not None:
        seconds = min(seconds, settings.max_minutes * 60 - elapsed)
    return max(0.0, seconds)
