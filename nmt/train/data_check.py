"""The look at the texts that comes before the first update, and by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.errors import CheckpointError, DataError
from nmt.files import explain, remedy, write_bytes
from nmt.train.prepare import check_files, sides_of_run, sides_of_sample

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.doctor import Findings
    from nmt.train.progress import TrainingLog

DATA_CHECK_NAME = "data_check.json"


def _tell_nobody(text: str) -> None:
    pass


def check_data(config: Config, show: Callable[[str], None] = _tell_nobody) -> Findings:
    """Look at all of the texts; nothing is written. Subwords that no run left are made of the first 50,000 lines.

    Args:
        config: The settings.
        show: Told now and then how far it is.

    Raises:
        DataError: A file is missing, or is no text in lines at all.
    """
    from nmt.doctor import examine

    check_files(config)
    return examine(config, lambda sample: sides_of_sample(config, sample, _tell_nobody), show=show)


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
    found = examine(config, lambda sample: sides_of_run(config, folder, log.line), limit=PAIRS_AT_START, show=log.live)
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
