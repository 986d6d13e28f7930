"""Checkpoints: one safetensors file each, so that a single rename replaces the whole checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import CheckpointError
from nmt.storage.model_folder import CARRIED_PREFIX, OPTIMIZER_PREFIX, PARAMS_PREFIX, RAW_PREFIX, read_checkpoint
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
        params: The model's parameters by name.
        optimizer: The optimizer's arrays by name; empty for a checkpoint that only translates.
        metadata: Values that JSON can represent: position in the data, schedule, scores, settings.
        carried: States that carry over to the next batch, by name (see `Network.carried`).
        raw: The parameters that were averaged, if `params` are an average.

    Raises:
        CheckpointError: It cannot be written; the previous file is unchanged and no temporary file remains.
    """
    tensors = {PARAMS_PREFIX + name: array for name, array in params.items()}
    tensors |= {OPTIMIZER_PREFIX + name: array for name, array in optimizer.items()}
    tensors |= {CARRIED_PREFIX + name: array for name, array in (carried or {}).items()}
    tensors |= {RAW_PREFIX + name: array for name, array in (raw or {}).items()}
    try:
        write_tensors(path, tensors, metadata)
    except OSError as error:
        kept = "the previous checkpoint is intact" if path.exists() else "nothing was saved"
        raise CheckpointError(f"{path}: must be written, got {explain(error)}; {kept}: {remedy(error)}") from error


def load_checkpoint(
    path: Path,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, Any]]:
    """Return parameters (names with their prefix), optimizer arrays (names without) and metadata.

    Raises:
        CheckpointError: The file is missing, truncated, damaged, or not a checkpoint of nmt.
    """
    tensors, metadata = read_checkpoint(path)
    params = {name: array for name, array in tensors.items() if name.startswith(PARAMS_PREFIX)}
    optimizer = {
        name.removeprefix(OPTIMIZER_PREFIX): array
        for name, array in tensors.items()
        if name.startswith(OPTIMIZER_PREFIX)
    }
    return params, optimizer, metadata


def load_carried(path: Path) -> dict[str, np.ndarray]:
    """Return the states that carry over to the next batch, names without prefix. Raises CheckpointError like
    `load_checkpoint`."""
    tensors, _ = read_checkpoint(path, prefix=CARRIED_PREFIX)
    return {name.removeprefix(CARRIED_PREFIX): array for name, array in tensors.items()}


def load_raw(path: Path) -> dict[str, np.ndarray]:
    """Return the parameters that updates change if the checkpoint's own are an average of them, in the form of
    `load_checkpoint`; otherwise nothing. Raises CheckpointError like `load_checkpoint`."""
    tensors, _ = read_checkpoint(path, prefix=RAW_PREFIX)
    return {PARAMS_PREFIX + name.removeprefix(RAW_PREFIX): array for name, array in tensors.items()}
