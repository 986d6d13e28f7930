"""A new run that starts from another model: `training.load_model`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import CheckpointError, ConfigError
from nmt.storage.model_folder import CONFIG_NAME, LAST_NAME, PARAMS_PREFIX, load_folder_config, set_params
from nmt.storage.saved_model import SavedModel, load_saved_model
from nmt.storage.trained_settings import Difference, check_settings
from nmt.train.checkpoints.checkpoint import load_checkpoint, load_raw

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.tokens.subwords import Subwords
    from nmt.model.network import Network
    from nmt.train.updates.optimizer import Optimizer

_INHERITED = ("lowercase", "normalize")


def with_model_of_start(config: Config) -> Config:
    """Return the settings, where they do not say it with those of the model to start from that give its parameters
    their meaning; of a run that goes on with those that it began with.

    Args:
        config: As it was read: what a file leaves out is known only there.

    Raises:
        CheckpointError: There is no such model.
        ConfigError: Its settings and these do not go together.
    """
    from nmt.config import config_from_dict

    if config.training.load_model is None:
        return config
    folder = Path(config.model_dir)
    theirs = load_folder_config(folder) if (folder / LAST_NAME).exists() else _model_of(config).config
    sides = {name: {key: getattr(side, key) for key in _INHERITED} for name, side in _sides_of(theirs).items()}
    inherited = {
        "model": theirs.model.to_dict(),
        "data": {**sides, "subwords": {"joint": theirs.data.subwords.joint}},
    }
    own = config.model_dump(mode="json", exclude_unset=True)
    return config_from_dict(_over(inherited, own), "config, with the model of training.load_model")


def _sides_of(config: Config) -> dict[str, Any]:
    sides = {"src": config.data.src, "tgt": config.data.tgt}
    return sides if config.task == "translation" else {"tgt": config.data.tgt}


def _over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return settings with others above them, section by section."""
    merged = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], dict) and isinstance(above[key], dict):
            merged[key] = _over(below[key], above[key])
    return merged


def _model_of(config: Config) -> SavedModel:
    """Return the model to start from: a folder, or a file of nmt-bundle. Raises CheckpointError."""
    path, keeps = Path(str(config.training.load_model)), not config.training.reset_optimizer
    if keeps and path.is_file():
        raise CheckpointError(
            f"{path}: must be a model folder with training.reset_optimizer: false, got a file, which has no optimizer; "
            "set it to true"
        )
    return load_saved_model(path, "last" if keeps else None)


def check_start(config: Config) -> None:
    """Look at the model to start from before a corpus is read.

    Raises:
        CheckpointError: There is none, or its parameters mean something else with these settings; all that differ are
            named.
        ConfigError: The optimizer to be kept is another one, or the settings name subwords beside the model.
    """
    if config.training.load_model is None:
        return
    saved, settings = _model_of(config), config.data.subwords
    for key in ("model_file", "src_model_file", "tgt_model_file"):
        if getattr(settings, key):
            raise ConfigError(
                f"data.subwords.{key}: must be null with training.load_model, got a file; the model brings its subwords"
            )
    check_settings(Path("config"), config, saved.path, saved.content, partial(_learns_capitals, config))
    if any(array.dtype == np.int8 for array in saved.params.values()) and config.training.extend_vocabulary:
        raise ConfigError(
            f"training.extend_vocabulary: must be 0 with a model in int8, got {config.training.extend_vocabulary}; "
            "start from the model that nmt-quantize was given"
        )
    theirs = saved.config.training.optimizer
    if not config.training.reset_optimizer and theirs != config.training.optimizer:
        raise ConfigError(
            f"training.optimizer: must be {theirs}, as in {saved.path.parent / CONFIG_NAME}, to go on with its state, "
            f"got {config.training.optimizer}; or set training.reset_optimizer: true"
        )


