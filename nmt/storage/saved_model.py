"""Load and save complete models: a folder that nmt-train wrote, or a single file that nmt-bundle makes of it."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import CheckpointError, DataError, NMTWarning
from nmt.model.parts.cells import AFTER_AN_EDIT, check_allowed, edited_cells, import_allowed_cells
from nmt.storage import model_folder
from nmt.storage.tensor_file import MappedFile, map_tensors, mapped_file, tensor_checksum, write_tensors
from nmt.storage.trained_settings import check_settings, flat_settings
from nmt.system.files import new_folder, write_bytes, writing
from nmt.system.paths import check_new_folder, exists, is_file, named

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.calibration import Calibration
    from nmt.data.tokens.subwords import Subwords
    from nmt.decode import Shortlist
    from nmt.rnn.device import Device

BUNDLE_SUFFIX = ".nmt"
_KIND = "bundle"
_SUBWORDS_PREFIX = "subwords/"
_KEPT = ("quantization", "averaged", "cells", "seen")
"""Further keys of a checkpoint's content that a bundle keeps."""
QUANTIZATION = {bits: {"numbers": f"int{bits}", "layout": 1} for bits in (8, 4)}
"""A checkpoint's description of its quantised tensors by their bits: matrices in the layout of float32, with a scale
for each output channel. Numbers in 4 bits are read as int8."""
_SIZES = "hidden_size", "embedding_dim", "attention_size", "readout_size"


@dataclass(frozen=True)
class ModelFacts:
    """Everything that the files of a model contain except its parameters. `path`: the checkpoint or bundle; `content`:
    its other metadata; `cells`: the modules whose cells the user allows."""

    path: Path
    config: Config
    src_subwords: Subwords
    tgt_subwords: Subwords
    content: dict[str, Any]
    shortlist: Shortlist | None
    cells: tuple[str, ...] = ()
    calibration: Calibration | None = None

    @property
    def settings_path(self) -> Path:
        """Return the file that the settings come from."""
        return self.path if self.content.get("kind") == _KIND else self.path.parent / model_folder.CONFIG_NAME

    @property
    def digest(self) -> str:
        """Return a fingerprint of everything that translations depend on: parameters, subwords, sizes, text cleaning,
        shortlist; it is the same for a folder and the file made from it."""
        data = self.config.data
        parts: list[Any] = [
            sorted(
                item for item in self.content["checksums"].items() if item[0].startswith(model_folder.PARAMS_PREFIX)
            ),
            model_folder.subwords_digest(self.src_subwords, self.tgt_subwords),
            ["translation", self.config.model.to_dict()],
            [[side.lowercase, side.normalize] for side in (data.src, data.tgt)],
        ]
        tensors = {} if self.shortlist is None else model_folder.shortlist_tensors(self.shortlist)
        parts += [[name, tensor_checksum(array)] for name, array in sorted(tensors.items())]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def seen(self) -> str:
        """Return fingerprints of its training text (see `share_seen`); empty if there are none."""
        return str(self.content.get("state", {}).get("seen") or self.content.get("seen") or "")

    @property
    def in_4_bits(self) -> bool:
        """Return whether its files store numbers in 4 bits."""
        return self.content.get("quantization") == QUANTIZATION[4]

    @property
    def scores(self) -> dict[str, Any]:
        """Return the best validation scores of its training by metric, and the number of its update as `update`."""
        state, bundled = self.content.get("state", {}), self.content.get("scores") or {}
        update = state.get("best_update") or state.get("update") or bundled.get("update")
        return {**(state.get("best_scores") or bundled), "update": update}


@dataclass(frozen=True, kw_only=True)
class LoadedModel(ModelFacts):
    """A model in memory, made from files that were opened once. `network`: a `TranslationModel`; `parameters`: the
    count of numbers in its files; `mapped`: the file whose bytes the network uses, None if they were read."""

    network: Any
    parameters: int
    mapped: MappedFile | None

    def reopened(self, **changes: Any) -> SavedModel:
        """Return the model as its file has it, but for these facts. Raises CheckpointError for other parameters."""
        params, content = map_tensors(self.path, model_folder.PARAMS_PREFIX)
        if content["checksums"] != self.content["checksums"]:
            raise CheckpointError(f"{self.path}: must have the parameters of the model, got others; load it again")
        return SavedModel(**{one.name: getattr(self, one.name) for one in fields(ModelFacts)} | changes, params=params)


