"""Restoring the parts of a run from a checkpoint: when it resumes, and when it rolls back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nmt.data.corpora.sources import name_of
from nmt.errors import CheckpointError
from nmt.storage.model_folder import BEST_NAME, PARAMS_PREFIX, set_params, subwords_digest
from nmt.train.checkpoints.resume import SavedRun
from nmt.train.log.progress import TrainingLog, format_seconds
from nmt.train.run.limits import stop_reason

if TYPE_CHECKING:
    from nmt.train.checkpoints.checkpoint import Checkpoint
    from nmt.train.run.parts import Parts
    from nmt.train.tasks.task import Task
    from nmt.train.updates.moving_average import MovingAverage


def check_same_text(saved: SavedRun, task: Task) -> None:
    """Raise CheckpointError if a run would go on with other subwords, or with another training text. A text that moved
    is the same one, and settings that select other pairs of it may change."""
    state, changes, folder = saved.state, saved.changes, saved.path.parent
    if saved.content.metadata["subwords"] != subwords_digest(*task.subwords):
        raise CheckpointError(
            f"{saved.path}: must have been trained with the subwords next to it, got others; "
            "restore the .spm files that belong to it"
        )
    if _are_same(state.corpus, task.fingerprint):
        return
    data = task.config.data
    selects = changes.selection or (data.filter.overlap != "none" and not _are_same(state.dev, task.dev_fingerprint))
    if changes.texts is None and selects:
        return
    before, now = changes.texts or (name_of(data.train), "another text there")
    raise CheckpointError(
        f"{folder}: must go on with the text that it was trained on, {before}, got {now}; choose another model_dir "
        f"(-o), with training.load_model={folder} to fine-tune this model"
    )


def _are_same(before: list[int], now: list[int]) -> bool:
    """Return whether two fingerprints agree in the numbers that both have; former versions kept fewer."""
    return all(one == other for one, other in zip(before, now, strict=False))


def restore(parts: Parts, saved: SavedRun, log: TrainingLog) -> None:
    """Restore the parts of this run from a saved run that `check_same_text` accepts, and log what has changed."""
    _restore_arrays(parts, saved)
    parts.model.carry(saved.content.carried)
    if not saved.changes.schedule:
        parts.schedule.load_state_dict(saved.content.metadata["schedule"])
    state, metric = parts.state, parts.config.training.metric
    if saved.damage is not None:
        parts.checkpoints.last_is_good = False
        log.line(f"{saved.damage}; going on from the one before it")
    for note in saved.changes.notes:
        log.line(note)
    if saved.changes.batches or not _are_same(state.corpus, parts.task.fingerprint):
        state.position, state.dealt = 0, []
        log.line(f"warning: the training batches have changed: epoch {state.epoch} starts again")
    if not _are_same(state.dev, parts.task.dev_fingerprint):
        _check_new_validation(parts, saved)
        state.forget_best()
        log.line(
            "warning: the validation text has changed: the search for the best checkpoint begins again, and the "
            f"next validation replaces {BEST_NAME}"
        )
    best = f", best {metric} {state.best_scores[metric]:.2f}" if state.best_update else ""
    log.line(
        f"resuming from {saved.path}: epoch {state.epoch}, update {state.update}, "
        f"{format_seconds(state.elapsed)} so far{best}"
    )
    log.event("resume", epoch=state.epoch, update=state.update)


def _check_new_validation(parts: Parts, saved: SavedRun) -> None:
    """Raise CheckpointError if another validation text would replace the best checkpoint unasked: that of a run that
    has finished, or by a text under the same name."""
    state, folder, name = parts.state, saved.path.parent, name_of(parts.config.data.dev)
    seconds = {"elapsed": state.elapsed, "validation_seconds": state.validation_seconds}
    reason = stop_reason(state, parts.settings, parts.schedule, **seconds)
    if reason is not None:
        before, now = saved.changes.dev or (name, "another text there")
        raise CheckpointError(
            f"{folder}: is finished ({reason}), with the validation text {before}, got {now}; give the same one, or "
            f"measure its model on another text with nmt-evaluate"
        )
    if saved.changes.dev is None:
        raise CheckpointError(
            f"{folder}: must go on with the validation text that it began with, {name}, got another text there; is "
            "this another folder? Give the path of the same text, or another text another name"
        )


def _restore_arrays(parts: Parts, saved: SavedRun) -> None:
    """Restore parameters, their average and the optimizer."""
    content = saved.content
    set_params(parts.model, content.raw or content.params, saved.path)
    if parts.average is not None:
        _restore_average(parts.average, content)
    parts.optimizer.load_state_dict(content.optimizer, content.metadata["optimizer"])


def _restore_average(average: MovingAverage, content: Checkpoint) -> None:
    """Restore the average of a saved run; without one, start it from the restored parameters."""
    if not content.raw:
        average.restart()
        return
    arrays = {key.removeprefix(PARAMS_PREFIX): array for key, array in content.params.items()}
    average.load(arrays, content.metadata.get("average", {}).get("steps", 0))
