"""A new run that starts from another model: `training.load_model`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nmt.errors import CheckpointError, ConfigError
from nmt.storage.model_folder import (
    CONFIG_NAME,
    LAST_NAME,
    PARAMS_PREFIX,
    find_checkpoint,
    load_folder_config,
    load_subwords,
    read_checkpoint,
    set_params,
)
from nmt.storage.trained_settings import Difference, check_settings
from nmt.train.checkpoint import load_checkpoint, load_raw

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.subwords import Subwords
    from nmt.model.network import Network
    from nmt.train.optimizer import Optimizer


def given_subwords(config: Config) -> tuple[Subwords, Subwords] | None:
    """The subwords of the model to start from; None where the settings name none.

    Raises:
        CheckpointError: The folder is no model's.
        ConfigError: The settings name subwords beside it, or another kind of vocabulary.
    """
    if config.training.load_model is None:
        return None
    folder, settings = Path(config.training.load_model), config.data.subwords
    for key in ("model_file", "src_model_file", "tgt_model_file"):
        if getattr(settings, key):
            raise ConfigError(
                f"data.subwords.{key}: must be null with training.load_model, got a file; the model brings its subwords"
            )
    theirs = load_folder_config(folder).data.subwords
    if theirs.joint != settings.joint:
        raise ConfigError(
            f"data.subwords.joint: must be {str(theirs.joint).lower()} as in the model of training.load_model, got "
            f"{str(settings.joint).lower()}; set it so"
        )
    found = load_subwords(folder, joint=settings.joint)
    return found if not config.training.extend_vocabulary else _extended(config, found, theirs.type)


def _extended(config: Config, subwords: tuple[Subwords, Subwords], kind: str) -> tuple[Subwords, Subwords]:
    """Subwords with units for the training text; the same twice where both sides share them."""
    from nmt.data.extension import extended
    from nmt.data.training_text import training_text

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
    tensors: dict[str, np.ndarray], config: Config, model: Network, subwords: tuple[Subwords, Subwords]
) -> int:
    """Give tables, output matrix and bias of a checkpoint rows for units that it does not have; returns how many."""
    from nmt.data.extension import parts_of_new, with_means

    old = load_subwords(Path(str(config.training.load_model)), joint=config.data.subwords.joint)
    parts = {side: parts_of_new(one, other) for side, one, other in zip(("src", "tgt"), old, subwords, strict=True)}
    for name, side in {model.table(side): side for side in model.vocab_sizes}.items():
        tensors[PARAMS_PREFIX + name] = with_means(tensors[PARAMS_PREFIX + name], parts[side])
    for name in ("output.W", "output.b"):
        if (key := PARAMS_PREFIX + name) in tensors:
            tensors[key] = np.ascontiguousarray(with_means(tensors[key].T, parts["tgt"]).T)
    counts = {one.model_bytes: len(parts[side]) for side, one in zip(("src", "tgt"), subwords, strict=True)}
    return sum(counts.values())


def _learns_capitals(config: Config, difference: Difference) -> bool:
    """Whether text that was lower-cased no longer is, and units with capitals are added for it. Units of lower-cased
    text mean the same in other text; the new ones start as the mean of their lower-cased text's."""
    return difference.matches("data.*.lowercase") and not difference.now and config.training.extend_vocabulary > 0


def start_from(config: Config, model: Network, optimizer: Optimizer, subwords: tuple[Subwords, Subwords]) -> str:
    """Put the parameters of the model to start from into a fresh one, and its optimizer's state where that is kept.

    Args:
        config: The settings; load_model is given.
        model, optimizer: Changed in place.
        subwords: Of this run, which may have more units than that model's.

    Returns:
        What was done, in words.

    Raises:
        CheckpointError: There is no such checkpoint, or it is of a model with other settings.
        ConfigError: The optimizer to be kept is another one.
    """
    folder = Path(str(config.training.load_model))
    keeps = not config.training.reset_optimizer
    path = folder / LAST_NAME if keeps else find_checkpoint(folder)
    tensors, content = read_checkpoint(path, prefix=PARAMS_PREFIX)
    check_settings(Path("config"), config, path, content, partial(_learns_capitals, config))
    added = _with_new_units(tensors, config, model, subwords) if config.training.extend_vocabulary else 0
    set_params(model, (load_raw(path) if keeps else {}) or tensors, path)
    if not keeps:
        how = f"; {added:,} units were added, each the mean of those it was cut into" if added else ""
        return f"starting from {path}, with a fresh optimizer{how}"
    theirs = load_folder_config(folder).training.optimizer
    if theirs != config.training.optimizer:
        raise ConfigError(
            f"training.optimizer: must be {theirs}, as in {folder / CONFIG_NAME}, to go on with its state, got "
            f"{config.training.optimizer}; or set training.reset_optimizer: true"
        )
    _, state, metadata = load_checkpoint(path)
    try:
        optimizer.load_state_dict(state, metadata["optimizer"])
    except KeyError as error:
        raise CheckpointError(
            f"{path}: must hold the optimizer's state, got none of {error}; use reset_optimizer"
        ) from None
    return f"starting from {path}, with its optimizer"
