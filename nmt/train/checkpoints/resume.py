"""What a changed setting means for a run that goes on: a note, or a refusal."""

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

# First match decides; what matches nothing is harmless and noted.
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
"""Beside what gives parameters their meaning: what a run that goes on cannot change under way."""
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
    """The settings that differ from those of the checkpoint, sorted by what they touch."""

    notes: list[str] = field(default_factory=list)
    """`training.epochs: 10 -> 20`, one for each."""
    batches: bool = False
    """The batches are others now: a position within the epoch means nothing."""
    schedule: bool = False
    """Another schedule: the state of the former one means nothing."""


@dataclass(frozen=True)
class SavedRun:
    """What `last.safetensors` holds, and how the settings differ from those it was written with."""

    path: Path
    params: dict[str, np.ndarray]
    """Names as in the file."""
    optimizer: dict[str, np.ndarray]
    carried: dict[str, np.ndarray]
    """What the next batch goes on from."""
    raw: dict[str, np.ndarray]
    """The parameters that updates change, where `params` are their average; names as in the file."""
    average_steps: int
    optimizer_numbers: dict[str, Any]
    schedule: dict[str, Any]
    state: TrainingState
    subwords: str
    """Digest of the subwords it was trained with."""
    changes: Changes
    damage: str | None = None
    """What is wrong with the last checkpoint, where this is the one before it."""


def load_saved_run(folder: Path, config: Config) -> SavedRun | None:
    """Read the run to go on with; None if the folder has none. Where its last checkpoint is damaged it is the one
    before.

    Raises:
        CheckpointError: There is no undamaged checkpoint, or a setting that cannot change has changed.
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
    """Read one checkpoint that holds an optimizer.

    Raises:
        CheckpointError: It is damaged, or a setting that cannot change has changed.
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
        path: The checkpoint, for the error.
        saved: Its settings.
        wanted: The settings now; both as `Config.to_dict` gives them.

    Raises:
        CheckpointError: One of them makes the checkpoint unusable.
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
