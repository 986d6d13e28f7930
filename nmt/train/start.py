"""A new run that starts from another model: `training.load_model`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
from nmt.storage.trained_settings import check_settings
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
    return load_subwords(folder, joint=settings.joint)


def start_from(config: Config, model: Network, optimizer: Optimizer) -> str:
    """Put the parameters of the model to start from into a fresh one, and its optimizer's state where that is kept.

    Args:
        config: The settings; load_model is given.
        model, optimizer: Changed in place.

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
    check_settings(Path("config"), config, path, content)
    set_params(model, (load_raw(path) if keeps else {}) or tensors, path)
    if not keeps:
        return f"starting from {path}, with a fresh optimizer"
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
