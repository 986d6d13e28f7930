"""Name what takes the place of features that are removed or renamed, and that users may still write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_STACK = "write layers by rnn_type, such as mamba or rwkv7, with residual: true"
_DESCRIBED = "describe its tensors in a YAML file, as docs/import.md shows, and import that"

REMOVED: dict[str, str] = {
    "model.decoder.stack": _STACK,
    "model.decoder.stack_sizes": _STACK,
    "data.index": "remove it: the ids of a large text lie in a mapped file of the temporary folder (TMPDIR)",
    "training.quantization_aware": "train without it and round the result by nmt-quantize",
    "training.patience": "write lower_after, of the plateau schedule, or stop_after, which ends training",
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

RENAMED = {
    "training.passes": "auto_epochs",
    "training.patience": "lower_after",
    "training.early_stopping_patience": "stop_after",
    "training.early_stopping_metric": "metric",
    "training.early_stopping_metrics": "stop_metrics",
    "training.early_stopping_on": "stop_on",
}
"""Former names of settings, each with the present one in the same section."""


def instead(name: str) -> str | None:
    """Return a sentence about something that is removed and its replacement; None if the name is not of it."""
    if name in REMOVED:
        return f"is not there any more; {REMOVED[name]}"
    return f"is called {RENAMED[name]} now" if name in RENAMED else None


def drop_removed(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return settings without removed ones that are turned off."""
    left = {}
    for key, value in values.items():
        name = f"{above}{key}"
        if name not in _OFF or value != _OFF[name]:
            left[key] = drop_removed(value, f"{name}.") if isinstance(value, Mapping) else value
    return left


def of_trained_model(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return the settings of a trained model, by whatever version, with present names and without removed ones that
    matter in training alone."""
    now = {}
    for key, value in values.items():
        name = f"{above}{key}"
        if name not in _OFF or not name.startswith(("training.", "data.")):
            inner = of_trained_model(value, f"{name}.") if isinstance(value, Mapping) else value
            now[RENAMED.get(name, key)] = inner
    return now
