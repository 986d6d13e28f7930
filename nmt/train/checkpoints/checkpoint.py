"""Checkpoints: one safetensors file each, so that a single rename replaces the whole checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nmt.errors import CheckpointError
from nmt.storage.model_folder import (
    CARRIED_PREFIX,
    CHECKPOINT_SUFFIX,
    OPTIMIZER_PREFIX,
    PARAMS_PREFIX,
    RAW_PREFIX,
    checkpoint_names,
    read_checkpoint,
)
from nmt.storage.tensor_file import write_tensors
from nmt.system.files import explain, remedy


def save_checkpoint(
    path: Path,
    *,
    params: Mapping[str, np.ndarray],
    optimizer: Mapping[str, np.ndarray],
    metadata: Mapping[str, Any],
    carried: Mapping[str, np.ndarray] | None = None,
    raw: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Write a checkpoint to a temporary file, flush it to disk, then rename it to `path`.

    Args:
        path: `last.safetensors` or `best.safetensors` in a model folder.
        optimizer: The optimizer's arrays by name; empty for a checkpoint that only translates.
        metadata: Values that JSON can represent: position in the data, schedule, scores, settings.
        carried: States that carry over to the next batch, by name (see `Network.carried`).
        raw: The parameters that were averaged, if `params` are an average.

    Raises:
        CheckpointError: It cannot be written; the previous file is unchanged and no temporary file remains.
    """
    groups = {PARAMS_PREFIX: params, OPTIMIZER_PREFIX: optimizer, CARRIED_PREFIX: carried or {}, RAW_PREFIX: raw or {}}
    tensors = {prefix + name: array for prefix, arrays in groups.items() for name, array in arrays.items()}
    try:
        write_tensors(path, tensors, metadata)
    except OSError as error:
        there = [name + CHECKPOINT_SUFFIX for name in checkpoint_names(path.parent)]
        kept = f"it was not saved, {', '.join(there[:3])} was" if there else "nothing was saved"
        kept = "the previous checkpoint is intact" if path.exists() else kept
        raise CheckpointError(f"{path}: must be written, got {explain(error)}; {kept}: {remedy(error)}") from error


class Checkpoint(NamedTuple):
    """The arrays of a checkpoint by kind, and its metadata. `params` and `raw` are named as `set_params` takes them;
    `raw` is empty unless `params` are an average."""

    params: dict[str, np.ndarray]
    optimizer: dict[str, np.ndarray]
    carried: dict[str, np.ndarray]
    raw: dict[str, np.ndarray]
    metadata: dict[str, Any]


def read_whole(path: Path) -> Checkpoint:
    """Return everything in a checkpoint. Raises CheckpointError if the file is missing, truncated, damaged, or not a
    checkpoint of nmt."""
    tensors, metadata = read_checkpoint(path)

    def of(prefix: str, new: str = "") -> dict[str, np.ndarray]:
        return {new + key.removeprefix(prefix): array for key, array in tensors.items() if key.startswith(prefix)}

    params, raw = of(PARAMS_PREFIX, PARAMS_PREFIX), of(RAW_PREFIX, PARAMS_PREFIX)
    return Checkpoint(params, of(OPTIMIZER_PREFIX), of(CARRIED_PREFIX), raw, metadata)
