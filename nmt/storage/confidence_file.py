"""Store a calibration on disk: in a separate file next to a model, or as tensors of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import CheckpointError
from nmt.storage.tensor_file import tensors_made_with, write_tensors
from nmt.system.files import writing

if TYPE_CHECKING:
    from nmt.data.calibration import Calibration

PREFIX = "confidence/"
_TYPES: dict[str, Any] = dict.fromkeys(("units", "words", "pairs"), np.uint32)
_TYPES |= {"sizes": np.uint8, "weights": np.float64, "about": np.float64}


def confidence_tensors(calibration: Calibration) -> dict[str, np.ndarray]:
    """Return the arrays of a calibration by their names in a file."""
    arrays = {name: getattr(calibration, name) for name in _TYPES if name != "about"}
    arrays["about"] = np.array([calibration.usual, calibration.least])
    return {PREFIX + name: array for name, array in arrays.items()}


def calibration_from(tensors: dict[str, np.ndarray], where: Path) -> Calibration | None:
    """Return the calibration whose arrays `confidence_tensors` returned, or None if they are missing. Raises
    CheckpointError, which names `where`."""
    from nmt.data.calibration import FEATURES, Calibration

    own = {name.removeprefix(PREFIX): array for name, array in tensors.items() if name.startswith(PREFIX)}
    if not own:
        return None
    fit = {name: array.dtype for name, array in own.items()} == _TYPES and len(own["units"]) == len(own["sizes"]) > 0
    numbers = np.concatenate([own.get(name, np.full(1, np.nan)).reshape(-1) for name in ("weights", "about")])
    if not fit or not np.isfinite(numbers).all() or len(own["weights"]) != FEATURES or len(numbers) != FEATURES + 2:
        raise CheckpointError(
            f"{where}: must contain a calibration of confidence, got other arrays; restore a copy, or remove it"
        )
    usual, least = own.pop("about").tolist()
    return Calibration(**own, usual=usual, least=least)


def save_calibration(path: Path, calibration: Calibration, content: dict[str, Any]) -> None:
    """Write a calibration with its metadata, which include the digest of its subwords. Raises CheckpointError."""
    with writing(path):
        write_tensors(path, confidence_tensors(calibration), content)


def load_calibration(path: Path, digest: str) -> Calibration | None:
    """Return the calibration made with these subwords, or None if there is no file. Raises CheckpointError."""
    tensors = tensors_made_with(path, digest, "restore a copy, or remove it")
    return None if tensors is None else calibration_from(tensors, path)
