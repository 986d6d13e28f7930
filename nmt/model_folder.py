"""The folder `nmt-train` writes and `Translator` reads: its file names, and how each file is read.

config.yaml         the resolved settings; its presence makes a folder ours
joint.spm           the subwords (src.spm and tgt.spm where the languages do not share them)
last.safetensors    parameters, optimizer and position: what a resumed run needs
best.safetensors    the parameters with the best validation: what translating needs
train.log           the lines that went to the terminal, with times
metrics.jsonl       the same events as one JSON object a line
"""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import CheckpointError, DataError
from nmt.files import explain, write_bytes

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.subwords import Subwords
    from nmt.model.network import Network
    from nmt.rnn.device import Device

CONFIG_NAME = "config.yaml"
LAST_NAME = "last.safetensors"
BEST_NAME = "best.safetensors"
LOG_NAME = "train.log"
METRICS_NAME = "metrics.jsonl"
SUBWORD_NAMES = {"joint": "joint.spm", "src": "src.spm", "tgt": "tgt.spm"}

FORMAT_VERSION = 1
METADATA_KEY = "nmt"
PARAMS_PREFIX = "params/"
OPTIMIZER_PREFIX = "optimizer/"
CARRIED_PREFIX = "carried/"


def load_folder_config(folder: Path) -> Config:
    """Read the settings a model was trained with.

    Raises:
        CheckpointError: The folder is missing or was not written by nmt-train.
        ConfigError: config.yaml was changed into something impossible.
    """
    from nmt.config import load_config

    if not folder.is_dir():
        fact = "a file" if folder.exists() else "nothing there"
        raise CheckpointError(f"{folder}: must be a folder that nmt-train wrote, got {fact}; check the path")
    if not (folder / CONFIG_NAME).is_file():
        raise CheckpointError(
            f"{folder}: must be a folder that nmt-train wrote, got one without {CONFIG_NAME}; "
            "give the model_dir of a config"
        )
    return load_config(folder / CONFIG_NAME)


def subword_names(*, joint: bool) -> tuple[str, str]:
    """Return the file names of the source's and the target's subwords."""
    if joint:
        return SUBWORD_NAMES["joint"], SUBWORD_NAMES["joint"]
    return SUBWORD_NAMES["src"], SUBWORD_NAMES["tgt"]


def load_subwords(folder: Path, *, joint: bool) -> tuple[Subwords, Subwords]:
    """Read the subwords of both languages; with `joint` the two are one object.

    Raises:
        CheckpointError: A file is missing or not a subword model.
    """
    src_name, tgt_name = subword_names(joint=joint)
    src = _load_subword_file(folder / src_name)
    return src, (src if joint else _load_subword_file(folder / tgt_name))


def save_subwords(folder: Path, src: Subwords, tgt: Subwords, *, joint: bool) -> None:
    """Write the subwords of both languages, each aside and renamed."""
    src_name, tgt_name = subword_names(joint=joint)
    try:
        write_bytes(folder / src_name, src.model_bytes, sync=True)
        if not joint:
            write_bytes(folder / tgt_name, tgt.model_bytes, sync=True)
    except OSError as error:
        raise CheckpointError(
            f"{folder}: subwords must be written here, got {explain(error)}; make room and run again"
        ) from error


def subwords_digest(src: Subwords, tgt: Subwords) -> str:
    """Return a fingerprint of both models: a checkpoint's ids mean nothing with other subwords."""
    return hashlib.sha256(src.model_bytes + b"\0" + tgt.model_bytes).hexdigest()


def build_model(
    config: Config,
    src_vocab_size: int,
    tgt_vocab_size: int,
    compute_dtype: str | None = None,
    device: Device | None = None,
) -> Any:
    """Return the configured model, a `TranslationModel` or with task: lm a `LanguageModel`, its parameters not yet set.
    Here Numba comes in.

    compute_dtype: Instead of the configured one. device: Where it computes; None for the processor.
    """
    options: dict[str, Any] = {
        "compute_dtype": compute_dtype or config.compute_dtype,
        "recompute": config.training.recompute,
        "device": device,
    }
    if config.task == "lm":
        from nmt.model.language import LanguageModel

        return LanguageModel(config.model, tgt_vocab_size, **options)
    from nmt.model.translation import TranslationModel

    return TranslationModel(config.model, src_vocab_size, tgt_vocab_size, config.data.subwords.joint, **options)


def read_checkpoint(path: Path, prefix: str = "") -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read the tensors whose names start with `prefix`, and the metadata.

    Returns:
        Tensors by their name in the file, each with memory of its own; what `save_checkpoint` was
        told.

    Raises:
        CheckpointError: The file is missing, cut short, damaged, or not one of ours.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise CheckpointError(f"{path}: must be a checkpoint that nmt-train wrote, got no such file")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = _parse_metadata(path, file.metadata())
            names = [name for name in file.keys() if name.startswith(prefix)]
            tensors = {name: np.array(file.get_tensor(name)) for name in names}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path}: must be a whole checkpoint, got a damaged or cut file ({explain(error)}); "
            "put back a copy, or remove it"
        ) from error
    checksums = metadata.get("checksums", {})
    for name, tensor in tensors.items():
        if checksums.get(name) != tensor_checksum(tensor):
            raise CheckpointError(
                f"{path}: must be a whole checkpoint, got other bytes than were written in {name}; "
                "put back a copy, or remove it"
            )
    return tensors, metadata


def set_params(model: Network, tensors: dict[str, np.ndarray], path: Path) -> None:
    """Copy the parameters in `tensors` (names with their prefix) into those of a model.

    Raises:
        CheckpointError: The model has other parameters or shapes than the checkpoint.
    """
    params = model.params
    saved = {name.removeprefix(PARAMS_PREFIX): tensor for name, tensor in tensors.items()}
    for name in sorted(params.keys() | saved.keys()):
        want = params[name].shape if name in params else None
        got = saved[name].shape if name in saved else None
        if want != got:
            raise CheckpointError(
                f"{path}: {name} must have the shape {want} that {CONFIG_NAME} asks for, got "
                f"{got}; undo the change of the model section or use another model_dir"
            )
    for name, param in params.items():
        param[...] = model.device.upload(saved[name])
    model.changed()


def tensor_checksum(tensor: np.ndarray) -> int:
    """Return the CRC-32 of an array: safetensors notices missing bytes, but not changed ones."""
    return zlib.crc32(np.ascontiguousarray(tensor).reshape(-1).view(np.uint8).data)


def _parse_metadata(path: Path, raw: dict[str, str] | None) -> dict[str, Any]:
    try:
        metadata: dict[str, Any] = json.loads((raw or {})[METADATA_KEY])
        version = int(metadata["format_version"])
    except (KeyError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"{path}: must be a checkpoint that nmt-train wrote, got another safetensors file"
        ) from error
    if version != FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: must have checkpoint format {FORMAT_VERSION}, got {version}; use the version of nmt that wrote it"
        )
    return metadata


def _load_subword_file(path: Path) -> Subwords:
    from nmt.data.subwords import Subwords

    if not path.is_file():
        raise CheckpointError(
            f"{path}: must be the subwords the model was trained with, got no such file; "
            "put the file back (it lies beside every copy of the model)"
        )
    try:
        return Subwords.from_bytes(path.read_bytes())
    except (OSError, DataError) as error:
        raise CheckpointError(
            f"{path}: must be a subword model, got a damaged file ({explain(error)}); put back a copy"
        ) from error
