"""The look at the texts that comes before the first update, and by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.errors import CheckpointError, DataError
from nmt.system.files import explain, remedy, write_bytes
from nmt.system.notices import Show, tell_nobody
from nmt.train.tasks.prepare import check_files, sides_of_run, sides_of_sample

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.doctor import Findings
    from nmt.train.log.progress import TrainingLog

DATA_CHECK_NAME = "data_check.json"
_PAIRS_OF_INDEXED = 50_000
"""Looked at before training of a text that was looked at when its index was made: what has changed is the rest."""


def check_data(config: Config, show: Show = tell_nobody) -> Findings:
    """Look at all of the texts; nothing is written. Subwords that no run left are made of the first 50,000 lines.

    Args:
        config: The settings.
        show: Told now and then how far it is.

    Raises:
        DataError: A file is missing, or is no text in lines at all.
    """
    from nmt.doctor import examine

    check_files(config)
    return examine(config, lambda sample: sides_of_sample(config, sample, tell_nobody), show=show, beside=True)


def check_before_training(config: Config, folder: Path, log: TrainingLog) -> None:
    """Look at the texts of a new run: tell each warning once, and keep the findings in the folder.

    Args:
        config: The settings.
        folder: The model folder; subwords are made and saved there, as the run needs them.
        log: Told what is wrong.

    Raises:
        DataError: With these texts training cannot work.
        CheckpointError: The folder cannot be written.
    """
    from nmt.doctor import PAIRS_AT_START, examine

    check_files(config)
    limit = _PAIRS_OF_INDEXED if _is_indexed(config) else PAIRS_AT_START
    found = examine(config, lambda sample: sides_of_run(config, folder, log.line, log.live), limit=limit, show=log.live)
    if found.errors:
        raise DataError(found.errors[0].line())
    log.line(found.summary())
    for finding in found.warnings:
        log.line(f"warning: {finding.line()}")
    path = folder / DATA_CHECK_NAME
    try:
        write_bytes(path, (json.dumps(found.to_dict(), indent=1, ensure_ascii=False) + "\n").encode())
    except OSError as error:
        raise CheckpointError(f"{path}: must be written, got {explain(error)}; {remedy(error)}") from error


def _is_indexed(config: Config) -> bool:
    """Return whether the training text has an index already, for which it was looked at; known where the settings name
    the subwords, or those of a former run are kept beside it."""
    from nmt.data.corpora.corpus import Side
    from nmt.data.tokens.subword_files import subwords_from_file
    from nmt.train.checkpoints.start import given_subwords
    from nmt.train.tasks.kept_subwords import kept_subwords
    from nmt.train.tasks.translation_task import indexing_of

    if config.task != "translation" or config.training.extend_vocabulary:
        return False
    settings = config.data.subwords
    files = [settings.model_file, settings.src_model_file, settings.tgt_model_file]
    given = given_subwords(config)
    if given is None:
        found = [subwords_from_file(file) for file in files if file]
        kept = kept_subwords(config)
        if found:
            given = found[0], found[-1]
        elif kept is None or (given := kept.find()) is None:
            return False
    indexing = indexing_of(config, Side(config.data.src, given[0]), Side(config.data.tgt, given[1]))
    return indexing is not None and indexing.is_current
