"""The check of the texts before the first update, also available as a command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.errors import DataError
from nmt.system.files import write_bytes, writing
from nmt.system.notices import Show, tell_nobody
from nmt.train.tasks.prepare import check_files, sides_of_run, sides_of_sample

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.doctor import Findings
    from nmt.train.log.progress import TrainingLog

DATA_CHECK_NAME = "data_check.json"


def check_data(config: Config, show: Show = tell_nobody) -> Findings:
    """Check all of the texts, without writing anything. If no run has left subwords, they are trained on the first
    50,000 lines. Raises DataError if a file is missing or is not text in lines."""
    from nmt.doctor import examine

    check_files(config)
    return examine(config, lambda sample: sides_of_sample(config, sample, tell_nobody), show=show, concurrently=True)


def check_before_training(config: Config, folder: Path, log: TrainingLog) -> None:
    """Check the texts of a new run: log each warning once, and save the findings in the folder. Raises DataError if
    training cannot work with these texts, and CheckpointError if the folder cannot be written. `folder`: the model
    folder; subwords are trained and saved there for the run."""
    from nmt.doctor import PAIRS_AT_START, examine

    check_files(config)
    found = examine(
        config, lambda sample: sides_of_run(config, folder, log.line, log.live), limit=PAIRS_AT_START, show=log.live
    )
    if found.errors:
        raise DataError(found.errors[0].line())
    log.line(found.summary())
    for finding in found.warnings:
        log.line(f"warning: {finding.line()}")
    path = folder / DATA_CHECK_NAME
    with writing(path):
        write_bytes(path, (json.dumps(found.to_dict(), indent=1, ensure_ascii=False) + "\n").encode())
