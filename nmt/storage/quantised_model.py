"""Write a model folder whose matrices are int8: a quarter of the bytes, and nothing to quantise when it is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nmt.storage.length_model import save_length_model
from nmt.storage.model_folder import (
    BEST_NAME,
    CONFIG_NAME,
    LENGTHS_NAME,
    PARAMS_PREFIX,
    SHORTLIST_NAME,
    quantised_tensors,
    save_subwords,
    subwords_digest,
)
from nmt.storage.saved_model import SavedModel
from nmt.storage.shortlist_file import save_shortlist
from nmt.storage.tensor_file import write_tensors
from nmt.system.files import new_folder, write_bytes, writing
from nmt.system.paths import check_new_folder

QUANTIZATION = {"numbers": "int8", "layout": 1}
"""A checkpoint's description of its int8 tensors: matrices in the layout of float32, with a scale for each output
channel."""


def save_quantised(out: Path, saved: SavedModel) -> None:
    """Write a model as a new folder with its matrices in int8 and `compute_dtype: int8` in its settings.

    Args:
        out: The folder, which must be missing or empty. It appears only when it is complete.
        saved: A model in any dtype; one that is quantised already gives the same numbers again.

    Raises:
        CheckpointError: `out` contains something already, or cannot be written.
    """
    from nmt.config import dump_config

    check_new_folder(out)
    src, tgt, config = saved.src_subwords, saved.tgt_subwords, saved.config
    digest = subwords_digest(src, tgt)
    content: dict[str, Any] = {
        key: saved.content[key] for key in ("state", "scores", "averaged") if key in saved.content
    }
    content |= {"subwords": digest, "config": config.to_dict(), "quantization": QUANTIZATION}
    tensors = _tensors(saved)  # before the folder: a model that cannot be built leaves none behind
    with writing(out), new_folder(out) as folder:
        save_subwords(folder, src, tgt, joint=config.data.subwords.joint)
        if saved.lengths is not None:
            save_length_model(folder / LENGTHS_NAME, saved.lengths)
        if saved.shortlist is not None:
            save_shortlist(folder / SHORTLIST_NAME, saved.shortlist, {"subwords": digest})
        write_tensors(folder / BEST_NAME, tensors, content)
        own = config.model_copy(update={"compute_dtype": "int8", "model_dir": str(out)})
        write_bytes(folder / CONFIG_NAME, dump_config(own).encode(), sync=True)


def _tensors(saved: SavedModel) -> dict[str, np.ndarray]:
    """Return all parameters as an int8 checkpoint stores them; parameters that are not matrices are unchanged."""
    weights = saved.build("int8").weights
    tensors: dict[str, np.ndarray] = {}
    for name in weights:
        held = weights.quantised(name)
        tensors |= {PARAMS_PREFIX + name: weights[name]} if held is None else quantised_tensors(name, held)
    return tensors