def given_subwords(config: Config) -> tuple[Subwords, Subwords] | None:
    """Return the subwords of the model to start from; None where the settings name none.

    Raises:
        CheckpointError: There is no such model.
    """
    if config.training.load_model is None:
        return None
    saved = _model_of(config)
    found = saved.src_subwords, saved.tgt_subwords
    kind = saved.config.data.subwords.type
    return found if not config.training.extend_vocabulary else _extended(config, found, kind)


def _extended(config: Config, subwords: tuple[Subwords, Subwords], kind: str) -> tuple[Subwords, Subwords]:
    """Return subwords with units for the training text; the same twice where both sides share them."""
    from nmt.data.corpora.training_text import training_text
    from nmt.data.tokens.extension import extended

    data, most = config.data, config.training.extend_vocabulary
    every = (data.src, data.tgt) if config.task == "translation" else (data.tgt,)
    if data.subwords.joint:
        both = extended(subwords[0], lambda: training_text(data.train, every), most, kind)
        return both, both
    src, tgt = (
        extended(one, partial(training_text, data.train, (side,), every), most, kind)
        for one, side in zip(subwords, every, strict=True)
    )
    return src, tgt


def _with_new_units(
    tensors: dict[str, np.ndarray],
    model: Network,
    old: tuple[Subwords, Subwords],
    subwords: tuple[Subwords, Subwords],
) -> int:
    """Give tables, output matrix and bias of a checkpoint rows for units that it does not have; returns how many."""
    from nmt.data.tokens.extension import parts_of_new, with_means

    parts = {side: parts_of_new(one, other) for side, one, other in zip(("src", "tgt"), old, subwords, strict=True)}
    for name, side in {model.table(side): side for side in model.vocab_sizes}.items():
        tensors[PARAMS_PREFIX + name] = with_means(tensors[PARAMS_PREFIX + name], parts[side])
    for name in ("output.W", "output.b"):
        if (key := PARAMS_PREFIX + name) in tensors:
            tensors[key] = np.ascontiguousarray(with_means(tensors[key].T, parts["tgt"]).T)
    counts = {one.model_bytes: len(parts[side]) for side, one in zip(("src", "tgt"), subwords, strict=True)}
    return sum(counts.values())


def _learns_capitals(config: Config, difference: Difference) -> bool:
    """Return whether text that was lower-cased no longer is, and units with capitals are added for it. Units of
    lower-cased text mean the same in other text; the new ones start as the mean of their lower-cased text's."""
    return difference.matches("data.*.lowercase") and not difference.now and config.training.extend_vocabulary > 0


def start_from(config: Config, model: Network, optimizer: Optimizer, subwords: tuple[Subwords, Subwords]) -> str:
    """Put the parameters of the model to start from into a fresh one, and its optimizer's state where that is kept.

    Args:
        config: The settings, which `check_start` has looked at; load_model is given.
        model, optimizer: Changed in place.
        subwords: Of this run, which may have more units than that model's.

    Returns:
        What was done, in words.

    Raises:
        CheckpointError: There is no such checkpoint, or it is of a model with other settings.
    """
    saved, keeps = _model_of(config), not config.training.reset_optimizer
    tensors, path, added = dict(saved.params), saved.path, 0
    if config.training.extend_vocabulary:
        added = _with_new_units(tensors, model, (saved.src_subwords, saved.tgt_subwords), subwords)
    set_params(model, (load_raw(path) if keeps else {}) or tensors, path)
    if not keeps:
        how = f"; {added:,} units were added, each the mean of those it was cut into" if added else ""
        return f"starting from {path}, with a fresh optimizer{how}"
    _, state, metadata = load_checkpoint(path)
    try:
        optimizer.load_state_dict(state, metadata["optimizer"])
    except KeyError as error:
        raise CheckpointError(
            f"{path}: must hold the optimizer's state, got none of {error}; use reset_optimizer"
        ) from None
    return f"starting from {path}, with its optimizer"
