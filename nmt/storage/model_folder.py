"""The folder that `nmt-train` writes and `Translator` reads: the names of its files, and functions that read them.

config.yaml         the resolved settings; their presence marks a model folder. Checkpoints contain them too: those that
                    decide what parameters mean must not be edited here (see `trained_settings`)
joint.spm           the subwords (src.spm and tgt.spm if the languages do not share them): a sentencepiece model,
                    or the vocabulary of an imported model
last.safetensors    parameters, optimizer and position: what a resumed run needs
former.safetensors  the previous one: a resumed run uses it if last.safetensors is damaged
best.safetensors    the parameters with the best validation: what translating needs
best-8000.safetensors, last-8000.safetensors
                    the next best and the newest parameters, numbered by update, as many as the settings keep
shortlist.safetensors
                    likely translations of each word, if nmt-shortlist has learned them
confidence.safetensors
                    what the validation text has taught about translations of the best parameters
.begun              a run started here and has not saved last.safetensors yet: an existing best checkpoint is from
                    that run
train.log           the lines printed on the terminal, with times
metrics.jsonl       the same events as one JSON object a line
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import CheckpointError, DataError, ShapeError
from nmt.rnn.arrays.weights import Quantised
from nmt.storage.tensor_file import map_tensors, tensors_made_with, write_tensors
from nmt.system.files import explain, write_bytes, writing
from nmt.system.paths import RUNS, absent, exists, is_file, is_folder, kind, shown

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.calibration import Calibration
    from nmt.data.tokens.subwords import Subwords
    from nmt.decode.rules.options import Shortlist
    from nmt.model.network import Network
    from nmt.rnn.device import Device

CONFIG_NAME = "config.yaml"
CHECKPOINT_SUFFIX = ".safetensors"
LAST_NAME = f"last{CHECKPOINT_SUFFIX}"
FORMER_NAME = f"former{CHECKPOINT_SUFFIX}"
BEGUN_NAME = ".begun"
BEST_NAME = f"best{CHECKPOINT_SUFFIX}"
SHORTLIST_NAME = "shortlist.safetensors"
CONFIDENCE_NAME = "confidence.safetensors"
LOG_NAME = "train.log"
METRICS_NAME = "metrics.jsonl"
DATA_CHECK_NAME = "data_check.json"
SUBWORD_NAMES = {"joint": "joint.spm", "src": "src.spm", "tgt": "tgt.spm"}

PARAMS_PREFIX = "params/"
SCALES_SUFFIX = "#scales"
OPTIMIZER_PREFIX = "optimizer/"
RAW_PREFIX = "raw/"
"""The prefix of parameters that updates change, with training.ema_decay; PARAMS_PREFIX is that of their average."""


def check_folder(folder: Path) -> None:
    """Raise CheckpointError if a folder is missing or was not written by nmt-train."""
    if not exists(folder):
        raise CheckpointError(absent(folder, "file" if folder.suffix == ".nmt" else "folder"))
    if not is_folder(folder):
        raise CheckpointError(f"{folder}: must be a folder that nmt-train wrote, got {kind(folder)}; check the path")
    if not is_file(folder / CONFIG_NAME):
        near = (RUNS / folder / CONFIG_NAME, *sorted(folder.glob(f"*/{CONFIG_NAME}")))
        meant = next((one.parent for one in near if is_file(one)), None)
        advice = f"did you mean {shown(meant)}?" if meant else "give the model_dir of a config"
        raise CheckpointError(
            f"{folder}: must be a folder that nmt-train wrote, got one without {CONFIG_NAME}; {advice}"
        )


def load_folder_config(folder: Path) -> Config:
    """Return the settings a model was trained with. Raises CheckpointError or, for impossible ones, ConfigError."""
    from nmt.config import load_config

    check_folder(folder)
    return load_config(folder / CONFIG_NAME, trained=True)


def subword_names(*, joint: bool) -> tuple[str, str]:
    """Return the file names of the source's and the target's subwords."""
    names = ("joint", "joint") if joint else ("src", "tgt")
    return SUBWORD_NAMES[names[0]], SUBWORD_NAMES[names[1]]


def load_subwords(
    folder: Path, *, joint: bool, digest: str | None = None, of: Path | None = None
) -> tuple[Subwords, Subwords]:
    """Return the subwords of both languages; with `joint` the two are one object. `digest`: the expected one, of the
    checkpoint `of`, checked before bytes are parsed. Raises CheckpointError."""
    from nmt.data.tokens.factors import read_subwords

    paths = dict.fromkeys(folder / name for name in subword_names(joint=joint))  # with `joint` a single one
    contents = {path: _read_subwords(path) for path in paths}
    both = list(contents.values())
    if of is not None and digest != _digest(both[0], both[-1]):
        raise CheckpointError(
            f"{of}: must have been trained with the subwords next to it, got others; "
            "restore the .spm files that belong to it"
        )
    found = []
    for path, content in contents.items():
        try:
            found.append(read_subwords(content))
        except DataError as error:
            raise CheckpointError(
                f"{path}: must be a subword model, got a damaged file ({explain(error)}); restore a copy"
            ) from error
    return found[0], found[-1]


def save_subwords(folder: Path, src: Subwords, tgt: Subwords, *, joint: bool) -> None:
    """Write the subwords of both languages, each to a temporary file that is then renamed."""
    src_name, tgt_name = subword_names(joint=joint)
    for name, subwords in {tgt_name: tgt, src_name: src}.items():
        with writing(folder / name):
            write_bytes(folder / name, subwords.model_bytes, sync=True)


def subwords_digest(src: Subwords, tgt: Subwords) -> str:
    """Return a fingerprint of both models: a checkpoint's ids mean nothing with other subwords."""
    return _digest(src.model_bytes, tgt.model_bytes)


