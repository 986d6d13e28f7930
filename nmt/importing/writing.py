"""Write an imported model as an ordinary model folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.data.tokens.subwords import Subwords
from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import CheckpointError
from nmt.importing.imported import Imported
from nmt.storage.model_folder import (
    BEST_NAME,
    CONFIG_NAME,
    PARAMS_PREFIX,
    build_model,
    save_subwords,
    set_params,
    subwords_digest,
)
from nmt.storage.tensor_file import write_tensors
from nmt.system.files import new_folder, write_bytes, writing
from nmt.system.paths import check_new_folder

MAPPING_NAME = "imported.txt"
"""The file that lists what was mapped to what, as text."""
_UNKNOWN_TEXT = "unknown"
"""The value of settings that name the training text, which is unknown."""


def save_imported(out: Path, imported: Imported, src_lang: str = "src", tgt_lang: str = "tgt") -> None:
    """Write a model as a new folder, which appears only when it is complete. Raises CheckpointError: `out` contains
    something already, cannot be written, or the parts do not fit one another. Raises ConfigError: The languages are the
    same."""
    from nmt.config import config_from_dict, dump_config

    joint = imported.src is imported.tgt
    given = imported.settings
    sides = given.get("data", {})
    data = {
        "train": _UNKNOWN_TEXT,
        "dev": _UNKNOWN_TEXT,
        "src": {"lang": src_lang, "normalize": _normalize(imported.src)} | sides.get("src", {}),
        "tgt": {"lang": tgt_lang, "normalize": _normalize(imported.tgt)} | sides.get("tgt", {}),
        "subwords": {"joint": joint},
    }
    settings: dict[str, Any] = {"model_dir": str(out), "data": data, "model": given["model"]}
    settings["decoding"] = given.get("decoding", {})
    config = config_from_dict(settings, str(out))
    model = build_model(config, imported.src.vocab_size, imported.tgt.vocab_size)
    tensors: dict[str, np.ndarray] = {PARAMS_PREFIX + name: array for name, array in imported.params.items()}
    _check_turned(out, imported, model.params)
    set_params(model, tensors, out, adopt=True)
    content: dict[str, Any] = {
        "subwords": subwords_digest(imported.src, imported.tgt),
        "config": config.to_dict(),
        "imported": imported.kind,
    }
    check_new_folder(out)
    with writing(out), new_folder(out) as folder:
        save_subwords(folder, imported.src, imported.tgt, joint=joint)
        write_tensors(folder / BEST_NAME, tensors, content)
        write_bytes(folder / MAPPING_NAME, "".join(f"{line}\n" for line in imported.lines).encode())
        write_bytes(folder / CONFIG_NAME, dump_config(config).encode(), sync=True)


def _check_turned(out: Path, imported: Imported, params: Mapping[str, Any]) -> None:
    """Raise CheckpointError if a matrix has the shape that the settings require of its transpose."""
    for line in imported.lines:
        origin, _, ours = line.partition(" -> ")
        name = ours.partition(" ")[0]
        if name not in params or name not in imported.params:  # a word of the vocabulary, which may hold an arrow
            continue
        want, got = list(params[name].shape), list(imported.params[name].shape)
        if want != got and want == got[::-1]:
            turned = f"{origin}.T" if " " not in origin else "each name with .T"
            raise CheckpointError(f"{out}: {name} must be {want}, got {origin}, which is {got}; write {turned}")


def _normalize(subwords: Subwords) -> str:
    """Return the setting for cleaning lines: none, or pieces if the tokens are sentencepiece's."""
    return "pieces" if isinstance(subwords, Vocabulary) and subwords.are_pieces else "none"
