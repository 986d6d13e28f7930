"""Export a model as weights with a single file of plain NumPy that runs them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nmt.exporting.page import check_exported, save_export, weights_of

if TYPE_CHECKING:
    from nmt.storage.saved_model import SavedModel

PAGE = "plain_numpy.py"
WEIGHTS_NAME = "weights.npz"
_CELLS = ("lstm", "gru")


def save_numpy(out: Path, saved: SavedModel) -> None:
    """Write `weights.npz`, `model.json` and the script that runs them as a new folder. Raises CheckpointError if the
    folder cannot be written, or the script does not support the model."""
    check_exported(saved, _CELLS, "the page of NumPy")

    def save_weights(folder: Path) -> None:
        with (folder / WEIGHTS_NAME).open("wb") as file:
            np.savez(file, **weights_of(saved))  # type: ignore[arg-type] # a name may not be allow_pickle

    save_export(out, saved, PAGE, save_weights)