def _digest(src: bytes, tgt: bytes) -> str:
    return hashlib.sha256(src + b"\0" + tgt).hexdigest()


def build_model(
    config: Config,
    src_vocab_size: int,
    tgt_vocab_size: int,
    compute_dtype: str | None = None,
    device: Device | None = None,
    *,
    src_factor_sizes: Sequence[int] = (),
) -> Any:
    """Return the configured model with its parameters not yet set. This imports Numba. compute_dtype: in place of the
    configured one. device: None for the processor. src_factor_sizes: values of each factor of the source."""
    from nmt.model.translation import TranslationModel
    from nmt.rnn.devices import resolved_dtype

    return TranslationModel(
        config.model,
        src_vocab_size,
        tgt_vocab_size,
        compute_dtype=resolved_dtype(compute_dtype or config.compute_dtype, device),
        recompute=config.training.recompute,
        device=device,
        src_factor_sizes=src_factor_sizes,
    )


def read_checkpoint(path: Path, prefix: str = "") -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the tensors whose names start with `prefix`, in memory of their own, and the content that
    `save_checkpoint` was given. Raises CheckpointError."""
    tensors, content = map_tensors(path, prefix)
    return {name: array.copy() for name, array in tensors.items()}, content


def quantised_tensors(name: str, matrix: Quantised) -> dict[str, np.ndarray]:
    """Return the tensors that store the parameter `name` in int8: the numbers under its name, and the scales of its
    output channels. The layout is that of no particular processor: such a layout is made when a model is loaded."""
    return {PARAMS_PREFIX + name: matrix.numbers, PARAMS_PREFIX + name + SCALES_SUFFIX: matrix.scales}


def _joined(model: Network, tensors: dict[str, np.ndarray], path: Path) -> dict[str, np.ndarray | Quantised]:
    """Return parameters by name, with int8 numbers and their scales combined again."""
    found: dict[str, np.ndarray | Quantised] = {}
    for key, tensor in tensors.items():
        name = key.removeprefix(PARAMS_PREFIX)
        if key.endswith(SCALES_SUFFIX) and tensors.get(key.removesuffix(SCALES_SUFFIX)) is not None:
            continue
        found[name] = tensor
        if tensor.dtype == np.int8:
            scales, by_rows = tensors.get(key + SCALES_SUFFIX), model.channels_are_rows(name)
            want = None if tensor.ndim != 2 else tensor.shape[:1] if by_rows else tensor.shape[1:]
            if scales is None or scales.shape != want or scales.dtype != np.float32:
                raise CheckpointError(
                    f"{path}: {name} must be a matrix in int8 with a float32 scale for each output channel, got "
                    f"others; restore a copy, or run nmt-quantize again"
                )
            found[name] = Quantised(tensor, scales, by_rows)
        elif tensor.dtype.kind != "f":
            raise CheckpointError(f"{path}: {name} must be of float32 or int8, got {tensor.dtype}; restore a copy")
    return found


def numbered_checkpoint(folder: Path, kind: str, update: int) -> Path:
    """Return the file of a numbered checkpoint, `best` or `last`."""
    return folder / f"{kind}-{update}.safetensors"


def numbered_checkpoints(folder: Path, kind: str) -> list[Path]:
    """Return the existing numbered checkpoints of a kind, the newest first."""
    found = {path: re.fullmatch(rf"{kind}-(\d+)\.safetensors", path.name) for path in folder.glob(f"{kind}-*")}
    updates = {path: int(match[1]) for path, match in found.items() if match}
    return sorted(updates, key=lambda path: -updates[path])


def find_checkpoint(folder: Path, checkpoint: str | None = None) -> Path:
    """Return the requested checkpoint, such as `best-600`, or the best, or the last. Raises CheckpointError."""
    there = checkpoint_names(folder)
    for name in [checkpoint] if checkpoint is not None else ["best", "last"]:
        if name in there:
            return folder / f"{name}{CHECKPOINT_SUFFIX}"
    if checkpoint is None or not there:
        raise CheckpointError(
            f"{folder}: must contain {BEST_NAME} or {LAST_NAME}, got neither; train it first (nmt-train)"
        )
    raise CheckpointError(
        f"{folder}: must contain {checkpoint}{CHECKPOINT_SUFFIX} for the checkpoint {checkpoint}, got "
        f"{', '.join(there)}; name one of these, or none"
    )


def checkpoint_names(folder: Path) -> list[str]:
    """Return the names of the existing checkpoints: `best`, `last`, and numbered ones, the newest first."""
    names = [path.stem for path in (folder / BEST_NAME, folder / LAST_NAME) if is_file(path)]
    return names + [path.stem for kind in ("best", "last") for path in numbered_checkpoints(folder, kind)]


def model_files(place: Path) -> list[Path]:
    """Return the files of a model, which is a folder or one file; an empty list if it does not exist."""
    if not is_folder(place):
        return [place] if is_file(place) else []
    names = (CONFIG_NAME, LOG_NAME, METRICS_NAME, *SUBWORD_NAMES.values())
    return [*(path for name in names if is_file(path := place / name)), *place.glob(f"*{CHECKPOINT_SUFFIX}")]


def set_params(model: Network, tensors: dict[str, np.ndarray], path: Path, *, adopt: bool = False) -> None:
    """Copy the parameters in `tensors` (names with their prefix) into those of a model; `adopt`: it uses the arrays
    themselves where it can. Raises CheckpointError: The model has other parameters or shapes."""
    params = model.params
    saved = _joined(model, tensors, path)
    for name in sorted(params.keys() | saved.keys()):
        want = list(params[name].shape) if name in params else None
        got = list(saved[name].shape) if name in saved else None
        if want == got:
            continue
        if want is None:
            line = f"must contain exactly the parameters that the settings require, got {name!r:.80} {got} too"
        elif got is None:
            line = f"must contain {name} {want}, which the settings require, got no such parameter"
        else:
            line = f"must contain {name} as {want}, which the settings require, got {got}"
        raise CheckpointError(f"{path}: {line}; restore the settings, or the cell's code, that it was trained with")
    if adopt:
        model.adopt(saved)
        return
    for name, param in params.items():
        value = saved[name]
        param[...] = model.device.upload(value.restored() if isinstance(value, Quantised) else value)
    model.changed()


def _read_subwords(path: Path) -> bytes:
    """Return the bytes of a subword model. Raises CheckpointError."""
    if not is_file(path):
        raise CheckpointError(
            f"{path}: no such file, the subwords of the model; restore it (every copy of the model has it)"
        )
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path}: must be readable, got {explain(error)}; restore a copy") from error


def save_tensors(path: Path, tensors: dict[str, np.ndarray], content: dict[str, Any]) -> None:
    """Write a calibration or shortlist and its metadata, such as the digest of its subwords. Raises CheckpointError."""
    with writing(path):
        write_tensors(path, tensors, content)


_CONFIDENCE_PREFIX = "confidence/"
_TYPES: dict[str, Any] = dict.fromkeys(("units", "words", "pairs"), np.uint32)
_TYPES |= {"sizes": np.uint8, "weights": np.float64, "about": np.float64}


def confidence_tensors(calibration: Calibration) -> dict[str, np.ndarray]:
    """Return the arrays of a calibration by their names in a file."""
    arrays = {name: getattr(calibration, name) for name in _TYPES if name != "about"}
    arrays["about"] = np.array([calibration.usual, calibration.least])
    return {_CONFIDENCE_PREFIX + name: array for name, array in arrays.items()}


def calibration_from(tensors: dict[str, np.ndarray], where: Path) -> Calibration | None:
    """Return the calibration of `confidence_tensors`, None without one. Raises CheckpointError, which names `where`."""
    from nmt.data.calibration import FEATURES, Calibration

    own = {
        name.removeprefix(_CONFIDENCE_PREFIX): array
        for name, array in tensors.items()
        if name.startswith(_CONFIDENCE_PREFIX)
    }
    if not own:
        return None
    fit = {name: array.dtype for name, array in own.items()} == _TYPES and len(own["units"]) == len(own["sizes"]) > 0
    numbers = np.concatenate([own.get(name, np.full(1, np.nan)).reshape(-1) for name in ("weights", "about")])
    if not fit or not np.isfinite(numbers).all() or len(own["weights"]) != FEATURES or len(numbers) != FEATURES + 2:
        raise CheckpointError(
            f"{where}: must contain a calibration of confidence, got other arrays; restore a copy, or remove it"
        )
    usual, least = own.pop("about").tolist()
    return Calibration(**own, usual=usual, least=least)


def load_calibration(path: Path, digest: str) -> Calibration | None:
    """Return the calibration made with these subwords, or None if there is no file. Raises CheckpointError."""
    return calibration_from(tensors_made_with(path, digest, "restore a copy, or remove it"), path)


_SHORTLIST_PREFIX = "shortlist/"


def shortlist_tensors(shortlist: Shortlist) -> dict[str, np.ndarray]:
    """Return the arrays of a shortlist by their names in a file."""
    arrays = {"starts": shortlist.starts.astype(np.int64), "tokens": shortlist.tokens, "always": shortlist.always}
    return {_SHORTLIST_PREFIX + name: array for name, array in arrays.items()}


def shortlist_from(tensors: dict[str, np.ndarray], vocab_size: int, where: Path) -> Shortlist | None:
    """Return the shortlist of `shortlist_tensors`, None without one. Raises CheckpointError, which names `where`."""
    if not any(name.startswith(_SHORTLIST_PREFIX) for name in tensors):
        return None
    from nmt.decode.rules.options import Shortlist

    try:
        starts, tokens, always = (tensors[_SHORTLIST_PREFIX + name] for name in ("starts", "tokens", "always"))
        if [a.dtype for a in (starts, tokens, always)] != [np.int64, np.int32, np.int32] or starts.ndim != 1:
            raise ShapeError("other arrays")
        return Shortlist(starts, tokens.reshape(-1), always.reshape(-1), vocab_size)
    except (KeyError, ShapeError) as error:
        raise CheckpointError(
            f"{where}: must contain a shortlist for a vocabulary of {vocab_size}, got another one; make it again with "
            "nmt-shortlist"
        ) from error


def load_shortlist(path: Path, vocab_size: int, digest: str) -> Shortlist | None:
    """Return the shortlist made for these subwords, or None if there is no file. Raises CheckpointError."""
    tensors = tensors_made_with(path, digest, "make it again with nmt-shortlist, or remove it")
    return shortlist_from(tensors, vocab_size, path)
