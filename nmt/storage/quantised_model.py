"""Write a model folder whose matrices are int8 or 4 bits: a quarter or an eighth of the bytes, and nothing to quantise
when it is loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from nmt.rnn.kernels.products.four_bits import quantise_to_4_bits
from nmt.storage.model_folder import PARAMS_PREFIX, quantised_tensors
from nmt.storage.saved_model import QUANTIZATION, SavedModel, save_folder
from nmt.system.paths import check_new_folder


def save_quantised(out: Path, saved: SavedModel, bits: int = 8) -> None:
    """Write a model as a new folder with its matrices quantised and `compute_dtype: int8` in its settings.

    Args:
        out: The folder, which must be missing or empty. It appears only when it is complete.
        saved: A model in any dtype; one that is in int8 already gives the same numbers again.
        bits: Of each number, 8 or 4.

    Raises:
        CheckpointError: `out` contains something already, or cannot be written.
    """
    check_new_folder(out)
    content = {**saved.content, "quantization": QUANTIZATION[bits]}
    save_folder(out, replace(saved, params=_tensors(saved, bits), content=content), compute_dtype="int8")


def _tensors(saved: SavedModel, bits: int) -> dict[str, np.ndarray]:
    """Return all parameters as an int8 checkpoint stores them; parameters that are not matrices are unchanged."""
    weights = saved.build("int8").weights
    tensors: dict[str, np.ndarray] = {}
    for name in weights:
        held = weights.quantised(name)
        if held is not None and bits == 4:
            stored = saved.params[PARAMS_PREFIX + name]
            matrix = stored if stored.dtype.kind == "f" else held.restored()
            held = quantise_to_4_bits(matrix, by_rows=held.by_rows)
        tensors |= {PARAMS_PREFIX + name: weights[name]} if held is None else quantised_tensors(name, held)
    return tensors
