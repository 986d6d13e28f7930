"""Export a model as weights with a single file of plain NumPy that runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import CheckpointError
from nmt.exporting.page import about_of, check_exported
from nmt.storage.model_folder import PARAMS_PREFIX, save_subwords
from nmt.system.files import explain, new_folder, remedy, write_bytes
from nmt.system.paths import check_new_folder

if TYPE_CHECKING:
    from nmt.storage.saved_model import SavedModel

PAGE = "plain_numpy.py"
WEIGHTS_NAME = "weights.npz"
ABOUT_NAME = "model.json"
_CELLS = ("lstm", "gru")


def save_numpy(out: Path, saved: SavedModel) -> None:
    """Write `weights.npz`, `model.json` and the script that runs them as a new folder.

    Raises:
        CheckpointError: `out` contains something already or cannot be written; the model is of a kind that the script
            does not support, or in int8.
    """
    check_exported(saved, _CELLS, "the page of NumPy")
    check_new_folder(out)
    about = about_of(saved)
    arrays: dict[str, Any] = {
        name.removeprefix(PARAMS_PREFIX): np.asarray(array, np.float32) for name, array in saved.params.items()
    }
    page = (Path(__file__).parent / PAGE).read_bytes()
    try:
        with new_folder(out) as folder:
            with (folder / WEIGHTS_NAME).open("wb") as file:
                np.savez(file, **arrays)
            write_bytes(folder / ABOUT_NAME, json.dumps(about, ensure_ascii=False, indent=1).encode())
            save_subwords(folder, saved.src_subwords, saved.tgt_subwords, joint=saved.config.data.subwords.joint)
            write_bytes(folder / PAGE, page, sync=True)
    except OSError as error:
        raise CheckpointError(f"{out}: must be written, got {explain(error)}; {remedy(error)}") from error
