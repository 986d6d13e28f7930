"""A model as weights with one page of plain NumPy that runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import CheckpointError
from nmt.files import explain, new_folder, remedy, write_bytes
from nmt.storage.model_folder import PARAMS_PREFIX

if TYPE_CHECKING:
    from nmt.storage.saved_model import SavedModel

PAGE = "plain_numpy.py"
WEIGHTS_NAME = "weights.npz"
ABOUT_NAME = "model.json"
_CELLS = ("lstm", "gru")


def save_numpy(out: Path, saved: SavedModel) -> None:
    """Write `weights.npz`, `model.json` and the page that runs them as a new folder.

    Raises:
        CheckpointError: `out` holds something already or cannot be written; the model is of another kind than the page
            knows, or in int8.
    """
    model = saved.config.model
    _check(saved)
    src, tgt = saved.src_subwords, saved.tgt_subwords
    decoding = saved.config.decoding
    about = {
        "model": model.to_dict(),
        "units": {
            "src": src.pieces(range(src.vocab_size)),
            "tgt": tgt.pieces(range(tgt.vocab_size)),
        },
        "longest": {"ratio": decoding.max_length_ratio, "extra": decoding.max_length_extra},
    }
    arrays: dict[str, Any] = {
        name.removeprefix(PARAMS_PREFIX): np.asarray(array, np.float32) for name, array in saved.params.items()
    }
    page = (Path(__file__).parent / PAGE).read_bytes()
    try:
        with new_folder(out) as folder:
            with (folder / WEIGHTS_NAME).open("wb") as file:
                np.savez(file, **arrays)
            write_bytes(folder / ABOUT_NAME, json.dumps(about, ensure_ascii=False, indent=1).encode())
            write_bytes(folder / PAGE, page, sync=True)
    except OSError as error:
        raise CheckpointError(f"{out}: must be written, got {explain(error)}; {remedy(error)}") from error


def _check(saved: SavedModel) -> None:
    """Raise CheckpointError: the page does not know such a model."""
    model = saved.config.model
    promises = [
        ("task", saved.config.task, ("translation",)),
        ("model.encoder.type", model.encoder.type, ("recurrent",)),
        ("model.decoder.type", model.decoder.type, ("recurrent",)),
        ("model.encoder.rnn_type", model.encoder.rnn_type, _CELLS),
        ("model.decoder.rnn_type", model.decoder.rnn_type, _CELLS),
        ("model.encoder.zoneout", f"{model.encoder.zoneout:g}", ("0",)),
        ("model.decoder.zoneout", f"{model.decoder.zoneout:g}", ("0",)),
    ]
    for name, value, known in promises:
        if value not in known:
            raise CheckpointError(
                f"{saved.path}: {name} must be {' or '.join(known)} for the page of NumPy, got {value}; it "
                "knows no other"
            )
    if any(array.dtype == np.int8 for array in saved.params.values()):
        raise CheckpointError(f"{saved.path}: must be in float32 to be exported, got int8; export what it was made of")
