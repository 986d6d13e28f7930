"""The settings that every export contains next to the weights, and the check of which models can be exported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import CheckpointError

if TYPE_CHECKING:
    from nmt.storage.saved_model import SavedModel


def about_of(saved: SavedModel) -> dict[str, Any]:
    """Return the settings and tokens, as `model.json` contains them."""
    src, tgt = saved.src_subwords, saved.tgt_subwords
    decoding = saved.config.decoding
    return {
        "model": saved.config.model.to_dict(),
        "units": {
            "src": src.pieces(range(src.vocab_size)),
            "tgt": tgt.pieces(range(tgt.vocab_size)),
        },
        "generate_unk": decoding.generate_unk,
        "longest": {"ratio": decoding.max_length_ratio, "extra": decoding.max_length_extra},
    }


def check_exported(saved: SavedModel, cells: tuple[str, ...], form: str) -> None:
    """Raise CheckpointError if a model cannot be exported to a format that supports only these cells."""
    model = saved.config.model
    promises = [
        ("task", saved.config.task, ("translation",)),
        ("model.encoder.factors", ", ".join(map(str, model.encoder.factors)) or "none", ("none",)),
        ("model.encoder.type", model.encoder.type, ("recurrent",)),
        ("model.decoder.type", model.decoder.type, ("recurrent",)),
        ("model.encoder.rnn_type", model.encoder.rnn_type, cells),
        ("model.decoder.rnn_type", model.decoder.rnn_type, cells),
        ("model.encoder.zoneout", f"{model.encoder.zoneout:g}", ("0",)),
        ("model.decoder.zoneout", f"{model.decoder.zoneout:g}", ("0",)),
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
