"""Checkpoints: one safetensors file each, and which of them a model folder keeps."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nmt.errors import CheckpointError
from nmt.model.parts.cells import equations_of
from nmt.storage import model_folder
from nmt.storage.model_folder import BEGUN_NAME, BEST_NAME, CONFIG_NAME, LAST_NAME, PARAMS_PREFIX, numbered_checkpoint
from nmt.storage.tensor_file import map_tensors, write_tensors
from nmt.storage.trained_settings import check_settings
from nmt.system.files import explain, link_onto, new_folder, remedy, writing
from nmt.system.paths import check_new_folder, is_file
from nmt.train.distributed.ranks import Ranks
from nmt.train.updates.schedule import Schedule, TrainingState

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.calibration import Calibration
    from nmt.model.translation import TranslationModel
    from nmt.train.updates.optimizer import MovingAverage, Optimizer


def save_checkpoint(
    path: Path,
    *,
    params: Mapping[str, np.ndarray],
    optimizer: Mapping[str, np.ndarray],
    metadata: Mapping[str, Any],
    raw: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Write a checkpoint to a temporary file, flush it to disk, then rename it to `path`. Raises CheckpointError if
    that fails: the previous file is unchanged and no temporary file remains. `optimizer`: its arrays by name, none for
    a checkpoint that only translates; `metadata`: values that JSON can represent; `raw`: the parameters that were
    averaged, if `params` are an average."""
    groups = {PARAMS_PREFIX: params, model_folder.OPTIMIZER_PREFIX: optimizer, model_folder.RAW_PREFIX: raw or {}}
    tensors = {prefix + name: array for prefix, arrays in groups.items() for name, array in arrays.items()}
    try:
        write_tensors(path, tensors, metadata)
    except OSError as error:
        there = [name + model_folder.CHECKPOINT_SUFFIX for name in model_folder.checkpoint_names(path.parent)]
        kept = f"it was not saved, {', '.join(there[:3])} was" if there else "nothing was saved"
        kept = "the previous checkpoint is intact" if path.exists() else kept
        raise CheckpointError(f"{path}: must be written, got {explain(error)}; {kept}: {remedy(error)}") from error


class Checkpoint(NamedTuple):
    """The arrays of a checkpoint by kind, and its metadata. `params` and `raw` are named as `set_params` takes them;
    `raw` is empty unless `params` are an average."""

    params: dict[str, np.ndarray]
    optimizer: dict[str, np.ndarray]
    raw: dict[str, np.ndarray]
    metadata: dict[str, Any]


def read_whole(path: Path) -> Checkpoint:
    """Return everything in a checkpoint. Raises CheckpointError if the file is missing, damaged, or not of nmt."""
    tensors, metadata = model_folder.read_checkpoint(path)

    def of(prefix: str, new: str = "") -> dict[str, np.ndarray]:
        return {new + key.removeprefix(prefix): array for key, array in tensors.items() if key.startswith(prefix)}

    params, raw = of(PARAMS_PREFIX, PARAMS_PREFIX), of(model_folder.RAW_PREFIX, PARAMS_PREFIX)
    return Checkpoint(params, of(model_folder.OPTIMIZER_PREFIX), raw, metadata)


HIGHER_IS_BETTER = {"bleu": True, "chrf": True, "loss": False, "ppl": False}


@dataclass
class Trained:
    """The parts of a run that a checkpoint contains."""

    config: Config
    """The settings, which a resumed run compares with its own."""
    model: TranslationModel
    optimizer: Optimizer
    schedule: Schedule
    state: TrainingState
    average: MovingAverage | None
    """The average of the parameters, which is validated and saved as the model; None to use the parameters."""


