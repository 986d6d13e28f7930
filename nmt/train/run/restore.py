"""Restoring the parts of a run from a checkpoint: when it resumes, and when it rolls back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nmt.errors import CheckpointError
from nmt.storage.model_folder import PARAMS_PREFIX, set_params
from nmt.train.checkpoints.resume import SavedRun, read_saved_run
from nmt.train.log.progress import TrainingLog, format_seconds

if TYPE_CHECKING:
    from nmt.train.run.parts import Parts
    from nmt.train.updates.moving_average import MovingAverage


def check_subwords(saved: SavedRun, digest: str) -> None:
    """Raise CheckpointError if the run was trained with other subwords than those in its folder."""
    if saved.subwords != digest:
        raise CheckpointError(
            f"{saved.path}: must have been trained with the subwords next to it, got others; "
            "restore the .spm files that belong to it"
        )


def restore(parts: Parts, saved: SavedRun, corpus: list[int], log: TrainingLog) -> None:
    """Restore the parts of this run from a saved run, and log what has changed."""
    set_params(parts.model, saved.raw or saved.params, saved.path)
    _restore_average(parts.average, saved)
    parts.model.carry(saved.carried)
    parts.optimizer.load_state_dict(saved.optimizer, saved.optimizer_numbers)
    if not saved.changes.schedule:
        parts.schedule.load_state_dict(saved.schedule)
    state, metric = parts.state, parts.config.training.early_stopping_metric
    if saved.damage is not None:
        parts.checkpoints.last_is_good = False
        log.line(f"{saved.damage}; going on from the one before it")
    for note in saved.changes.notes:
        log.line(f"changed since the checkpoint: {note}")
    if saved.changes.batches or state.corpus != corpus:
        state.position, state.dealt = 0, []
        log.line(f"the training batches are others now: epoch {state.epoch} starts again")
    best = f", best {metric} {state.best_scores[metric]:.2f}" if state.best_update else ""
    log.line(
        f"resuming from {saved.path}: epoch {state.epoch}, update {state.update}, "
        f"{format_seconds(state.elapsed)} so far{best}"
    )
    log.event("resume", epoch=state.epoch, update=state.update)


def _restore_average(average: MovingAverage | None, saved: SavedRun) -> None:
    """Restore the average of a saved run; if it had none, start one from the restored parameters."""
    if average is None:
        return
    if saved.raw:
        average.load(
            {key.removeprefix(PARAMS_PREFIX): array for key, array in saved.params.items()}, saved.average_steps
        )
    else:
        average.restart()


def roll_back(path: Path, parts: Parts) -> int:
    """Restore parameters, optimizer, averages and loss statistics from a checkpoint; the position in the texts is kept.
    Returns the checkpoint's update number. Raises CheckpointError if the file is damaged."""
    saved = read_saved_run(path, parts.config)
    set_params(parts.model, saved.raw or saved.params, path)
    _restore_average(parts.average, saved)
    parts.optimizer.load_state_dict(saved.optimizer, saved.optimizer_numbers)
    for name in ("known_losses", "loss_mean", "loss_variance"):
        setattr(parts.state, name, getattr(saved.state, name))
    return saved.state.update
