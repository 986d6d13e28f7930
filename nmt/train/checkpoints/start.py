"""A new run that starts from an existing model: `training.load_model`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nmt.config import Config, config_from_dict
from nmt.config.presets import merged
from nmt.errors import CheckpointError, ConfigError
from nmt.model.network import OUTPUT_BIAS, OUTPUT_MATRIX, Network
from nmt.storage.model_folder import CONFIG_NAME, LAST_NAME, PARAMS_PREFIX, load_folder_config, set_params
from nmt.storage.saved_model import SavedModel, load_saved_model
from nmt.storage.trained_settings import Difference, check_settings
from nmt.system.notices import Show, tell_nobody
from nmt.train.checkpoints.checkpoint import read_whole

if TYPE_CHECKING:
    from nmt.data.tokens.subwords import Subwords
    from nmt.train.updates.optimizer import Optimizer

_INHERITED = ("lowercase", "normalize")


def with_model_of_start(config: Config) -> Config:
    """Return the settings, with those that give the parameters their meaning filled in from the model to start from,
    unless they are set. A resumed run takes them from its own folder. Raises CheckpointError if there is no such model,
    and ConfigError if its settings conflict with these. `config`: the settings as read from the file, so that it is
    known which of them the file omits."""
    if config.training.load_model is None:
        return config
    folder = Path(config.model_dir)
    theirs = load_folder_config(folder) if (folder / LAST_NAME).exists() else _model_of(config).config
    sides = {name: {key: getattr(getattr(theirs.data, name), key) for key in _INHERITED} for name in ("src", "tgt")}
    inherited = {"model": theirs.model.to_dict(), "data": {**sides, "subwords": {"joint": theirs.data.subwords.joint}}}
    own = config.model_dump(mode="json", exclude_unset=True)
    return config_from_dict(merged(inherited, own), "config, with the model of training.load_model")


def _model_of(config: Config) -> SavedModel:
    """Return the model to start from: a folder, or a file written by nmt-bundle. Raises CheckpointError."""
    path, keeps = Path(str(config.training.load_model)), not config.training.reset_optimizer
    if keeps and path.is_file():
        raise CheckpointError(
            f"{path}: must be a model folder with training.reset_optimizer: false, got a file, which has no optimizer; "
            "set it to true"
        )
    return load_saved_model(path, "last" if keeps else None)


def check_start(config: Config, notify: Show = tell_nobody) -> None:
    """Check the model to start from before a corpus is read. `notify` receives a warning if its languages are others.
    Raises CheckpointError, which names all settings that differ: There is none, or they give its parameters another
    meaning. Raises ConfigError: The optimizer to be kept is of another type, or the settings name a subword model."""
    if config.training.load_model is None:
        return
    saved, settings = _model_of(config), config.data.subwords
    for key in ("model_file", "src_model_file", "tgt_model_file"):
        if getattr(settings, key):
            raise ConfigError(
                f"data.subwords.{key}: must be null with training.load_model, got a file; the model brings its subwords"
            )
    check_settings(Path("config"), config, saved.path, saved.content, partial(_adds_capitals, config))
    if any(array.dtype == np.int8 for array in saved.params.values()):
        made_of = saved.content.get("config", {}).get("model_dir")
        which = f", which was trained in {made_of}" if made_of else ""
        raise CheckpointError(
            f"{saved.path}: must be a model in float32 to train it further, got one in int8; name the model that "
            f"nmt-quantize was given{which}, as training.load_model"
        )
    _tell_languages(config, saved, notify)
    theirs = saved.config.training.optimizer
    if not config.training.reset_optimizer and theirs != config.training.optimizer:
        raise ConfigError(
            f"training.optimizer: must be {theirs}, as in {saved.path.parent / CONFIG_NAME}, to go on with its state, "
            f"got {config.training.optimizer}; or set training.reset_optimizer: true"
        )


def given_subwords(config: Config) -> tuple[Subwords, Subwords] | None:
    """Return the subwords of the model to start from, None if none is named. Raises CheckpointError if it is none."""
    if config.training.load_model is None:
        return None
    saved = _model_of(config)
    found = saved.src_subwords, saved.tgt_subwords
    kind = saved.config.data.subwords.type
    return found if not config.training.extend_vocabulary else _extended(config, found, kind)


def _extended(config: Config, subwords: tuple[Subwords, Subwords], kind: str) -> tuple[Subwords, Subwords]:
    """Return the subwords, extended by tokens for the training text; the same object twice if both sides share them."""
    from nmt.data.corpora.prepare import training_text
    from nmt.data.tokens.extension import extended

    data, most = config.data, config.training.extend_vocabulary
    every = data.src, data.tgt
    if data.subwords.joint:
        both = extended(subwords[0], lambda: training_text(data.train, every), most, kind)
        return both, both
    src, tgt = (
        extended(one, partial(training_text, data.train, (side,), every), most, kind)
        for one, side in zip(subwords, every, strict=True)
    )
    return src, tgt


def _with_new_units(
    tensors: dict[str, np.ndarray], model: Network, old: tuple[Subwords, Subwords], subwords: tuple[Subwords, Subwords]
) -> int:
    """Add rows for new tokens to the embedding tables, output matrix and bias of a checkpoint; return their number."""
    from nmt.data.tokens.extension import parts_of_new, with_means

    parts = {side: parts_of_new(one, other) for side, one, other in zip(("src", "tgt"), old, subwords, strict=True)}
    for name, side in {model.table(side): side for side in model.vocab_sizes}.items():
        tensors[PARAMS_PREFIX + name] = with_means(tensors[PARAMS_PREFIX + name], parts[side])
    for name in (OUTPUT_MATRIX, OUTPUT_BIAS):
        if (key := PARAMS_PREFIX + name) in tensors:
            tensors[key] = np.ascontiguousarray(with_means(tensors[key].T, parts["tgt"]).T)
    counts = {one.model_bytes: len(parts[side]) for side, one in zip(("src", "tgt"), subwords, strict=True)}
    return sum(counts.values())


def _adds_capitals(config: Config, difference: Difference) -> bool:
    """Return whether the old model lower-cased its text, this run does not, and tokens with capitals are added.
    Lower-case tokens keep their meaning; each new token starts as the mean of the tokens of its lower-cased text."""
    return difference.matches("data.*.lowercase") and not difference.now and config.training.extend_vocabulary > 0


def _tell_languages(config: Config, saved: SavedModel, notify: Show) -> None:
    """Warn about languages that are not those of the model to start from."""
    theirs = saved.config.data
    for name in ("src", "tgt"):
        now, before = getattr(config.data, name).lang, getattr(theirs, name).lang
        if now != before and name not in (before, now):
            notify(
                f"warning: data.{name}.lang is {now}, and {config.training.load_model} was trained with {before}; "
                "its subwords are those of another language"
            )


def start_from(config: Config, model: Network, optimizer: Optimizer, subwords: tuple[Subwords, Subwords]) -> str:
    """Load the parameters of the model to start from into a new model, and its optimizer state if that is to be kept.
    Raises CheckpointError if there is no such checkpoint, or it is of a model with other settings. `config`: the
    settings, checked by `check_start`; load_model is set; `model`, `optimizer`: changed in place; `subwords`: the
    subwords of this run, which may have more tokens than those of that model. Returns what was done, in words."""
    saved, keeps = _model_of(config), not config.training.reset_optimizer
    tensors, path, added = dict(saved.params), saved.path, 0
    if config.training.extend_vocabulary:
        added = _with_new_units(tensors, model, (saved.src_subwords, saved.tgt_subwords), subwords)
    kept = read_whole(path) if keeps else None
    set_params(model, (kept.raw if kept else {}) or tensors, path)
    if kept is None:
        how = f"; {added:,} subwords were added, each the mean of those for its text" if added else ""
        return f"starting from {path}, with a fresh optimizer{how}"
    try:
        optimizer.load_state_dict(kept.optimizer, kept.metadata["optimizer"])
    except KeyError as error:
        raise CheckpointError(
            f"{path}: must contain the optimizer's state, got none of {error}; use reset_optimizer"
        ) from None
    return f"starting from {path}, with its optimizer"
