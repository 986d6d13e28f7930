"""The parts common to all exports: which models they support, and the folder of settings, subwords and a script."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import CheckpointError
from nmt.storage.model_folder import PARAMS_PREFIX, save_subwords
from nmt.system.files import new_folder, write_bytes, writing
from nmt.system.paths import check_new_folder

if TYPE_CHECKING:
    from nmt.storage.saved_model import SavedModel

ABOUT_NAME = "model.json"


def weights_of(saved: SavedModel) -> dict[str, np.ndarray]:
    """Return the parameters by name, in float32."""
    return {k.removeprefix(PARAMS_PREFIX): np.asarray(v, np.float32) for k, v in saved.params.items()}


def save_export(
    out: Path, saved: SavedModel, page: str, save_weights: Callable[[Path], None], more: dict[str, Any] | None = None
) -> None:
    """Write a new folder with weights, settings, subwords, and the script that runs them, `page`; it appears when it is
    complete. `save_weights`: writes into the folder it is given; `more`: further settings. Raises CheckpointError."""
    check_new_folder(out)
    src, tgt, decoding = saved.src_subwords, saved.tgt_subwords, saved.config.decoding
    about = {
        "model": saved.config.model.to_dict(),
        "units": {"src": src.pieces(range(src.vocab_size)), "tgt": tgt.pieces(range(tgt.vocab_size))},
        "generate_unk": decoding.generate_unk,
        "longest": {"ratio": decoding.max_length_ratio, "extra": decoding.max_length_extra},
        **(more or {}),
    }
    with writing(out), new_folder(out) as folder:
        save_weights(folder)
        write_bytes(folder / ABOUT_NAME, json.dumps(about, ensure_ascii=False, indent=1).encode())
        save_subwords(folder, src, tgt, joint=saved.config.data.subwords.joint)
        write_bytes(folder / page, (Path(__file__).parent / page).read_bytes(), sync=True)


def check_exported(saved: SavedModel, cells: tuple[str, ...], form: str) -> None:
    """Raise CheckpointError if a model is no recurrent translator of these cells, or has what a format lacks."""
    model = saved.config.model
    sides = {"encoder": model.encoder, "decoder": model.decoder}
    promises = [
        ("model.encoder.factors", ", ".join(map(str, model.encoder.factors)) or "none", ("none",)),
        *((f"model.{name}.type", side.type, ("recurrent",)) for name, side in sides.items()),
        ("model.decoder.copy_source", json.dumps(model.decoder.copy_source), ("false",)),
        ("model.decoder.edit_actions", json.dumps(model.decoder.edit_actions), ("false",)),
        *((f"model.{name}.rnn_type", side.rnn_type, cells) for name, side in sides.items()),
        *((f"model.{name}.zoneout", f"{side.zoneout:g}", ("0",)) for name, side in sides.items()),
    ]
    for name, value, known in promises:
        if value not in known:
            raise CheckpointError(
                f"{saved.path}: {name} must be {' or '.join(known)} for {form}, got {value}; nothing else is supported"
            )
    if any(array.dtype == np.int8 for array in saved.params.values()):
        raise CheckpointError(
            f"{saved.path}: must be in float32 to be exported, got int8; export the model that it was made from"
        )