@dataclass(frozen=True, kw_only=True)
class SavedModel(ModelFacts):
    """A model as its files contain it. `params`: by name with PARAMS_PREFIX, views of the file."""

    params: dict[str, np.ndarray]

    @property
    def parameters(self) -> int:
        """Return the count of its parameters; scales of int8 are none."""
        return sum(array.size for name, array in self.params.items() if not name.endswith(model_folder.SCALES_SUFFIX))

    def build(self, compute_dtype: str | None = None, device: Device | None = None) -> Any:
        """Return the model (see `build_model`) with its parameters, on the processor memory-mapped. This alone imports
        cells named by dotted path, if they are allowed. Raises CheckpointError, ConfigError."""
        import_allowed_cells(self.config, self.cells, str(self.settings_path))
        try:
            model = model_folder.build_model(
                self.config,
                self.src_subwords.vocab_size,
                self.tgt_subwords.vocab_size,
                compute_dtype,
                device,
                src_factor_sizes=self.src_subwords.factor_sizes,
            )
        except MemoryError as error:
            raise CheckpointError(
                f"{self.path}: must contain a model of the sizes in its settings, got sizes larger than any memory; "
                "restore a copy"
            ) from error
        model_folder.set_params(model, self.params, self.path, adopt=True)
        for cell in edited_cells(self.config, self.content.get("cells", {})):
            text = f"{self.path}: {cell} has been edited since the training; {AFTER_AN_EDIT}"
            warnings.warn(text, NMTWarning, stacklevel=2)
        return model

    def load(self, compute_dtype: str | None = None, device: Device | None = None) -> LoadedModel:
        """Return the model in memory; arguments and errors are those of `build`."""
        facts = {one.name: getattr(self, one.name) for one in fields(ModelFacts)}
        network = self.build(compute_dtype, device)
        return LoadedModel(**facts, network=network, parameters=self.parameters, mapped=mapped_file(self.path))


def load_saved_model(path: str | Path, checkpoint: str | None = None, *, cells: Sequence[str] = ()) -> SavedModel:
    """Read a model folder, or a file of nmt-bundle. `checkpoint`: of a folder, such as `last` or `best-600`; None takes
    the best, or the last if there is no best yet; `cells`: names of modules whose cells may be imported when it is
    built. Raises CheckpointError: It is missing or damaged, or its parts do not fit one another. Raises ConfigError:
    Its settings were changed into something impossible, or `cells` are not names."""
    allowed = check_allowed(cells)
    path = named(path, "the model")
    saved = _read_bundle(path, checkpoint) if is_file(path) else _read_folder(path, checkpoint)
    saved = replace(saved, cells=allowed)
    _check_sizes(saved)
    return saved


def save_bundle(path: Path, saved: SavedModel) -> None:
    """Write a model as one new file. Raises CheckpointError: The file exists already, or cannot be written."""
    if exists(path):
        raise CheckpointError(f"{path}: must be a new file, got one that is there; remove it, or choose another name")
    joint = saved.config.data.subwords.joint
    texts = {"joint": saved.src_subwords} if joint else {"src": saved.src_subwords, "tgt": saved.tgt_subwords}
    tensors = dict(saved.params)
    tensors |= {_SUBWORDS_PREFIX + k: np.frombuffer(v.model_bytes, np.uint8) for k, v in texts.items()}
    if saved.shortlist is not None:
        tensors |= model_folder.shortlist_tensors(saved.shortlist)
    if saved.calibration is not None:
        tensors |= model_folder.confidence_tensors(saved.calibration)
    state = saved.content.get("state", {})
    content = {
        "kind": _KIND,
        "config": saved.config.to_dict(),
        "subwords": model_folder.subwords_digest(saved.src_subwords, saved.tgt_subwords),
        "scores": saved.content.get("scores") or {"update": state.get("best_update"), **state.get("best_scores", {})},
        **{key: saved.content[key] for key in _KEPT if key in saved.content},
        "seen": saved.seen,
    }
    with writing(path):
        write_tensors(path, tensors, content, in_4_bits=saved.in_4_bits)


def save_folder(out: Path, saved: SavedModel, **changes: Any) -> None:
    """Write a model as a new folder, which appears only when it is complete; `changes`: of settings in config.yaml.
    Raises CheckpointError: `out` contains something already, or cannot be written."""
    from nmt.config import dump_config

    check_new_folder(out)
    src, tgt, config = saved.src_subwords, saved.tgt_subwords, saved.config
    digest = model_folder.subwords_digest(src, tgt)
    content: dict[str, Any] = {key: saved.content[key] for key in ("state", "scores", *_KEPT) if key in saved.content}
    content |= {"subwords": digest, "config": config.to_dict()}
    with writing(out), new_folder(out) as folder:
        model_folder.save_subwords(folder, src, tgt, joint=config.data.subwords.joint)
        if saved.shortlist is not None:
            tensors = model_folder.shortlist_tensors(saved.shortlist)
            model_folder.save_tensors(folder / model_folder.SHORTLIST_NAME, tensors, {"subwords": digest})
        if saved.calibration is not None:
            tensors = model_folder.confidence_tensors(saved.calibration)
            model_folder.save_tensors(folder / model_folder.CONFIDENCE_NAME, tensors, {"subwords": digest})
        write_tensors(folder / model_folder.BEST_NAME, saved.params, content, in_4_bits=saved.in_4_bits)
        own = config.model_copy(update={"model_dir": str(out), **changes})
        write_bytes(folder / model_folder.CONFIG_NAME, dump_config(own).encode(), sync=True)


