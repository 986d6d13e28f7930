"""The effect of a changed setting on a resumed run: a note, or an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.errors import CheckpointError
from nmt.model.parts.cells import AFTER_AN_EDIT, edited_cells
from nmt.storage.model_folder import FORMER_NAME, LAST_NAME
from nmt.storage.trained_settings import differences
from nmt.system.paths import exists
from nmt.train.checkpoints.checkpoint import Checkpoint, read_whole
from nmt.train.updates.schedule import TrainingState

if TYPE_CHECKING:
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
    "data.*.max_length",
    "data.filter.*",
    "training.batch_size",
    "training.batch_type",
    "training.r_drop",
    "training.shuffle",
)
_SELECTION = ("data.filter.*", "data.*.max_length", "data.test")
"""Settings that select other pairs of the same text; data.test does so by `data.filter.overlap`."""
_SCHEDULE = "training.scheduling"
_LOUD = ("seed", "data.*")
"""Settings whose change is a warning."""


@dataclass
class Changes:
    """The settings that differ from those in the checkpoint, grouped by their effect."""

    keys: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """`changed since the checkpoint: training.epochs: 10 -> 20`, one line for each."""
    batches: bool = False
    """Whether the batches differ: a position within the epoch is then meaningless."""
    texts: tuple[str, str] | None = None
    """The former and the present data.train, if they differ."""
    dev: tuple[str, str] | None = None
    """The former and the present data.dev, if they differ."""
    selection: bool = False
    """Whether other pairs of the same text may have been selected."""
    schedule: bool = False
    """Whether the schedule differs: the state of the previous one is then meaningless."""


@dataclass(frozen=True)
class SavedRun:
    """A checkpoint to resume from, and how the settings differ from those it was written with."""

    path: Path
    content: Checkpoint
    state: TrainingState
    changes: Changes
    damage: str | None = None
    """The error of the last checkpoint, if this is the one before it."""


def load_saved_run(folder: Path, config: Config) -> SavedRun | None:
    """Read the run to resume; None if the folder has none. If its last checkpoint is damaged, read the one before it.
    Raises CheckpointError if there is no undamaged checkpoint, or a setting that must not change has changed."""
    path, former, damage = folder / LAST_NAME, folder / FORMER_NAME, None
    if exists(path):
        try:
            content = read_whole(path)
        except CheckpointError as error:
            if not exists(former):
                raise
            damage = str(error)
    elif exists(former):
        damage = f"{path}: no such file, the last checkpoint"
    else:
        return None
    if damage is not None:
        path, content = former, read_whole(former)
    state = TrainingState.from_dict(content.metadata["state"])
    changes = compare_settings(path, content.metadata["config"], config.to_dict())
    edited = edited_cells(config, content.metadata.get("cells", {}))
    changes.notes += [f"warning: {cell} has been edited since the checkpoint; {AFTER_AN_EDIT}" for cell in edited]
    return SavedRun(path, content, state, changes, damage)


def compare_settings(path: Path, saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> Changes:
    """Compare the settings in a checkpoint with those of this run. Raises CheckpointError if a changed setting makes
    the checkpoint unusable. `saved`, `wanted`: its settings and the current ones, as `Config.to_dict` returns them."""
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
        has_no_end = one.key == "training.max_minutes" and one.now is None
        loud = "warning: " if has_no_end or one.matches(*_LOUD) else ""
        changes.keys.append(one.key)
        changes.notes.append(f"{loud}changed since the checkpoint: {one.key}: {before} -> {now}")
        moved = one.key == "data.train" and _without_paths(one.before) == _without_paths(one.now)
        if one.key == "data.train":
            changes.texts = _paths(one.before), _paths(one.now)
        if one.key == "data.dev":
            changes.dev = _paths(one.before), _paths(one.now)
        changes.batches |= one.matches(*_BATCHES) and not moved
        changes.selection |= one.matches(*_SELECTION)
        changes.schedule |= one.key == _SCHEDULE
    return changes


def _without_paths(corpora: Any) -> Any:
    """Return corpora without the names of their files; checksums find texts that differ by more than their names."""
    if not isinstance(corpora, list):
        return None
    return [{key: value for key, value in one.items() if key not in ("path", "tgt_path")} for one in corpora]


def _paths(corpora: Any) -> str:
    """Return the paths of corpora as settings name them, a prefix or a list of sections, and the columns of tables."""
    if not isinstance(corpora, list):
        return str(corpora)
    told = []
    for one in corpora:
        section = one if isinstance(one, Mapping) and "path" in one else {"path": one}
        columns = ",".join(str(section[key]) for key in ("src_column", "tgt_column") if section.get(key))
        told.append(f"{section['path']} with columns {columns}" if columns else str(section["path"]))
    return ", ".join(told)
