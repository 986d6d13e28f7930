"""Write a model folder whose matrices are int8: a quarter of the bytes, and nothing to quantise when it is loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from nmt.storage.model_folder import PARAMS_PREFIX, quantised_tensors
from nmt.storage.saved_model import SavedModel, save_folder
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
    check_new_folder(out)
    content = {**saved.content, "quantization": QUANTIZATION}
    save_folder(out, replace(saved, params=_tensors(saved), content=content), compute_dtype="int8")


def _tensors(saved: SavedModel) -> dict[str, np.ndarray]:
    """Return all parameters as an int8 checkpoint stores them; parameters that are not matrices are unchanged."""
    weights = saved.build("int8").weights
    tensors: dict[str, np.ndarray] = {}
    for name in weights:
        held = weights.quantised(name)
        tensors |= {PARAMS_PREFIX + name: weights[name]} if held is None else quantised_tensors(name, held)
    return tensors
