"""The effect of a changed setting on a resumed run: a note, or an error."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.errors import CheckpointError
from nmt.storage.model_folder import FORMER_NAME, LAST_NAME
from nmt.storage.trained_settings import differences
from nmt.system.paths import exists
from nmt.train.checkpoints.checkpoint import load_carried, load_checkpoint, load_raw
from nmt.train.updates.state import TrainingState

if TYPE_CHECKING:
    import numpy as np

    from nmt.config import Config

# The first match decides; a setting that matches nothing is harmless and is only reported.
_SILENT = (
    "name",
    "model_dir",
    "threads",
    "device",
    "data.subwords.*model_file",
    "training.load_model",
    "training.extend_vocabulary",
)
_BINDING = ("data.subwords.*", "data.*.lang", "training.optimizer", "training.freeze")
"""Settings that must not change in a resumed run, besides those that give the parameters their meaning."""
_BATCHES = (
    "seed",
    "data.train",
    "data.index",
    "data.*.max_length",
    "data.filter.*",
    "data.*.sampling_alpha",
    "training.batch_size",
    "training.batch_type",
    "training.bptt",
    "training.minimum_risk",
    "training.r_drop",
    "training.shuffle",
)
_SCHEDULE = "training.scheduling"


@dataclass
class Changes:
    """The settings that differ from those in the checkpoint, grouped by their effect."""

    notes: list[str] = field(default_factory=list)
    """`training.epochs: 10 -> 20`, one line for each."""
    batches: bool = False
    """Whether the batches differ: a position within the epoch is then meaningless."""
    schedule: bool = False
    """Whether the schedule differs: the state of the previous one is then meaningless."""


@dataclass(frozen=True)
class SavedRun:
    """The content of `last.safetensors`, and how the settings differ from those it was written with."""

    path: Path
    params: dict[str, np.ndarray]
    """Parameters by name, as in the file."""
    optimizer: dict[str, np.ndarray]
    carried: dict[str, np.ndarray]
    """States that carry over to the next batch."""
    raw: dict[str, np.ndarray]
    """The parameters that updates change, if `params` are their average; names as in the file."""
    average_steps: int
    optimizer_numbers: dict[str, Any]
    schedule: dict[str, Any]
    state: TrainingState
    subwords: str
    """Digest of the subwords that the run was trained with."""
    changes: Changes
    damage: str | None = None
    """The error of the last checkpoint, if this is the one before it."""


def load_saved_run(folder: Path, config: Config) -> SavedRun | None:
    """Read the run to resume; None if the folder has none. If its last checkpoint is damaged, read the one before it.

    Raises:
        CheckpointError: There is no undamaged checkpoint, or a setting that must not change has changed.
    """
    path, former = folder / LAST_NAME, folder / FORMER_NAME
    if not exists(path):
        if not exists(former):
            return None
        lost = f"{path}: must be the last checkpoint, got nothing there"
        return dataclasses.replace(read_saved_run(former, config), damage=lost)
    try:
        load_checkpoint(path)
    except CheckpointError as error:
        if not exists(former):
            raise
        return dataclasses.replace(read_saved_run(former, config), damage=str(error))
    return read_saved_run(path, config)


def read_saved_run(path: Path, config: Config) -> SavedRun:
    """Read a checkpoint that contains an optimizer.

    Raises:
        CheckpointError: It is damaged, or a setting that must not change has changed.
    """
    params, optimizer, metadata = load_checkpoint(path)
    return SavedRun(
        path=path,
        params=params,
        optimizer=optimizer,
        carried=load_carried(path),
        raw=load_raw(path),
        average_steps=metadata.get("average", {}).get("steps", 0),
        optimizer_numbers=metadata["optimizer"],
        schedule=metadata["schedule"],
        state=TrainingState.from_dict(metadata["state"]),
        subwords=metadata["subwords"],
        changes=compare_settings(path, metadata["config"], config.to_dict()),
    )


def compare_settings(path: Path, saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> Changes:
    """Compare the settings in a checkpoint with those of this run.

    Args:
        path: The checkpoint, for the error message.
        saved: Its settings.
        wanted: The current settings; both as returned by `Config.to_dict`.

    Raises:
        CheckpointError: A changed setting makes the checkpoint unusable.
    """
    changes = Changes()
    for one in differences(saved, wanted):
        if one.matches(*_SILENT):
            continue
        before, now = one.shown
        if one.changes_meaning or one.matches(*_BINDING):
            raise CheckpointError(
                f"{path}: {one.key} must stay {before} for this checkpoint, got {now}; "
                "set it back, or choose another model_dir to train from the start"
            )
        changes.notes.append(f"{one.key}: {before} -> {now}")
        changes.batches |= one.matches(*_BATCHES)
        changes.schedule |= one.key == _SCHEDULE
    return changes