class CheckpointManager:
    """Saves all parts of a run together. `ranks`: rank 0 writes."""

    def __init__(self, folder: Path, subwords_digest: str, trained: Trained, ranks: Ranks) -> None:
        self._trained, self._ranks, self._digest = trained, ranks, subwords_digest
        self.last_path = folder / LAST_NAME
        self.best_path = folder / BEST_NAME
        self._begun_path = folder / BEGUN_NAME
        self.last_is_good = True
        """Whether the last checkpoint, if there is one, may be kept as the previous one when it is replaced."""
        self._saved_at = time.monotonic()

    @property
    def age(self) -> float:
        """Return the seconds since the last checkpoint was written, or since the start."""
        return time.monotonic() - self._saved_at

    def begin(self) -> None:
        """Record that a new run begins: checkpoints of an earlier run in the folder do not belong to it."""
        if self._ranks.rank == 0:
            for name in (model_folder.FORMER_NAME, model_folder.CONFIDENCE_NAME):
                self.last_path.with_name(name).unlink(missing_ok=True)
            self._begun_path.touch()

    def save_last(self) -> None:
        """Write the checkpoint from which a run can resume. Raises CheckpointError if the disk is full."""
        if self._ranks.rank == 0 and self.last_is_good and self.last_path.exists():
            former = self.last_path.with_name(model_folder.FORMER_NAME)
            try:
                link_onto(self.last_path, former)
            except OSError as error:
                raise CheckpointError(
                    f"{former}: must be written, got {explain(error)}; the last checkpoint is intact: {remedy(error)}"
                ) from error
        self._save(self.last_path, with_optimizer=True)
        if self._ranks.rank == 0:
            self._begun_path.unlink(missing_ok=True)
        self.last_is_good = True
        self._saved_at = time.monotonic()

    def save_validated(self, score: float, calibration: Calibration | None, *, is_best: bool) -> None:
        """Write the checkpoints that are due after a validation. Raises CheckpointError if the disk is full. The best
        is written first: if the run is killed in between, it resumes before this validation and writes the same best
        again. In the other order, the last would refer to a best that was never written."""
        if is_best:
            self._save(self.best_path, with_optimizer=False)
            if calibration is not None and not self._ranks.rank:
                path = self.best_path.with_name(model_folder.CONFIDENCE_NAME)
                tensors = model_folder.confidence_tensors(calibration)
                model_folder.save_tensors(path, tensors, {"subwords": self._digest})
        dropped = self._keep_best(score) + self._keep_newest()
        self.save_last()
        for path in dropped if self._ranks.rank == 0 else ():
            path.unlink(missing_ok=True)

    def _keep_best(self, score: float) -> list[Path]:
        """Write a numbered checkpoint if it is among the best; return those that are no longer among them."""
        state, settings = self._trained.state, self._trained.config.training
        keep = settings.keep_best_ckpts
        if keep == 1 or math.isnan(score):
            return []
        former = [entry for entry in state.kept if entry[1] != state.update]
        ranked = sorted(
            [*former, (score, state.update)], key=lambda entry: entry[0], reverse=HIGHER_IS_BETTER[settings.metric]
        )
        state.kept, dropped = ranked[:keep], ranked[keep:]
        if (score, state.update) in state.kept:
            self._save(self._numbered(state.update), with_optimizer=False)
        return [self._numbered(update) for _, update in dropped]

    def _keep_newest(self) -> list[Path]:
        """Write a numbered checkpoint if more than the last is to be kept; return those to delete: older ones beyond
        the number to keep, and ones with later numbers, which are left from a run that was killed."""
        folder, trained = self.last_path.parent, self._trained
        update, keep = trained.state.update, trained.config.training.keep_last_ckpts
        if keep == 1:
            return []
        newest = numbered_checkpoint(folder, "last", update)
        self._save(newest, with_optimizer=False)
        if self._ranks.rank:
            return []
        found = model_folder.numbered_checkpoints(folder, "last")
        return [*found[: found.index(newest)], *found[found.index(newest) + keep :]]

    def _numbered(self, update: int) -> Path:
        return numbered_checkpoint(self.best_path.parent, "best", update)

    def _save(self, path: Path, *, with_optimizer: bool) -> None:
        """Write one checkpoint; a run can resume only from one with the optimizer."""
        trained, average = self._trained, self._trained.average
        if self._ranks.rank:
            return
        arrays, numbers = trained.optimizer.state_dict()
        download = trained.model.device.download
        params = {name: download(array) for name, array in trained.model.params.items()}
        of_model = params if average is None else {name: download(array) for name, array in average.arrays.items()}
        save_checkpoint(
            path,
            params=of_model,
            optimizer=arrays if with_optimizer else {},
            raw=params if with_optimizer and average is not None else {},
            metadata={
                "state": trained.state.to_dict(),
                "schedule": trained.schedule.state_dict(),
                "optimizer": numbers,
                "average": {"steps": 0 if average is None else average.steps},
                "subwords": self._digest,
                "config": trained.config.to_dict(),
                "cells": equations_of(trained.config),
            },
        )


