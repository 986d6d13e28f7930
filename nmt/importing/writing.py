"""Write an imported model as an ordinary model folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config.yaml_text import parse_written_pairs
from nmt.data.tokens.subwords import Subwords, read_model
from nmt.data.tokens.vocabulary import Vocabulary
from nmt.errors import CheckpointError, DataError
from nmt.importing.imported import Imported
from nmt.storage import model_folder
from nmt.storage.tensor_file import write_tensors
from nmt.system.files import explain, new_folder, read_small, write_bytes, writing
from nmt.system.paths import check_new_folder

MAPPING_NAME = "imported.txt"
"""The file that lists what was mapped to what, as text."""
_UNKNOWN_TEXT = "unknown"
"""The value of settings that name the training text, which is unknown."""


def save_imported(out: Path, imported: Imported, src_lang: str = "src", tgt_lang: str = "tgt") -> None:
    """Write a model as a new folder, which appears only when it is complete. Raises CheckpointError: That is
    impossible, or the parts do not fit one another. Raises ConfigError: The languages are the same."""
    from nmt.config import config_from_dict, dump_config

    given = imported.settings
    sides = given.get("data", {})
    data = {
        "train": _UNKNOWN_TEXT,
        "dev": _UNKNOWN_TEXT,
        "src": {"lang": src_lang, "normalize": _normalize(imported.src)} | sides.get("src", {}),
        "tgt": {"lang": tgt_lang, "normalize": _normalize(imported.tgt)} | sides.get("tgt", {}),
        "subwords": {"joint": imported.is_joint},
    }
    settings: dict[str, Any] = {"model_dir": str(out), "data": data, "model": given["model"]}
    settings["decoding"] = given.get("decoding", {})
    config = config_from_dict(settings, str(out))
    model = model_folder.build_model(config, imported.src.vocab_size, imported.tgt.vocab_size)
    tensors: dict[str, np.ndarray] = {
        model_folder.PARAMS_PREFIX + name: array for name, array in imported.params.items()
    }
    _check_turned(out, imported, model.params)
    model_folder.set_params(model, tensors, out, adopt=True)
    content: dict[str, Any] = {
        "subwords": model_folder.subwords_digest(imported.src, imported.tgt),
        "config": config.to_dict(),
        "imported": imported.kind,
    }
    check_new_folder(out)
    with writing(out), new_folder(out) as folder:
        model_folder.save_subwords(folder, imported.src, imported.tgt, joint=imported.is_joint)
        write_tensors(folder / model_folder.BEST_NAME, tensors, content)
        write_bytes(folder / MAPPING_NAME, "".join(f"{line}\n" for line in imported.lines).encode())
        write_bytes(folder / model_folder.CONFIG_NAME, dump_config(config).encode(), sync=True)


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


_MOST_BYTES = 2**28
_SENTENCEPIECE = ".spm"


def next_to(folder: Path, named: str) -> Path:
    """Return the file of this name in a folder, without the folders in `named`, which are those of another machine."""
    return folder / Path(named.replace("\\", "/")).name


def read_sentencepiece(path: Path) -> Subwords | None:
    """Return the sentencepiece model in a file that is named like one; None for other files. Raises CheckpointError."""
    if path.suffix != _SENTENCEPIECE:
        return None
    try:
        return Subwords(read_model(path), str(path))
    except DataError as error:
        raise CheckpointError(str(error)) from error


def read_units(path: Path) -> list[str]:
    """Return tokens in the order of their ids, from JSON or YAML that maps tokens to ids, or from a text of one token
    per line. Raises CheckpointError if it cannot be read, is something else, or ids leave gaps."""
    try:
        text = read_small(path, _MOST_BYTES).decode()
    except OSError as error:
        raise CheckpointError(
            f"{path}: must be the vocabulary next to the checkpoint, got {explain(error)}; copy it there"
        ) from error
    except ValueError:
        raise CheckpointError(f"{path}: must be text in UTF-8, got other bytes; restore a copy") from None
    return _by_number(path, text) if path.suffix in (".json", ".yml", ".yaml") else units_of(text)


def units_of(text: str) -> list[str]:
    """Return the units in a text of one a line. All lines of a text from Windows end in CR LF; else CR is a unit."""
    ending = "\r\n" if text.count("\r\n") == text.count("\n") else "\n"
    return text.removesuffix(ending).split(ending)


def _by_number(path: Path, text: str) -> list[str]:
    """Return the tokens of a mapping of tokens to ids, each from 0 on once, in JSON or YAML. Raises CheckpointError."""
    is_json = path.suffix == ".json"
    try:
        pairs: Any = json.loads(text, object_pairs_hook=list) if is_json else parse_written_pairs(text)
    except (ValueError, RecursionError) as error:
        name = "JSON" if is_json else "YAML"
        raise CheckpointError(f"{path}: must be {name}, got {explain(error)[:80]}; restore a copy") from error
    pairs = pairs if isinstance(pairs, list) and all(isinstance(pair, tuple) for pair in pairs) else []
    found: dict[int, str] = {}
    for unit, number in pairs:
        written = str(number)
        if not isinstance(unit, str) or not written.isdecimal() or not written.isascii() or len(written) > 9:
            raise CheckpointError(f"{path}: must give each unit a number, got {unit!r:.40}: {number!r:.40}")
        found[int(written)] = unit
    if not pairs or len(found) != len(pairs) or max(found) != len(pairs) - 1:
        raise CheckpointError(
            f"{path}: must number its units from 0 on, each number once, got {len(pairs):,} units and "
            f"{len(found):,} numbers up to {max(found, default=0):,}"
        )
    return [found[n] for n in range(len(found))]
