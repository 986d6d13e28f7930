"""The average of several checkpoints of a run (Junczys-Dowmunt et al. 2016, section 5)."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import CheckpointError
from nmt.storage.model_folder import (
    BEST_NAME,
    CONFIDENCE_NAME,
    CONFIG_NAME,
    LAST_NAME,
    PARAMS_PREFIX,
    SHORTLIST_NAME,
    SUBWORD_NAMES,
    load_folder_config,
    numbered_checkpoint,
    numbered_checkpoints,
)
from nmt.storage.tensor_file import map_tensors, write_tensors
from nmt.storage.trained_settings import check_settings
from nmt.system.files import new_folder, writing
from nmt.system.paths import check_new_folder, is_file
from nmt.train.updates.schedule import TrainingState

_BESIDE = (CONFIG_NAME, *SUBWORD_NAMES.values(), SHORTLIST_NAME, CONFIDENCE_NAME)


def newest_checkpoints(folder: Path, count: int) -> list[Path]:
    """Return the `count` newest numbered checkpoints. Raises CheckpointError if there are fewer."""
    found = numbered_checkpoints(folder, "last")
    return _enough(folder, found, count, "last")


def best_checkpoints(folder: Path, count: int) -> list[Path]:
    """Return the `count` best numbered checkpoints, by the ranking in the last checkpoint. Raises CheckpointError if
    there are fewer."""
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
    """Write a model folder whose only checkpoint is the mean of `paths`; the other files are copied from `folder`. The
    folder appears only when it is complete. Raises CheckpointError if a checkpoint is not usable, or `out` is not empty
    or cannot be written."""
    config = load_folder_config(folder)
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