_BESIDE = (CONFIG_NAME, *model_folder.SUBWORD_NAMES.values(), model_folder.SHORTLIST_NAME, model_folder.CONFIDENCE_NAME)


def newest_checkpoints(folder: Path, count: int) -> list[Path]:
    """Return the `count` newest numbered checkpoints. Raises CheckpointError if there are fewer."""
    return _enough(folder, model_folder.numbered_checkpoints(folder, "last"), count, "last")


def best_checkpoints(folder: Path, count: int) -> list[Path]:
    """Return the `count` best checkpoints, as the last one ranks them. Raises CheckpointError if there are fewer."""
    _, content = map_tensors(folder / LAST_NAME, "none")
    ranked = TrainingState.from_dict(content.get("state", {})).kept
    found = [path for _, update in ranked if (path := numbered_checkpoint(folder, "best", update)).is_file()]
    return _enough(folder, found, count, "best")


def _enough(folder: Path, found: list[Path], count: int, kind: str) -> list[Path]:
    """Return the newest `count` checkpoints of a kind. Raises CheckpointError if there are fewer."""
    if len(found) < count:
        advice = "ask for fewer" if len(found) > 1 else "name those that are there, --checkpoint best --checkpoint last"
        raise CheckpointError(
            f"{folder}: must contain {count} checkpoints {kind}-UPDATE.safetensors, got {len(found)}; {advice}, or "
            f"train with training.keep_{kind}_ckpts: {count}"
        )
    return found[:count]


def average_checkpoints(paths: Sequence[Path]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the mean of the parameters of several checkpoints of one model, summed in float64, and the content of the
    first checkpoint. Raises CheckpointError if a checkpoint is missing, damaged, quantised, or of another model.
    Returns the parameters by name with PARAMS_PREFIX, in their original dtype, and the content."""
    sums: dict[str, np.ndarray] = {}
    first: dict[str, Any] = {}
    kinds: dict[str, tuple[Any, tuple[int, ...]]] = {}
    for path in paths:
        tensors, content = map_tensors(path, PARAMS_PREFIX)
        own = {name: (array.dtype, array.shape) for name, array in tensors.items()}
        first, kinds = first or content, kinds or own
        integers = [name for name, (dtype, _) in own.items() if dtype.kind != "f"]
        if integers or not own:
            fact = f"{integers[0]} quantised" if integers else "none"
            raise CheckpointError(
                f"{path}: must contain floating-point parameters, got {fact}; average before quantising"
            )
        if own != kinds or content.get("subwords") != first.get("subwords"):
            raise CheckpointError(
                f"{path}: must be of the model of {paths[0]}, got other parameters or subwords; name checkpoints of "
                "one run"
            )
        for name, array in tensors.items():
            sums[name] = sums[name] + array if name in sums else array.astype(np.float64)
    return {name: (total / len(paths)).astype(kinds[name][0]) for name, total in sums.items()}, first


def save_average(folder: Path, paths: Sequence[Path], out: Path) -> None:
    """Write a model folder whose only checkpoint is the mean of `paths`, with the other files of `folder`; it appears
    when it is complete. Raises CheckpointError if a checkpoint is not usable, or `out` not empty or not writable."""
    config = model_folder.load_folder_config(folder)
    params, content = average_checkpoints(paths)
    for path in paths:
        check_settings(folder / CONFIG_NAME, config, path, map_tensors(path, "none")[1])
    check_new_folder(out)
    state = content.get("state", {}) | {"best_scores": {}, "kept": []}  # the mean has not been scored
    content = {key: value for key, value in content.items() if key in ("subwords", "config")}
    content |= {"state": state, "averaged": [path.name for path in paths]}
    with writing(out), new_folder(out) as new:
        for name in _BESIDE:
            if is_file(folder / name):
                shutil.copyfile(folder / name, new / name)
        write_tensors(new / BEST_NAME, params, content)
