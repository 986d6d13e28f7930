"""Name what takes the place of features that are removed: settings, options and formats that users may still write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_STACK = "write layers by rnn_type, such as mamba or rwkv7, with residual: true"
_DESCRIBED = "describe its tensors in a YAML file, as docs/migration.md shows, and import that"

REMOVED: dict[str, str] = {
    "model.decoder.stack": _STACK,
    "model.decoder.stack_sizes": _STACK,
    "data.index": "remove it: the ids of a large text lie in a mapped file of the temporary folder (TMPDIR)",
    "training.quantization_aware": "train without it and round the result by nmt-quantize",
    "joeynmt": "write our settings by the table of docs/migration.md, Settings of JoeyNMT",
    "export_cell": "let Python step the cell by Scan.forward, or export a translation model by nmt-export --to c",
    "wheel": "unpack it and import the model's file in it",
    "nmt-import --from e2k": _DESCRIBED,
    "nmt-import --from g2p-en": _DESCRIBED,
    "nmt-import --from transformers": "use such a language model with the library transformers itself",
}
"""Names as they were written, each with what to do instead."""

_OFF: dict[str, Any] = {
    "model.decoder.stack": None,
    "model.decoder.stack_sizes": {},
    "data.index": None,
    "training.quantization_aware": 0,
}
"""Values of removed settings that turned them off, as folders of older versions have them."""

WITHOUT_TRAINING = {name: value for name, value in _OFF.items() if name.startswith(("training.", "data."))}
"""Changes of settings by which a trained model is read whose training used what is removed."""


def instead(name: str) -> str | None:
    """Return a sentence about something that is removed and its replacement; None if the name is not of it."""
    return f"is not there any more; {REMOVED[name]}" if name in REMOVED else None


def drop_removed(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return settings without removed ones that are turned off."""
    left = {}
    for key, value in values.items():
        name = f"{above}{key}"
        if name not in _OFF or value != _OFF[name]:
            left[key] = drop_removed(value, f"{name}.") if isinstance(value, Mapping) else value
    return left