def _read_folder(folder: Path, checkpoint: str | None) -> SavedModel:
    """Read a folder that nmt-train wrote; see `load_saved_model`."""
    config = model_folder.load_folder_config(folder)
    path = model_folder.find_checkpoint(folder, checkpoint)
    params, content = map_tensors(path, model_folder.PARAMS_PREFIX)
    check_settings(folder / model_folder.CONFIG_NAME, config, path, content)
    digest = content.get("subwords")
    src, tgt = model_folder.load_subwords(folder, joint=config.data.subwords.joint, digest=digest, of=path)
    shortlist = model_folder.load_shortlist(folder / model_folder.SHORTLIST_NAME, tgt.vocab_size, str(digest))
    calibration = model_folder.load_calibration(folder / model_folder.CONFIDENCE_NAME, str(digest))
    return SavedModel(path, config, src, tgt, content, shortlist, calibration=calibration, params=params)


def _read_bundle(path: Path, checkpoint: str | None) -> SavedModel:
    """Read a file of nmt-bundle; see `load_saved_model`."""
    from nmt.config import config_from_dict

    try:
        tensors, content = map_tensors(path)
    except CheckpointError as error:
        if path.suffix == BUNDLE_SUFFIX or isinstance(error.__cause__, OSError):
            raise
        raise CheckpointError(
            f"{path}: must be a model folder, or a file of nmt-bundle (NAME{BUNDLE_SUFFIX}), got another file; check "
            "the path"
        ) from error
    if content.get("kind") != _KIND:
        raise CheckpointError(
            f"{path}: must be a model folder or a file of nmt-bundle, got a checkpoint; give its folder"
        )
    if checkpoint not in (None, Path(model_folder.BEST_NAME).stem):
        raise CheckpointError(f"{path}: must be a model folder for --checkpoint {checkpoint}, got a file; leave it out")
    values = content.get("config")
    config = config_from_dict(values if isinstance(values, dict) else {}, str(path), trained=True)
    joint = config.data.subwords.joint
    src = _subwords(tensors, "joint" if joint else "src", path)
    tgt = src if joint else _subwords(tensors, "tgt", path)
    params = {name: array for name, array in tensors.items() if name.startswith(model_folder.PARAMS_PREFIX)}
    shortlist = model_folder.shortlist_from(tensors, tgt.vocab_size, path)
    calibration = model_folder.calibration_from(tensors, path)
    return SavedModel(path, config, src, tgt, content, shortlist, calibration=calibration, params=params)


def _subwords(tensors: dict[str, np.ndarray], side: str, path: Path) -> Subwords:
    """Return the subwords of `joint`, `src` or `tgt` among a bundle's tensors. Raises CheckpointError."""
    from nmt.data.tokens.factors import read_subwords

    try:
        return read_subwords(tensors[_SUBWORDS_PREFIX + side].tobytes())
    except (KeyError, DataError) as error:
        raise CheckpointError(
            f"{path}: must contain the subwords of the model ({side}), got none that are readable; restore a copy"
        ) from error


def _check_sizes(saved: SavedModel) -> None:
    """Raise CheckpointError for sizes or layers that no such parameters have, before they cost memory or time."""
    most = {"num_layers": len(saved.params)}
    most |= dict.fromkeys(_SIZES, sum(array.size for array in saved.params.values()))
    for key, value in flat_settings(saved.config.model.to_dict(), "model."):
        if type(value) is int and value > most.get(key.rpartition(".")[2], value):
            raise CheckpointError(
                f"{saved.path}: must contain parameters for {key} {value}, got none that large; restore the settings "
                "that belong to it"
            )


def save_quantised(out: Path, saved: SavedModel, bits: int = 8) -> None:
    """Write a model as a new folder with its matrices in 8 or 4 `bits` and `compute_dtype: int8` in its settings; one
    that is in int8 already gives the same numbers again. Raises CheckpointError, as `save_folder`."""
    check_new_folder(out)
    content = {**saved.content, "quantization": QUANTIZATION[bits]}
    save_folder(out, replace(saved, params=_tensors(saved, bits), content=content), compute_dtype="int8")


def _tensors(saved: SavedModel, bits: int) -> dict[str, np.ndarray]:
    """Return all parameters as an int8 checkpoint stores them; parameters that are not matrices are unchanged."""
    from nmt.rnn.kernels.products.four_bits import quantise_to_4_bits

    weights = saved.build("int8").weights
    tensors: dict[str, np.ndarray] = {}
    for name in weights:
        held = weights.quantised(name)
        if held is not None and bits == 4:
            stored = saved.params[model_folder.PARAMS_PREFIX + name]
            matrix = stored if stored.dtype.kind == "f" else held.restored()
            held = quantise_to_4_bits(matrix, by_rows=held.by_rows)
        tensors |= (
            {model_folder.PARAMS_PREFIX + name: weights[name]}
            if held is None
            else model_folder.quantised_tensors(name, held)
        )
    return tensors
