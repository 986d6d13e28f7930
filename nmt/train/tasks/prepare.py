"""Preparations before the first update: locking the folder, saving the settings, providing subwords."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Set
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.config import Config, dump_config, load_config
from nmt.config.yaml_text import format_yaml, parse_yaml
from nmt.errors import CheckpointError, ConfigError, DataError, NMTError
from nmt.model.parts.cells import check_cells, named_cells
from nmt.storage import model_folder
from nmt.storage.model_folder import BEGUN_NAME, BEST_NAME, CONFIG_NAME, FORMER_NAME, LAST_NAME, LOG_NAME, METRICS_NAME
from nmt.system.files import explain, lock_alone, open_folder, remove_temporaries, write_bytes, writing
from nmt.system.notices import Show, tell_nobody
from nmt.system.paths import exists
from nmt.train.checkpoints.start import given_subwords

if TYPE_CHECKING:
    from nmt.data.corpora.corpus import Side
    from nmt.data.tokens.subwords import Subwords
    from nmt.doctor import Findings
    from nmt.train.log.progress import TrainingLog


_OF_A_START = re.compile(
    r"config\.yaml|(joint|src|tgt)\.spm|dev\.[^.]+|\..*|(?!train\.log).*\.(log|out|err)|lost\+found"
)
"""Files that a model folder may contain before its run."""
_LINE_OF_LOG = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ")
"""The beginning of a train.log: other programs write files of that name."""


def made_folder(folder: Path) -> int:
    """Create the folder of a run or a sweep if needed; return it opened. Raises CheckpointError if that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return open_folder(folder)
    except OSError as error:
        raise CheckpointError(
            f"{folder}: model_dir must be a folder that can be made and written, got "
            f"{explain(error)}; choose another one"
        ) from error


@contextlib.contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """Create the folder if needed and lock it against other runs within the block. Only temporary files of killed runs
    are removed, never a file that the user put there. Raises CheckpointError if the folder cannot be made, another run
    uses it, or it contains files that did not come from a run."""
    check_own(folder)
    handle = made_folder(folder)
    try:
        if not lock_alone(handle):
            raise CheckpointError(
                f"{folder}: model_dir must not be in use, got another nmt-train at work in it; "
                "wait for it or choose another one"
            )
        ours = [LAST_NAME, BEST_NAME, *model_folder.SUBWORD_NAMES.values()]
        found = [name for name in ours if exists(folder / name)]
        if found and not exists(folder / CONFIG_NAME):
            raise CheckpointError(
                f"{folder}: model_dir must be new or written by nmt-train, got one with {found[0]} "
                f"and no {CONFIG_NAME}; choose another one, or move that file away"
            )
        there = model_folder.checkpoint_names(folder)
        if there and not any(exists(folder / name) for name in (LAST_NAME, FORMER_NAME, BEGUN_NAME)):
            raise CheckpointError(
                f"{folder}: model_dir must contain {LAST_NAME} to resume its run, got only {there[0]}, a model that "
                "training would overwrite; choose another model_dir, or move the folder away"
            )
        remove_temporaries(folder)
        yield
    finally:
        os.close(handle)  # this releases the lock, as does the end of the process


def check_own(folder: Path) -> None:
    """Raise CheckpointError if a folder contains other files and no run, or settings that are not of nmt-train. Files
    of a run that did not begin, hidden and empty files and what a shell or a batch system logs may be there."""
    if model_folder.checkpoint_names(folder) or _has_log(folder):
        return
    try:
        there = [one for one in os.scandir(folder) if not _OF_A_START.fullmatch(one.name)]
    except OSError:  # missing or not readable: that is reported where it is used
        return
    if others := sorted(one.name for one in there if _is_filled(one)):
        raise CheckpointError(
            f"{folder}: model_dir must be new or written by nmt-train, got one with {others[0]} and no run; choose "
            "another one"
        )
    try:
        if exists(folder / CONFIG_NAME):
            load_config(folder / CONFIG_NAME)
    except NMTError as error:
        raise CheckpointError(
            f"{folder}: model_dir must be new or written by nmt-train, got one with a {CONFIG_NAME} of something else "
            f"({error}); choose another one"
        ) from None


def _has_log(folder: Path) -> bool:
    """Return whether a run has begun its two logs in a folder."""
    try:
        with open(folder / LOG_NAME, "rb") as log, open(folder / METRICS_NAME, "rb") as metrics:
            return _LINE_OF_LOG.match(log.read(64)) is not None and metrics.read(10) in (b"", b'{"event": ')
    except OSError:
        return False


def _is_filled(entry: os.DirEntry[str]) -> bool:
    """Return whether a file or folder has content, or cannot be looked at."""
    try:
        return any(True for _ in os.scandir(entry)) if entry.is_dir() else entry.stat(follow_symlinks=False).st_size > 0
    except OSError:
        return True


def check_trainable(config: Config) -> None:
    """Check the settings of a run before anything is read or made. Cells that the settings name by dotted path are
    imported: the user who trains has named them. Raises ConfigError: int8 is too coarse, or a cell cannot be made."""
    if config.compute_dtype == "int8":
        raise ConfigError(
            "compute_dtype: must be float32 or bfloat16 for training, got int8; train in one of them, then "
            "nmt-quantize the model or translate with --compute-dtype int8"
        )
    if named_cells(config):
        check_cells(config)


def save_config(folder: Path, config: Config) -> None:
    """Write the resolved settings, unless they are there. Raises CheckpointError, as `check_settings_file` does too."""
    path = folder / CONFIG_NAME
    with writing(path):
        if not check_settings_file(path, config):
            write_bytes(path, dump_config(config).encode(), sync=True)


def check_settings_file(path: Path, config: Config) -> bool:
    """Return whether a file contains these settings, in whatever style. Raises CheckpointError: It contains others and
    was not written by nmt-train, so that replacing it would lose what its author wrote."""
    if not exists(path):
        return False
    with contextlib.suppress(NMTError):
        if load_config(path).to_dict() == config.to_dict():
            return True
    if not _as_written(path, set(config.to_dict())):
        raise CheckpointError(
            f"{path}: must be as nmt-train writes it, to be replaced by the settings of this run, got a file of your "
            "own with other settings; write them into it, or move it out of this folder"
        )
    return False


def _as_written(path: Path, keys: Set[str]) -> bool:
    """Return whether a file has settings as nmt-train writes them, all of these `keys` and no comment."""
    try:
        values = parse_yaml(text := path.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(values, dict) and keys <= set(values) and format_yaml(values) == text


def sides_of_run(config: Config, folder: Path, notify: Show, show: Show) -> tuple[Side, Side]:
    """Return both sides with their subwords, which are read from the folder if a run left them there. Raises
    DataError if a text or subword model is missing or damaged, and CheckpointError if the folder cannot be written, or
    lost its subwords. `folder`: the model folder, in which new subwords are saved."""
    check_files(config)
    if (found := _found_sides(config, folder)) is not None:
        return found
    if not (folder / CONFIG_NAME).exists():
        save_config(folder, config)  # from here on the folder belongs to this run
    src, tgt = _new_sides(config, notify, show)
    model_folder.save_subwords(folder, src.subwords, tgt.subwords, joint=config.data.subwords.joint)
    return src, tgt


def sides_of_dry_run(config: Config, notify: Show, *, keep: bool = False) -> tuple[Side, Side]:
    """Return both sides; new subwords stay in memory, or are saved for the run that follows (`keep`)."""
    folder = Path(config.model_dir)
    if keep:
        with own_folder(folder):
            return sides_of_run(config, folder, notify, tell_nobody)
    check_files(config)
    return _found_sides(config, folder) or _new_sides(config, notify)


def check_files(config: Config) -> None:
    """Check that all files exist before subwords are trained for minutes. Raises DataError."""
    from nmt.data.corpora.sources import check_sources

    data = config.data
    langs = [data.src.lang, data.tgt.lang]
    for corpora in (data.train, *data.held_out):
        check_sources(corpora, langs)


def sides_of_sample(config: Config, sample: list[list[str]], notify: Show) -> tuple[Side, Side]:
    """Return both sides with the subwords that a run left or that the settings name, otherwise trained in memory on a
    sample of cleaned lines, the first of each side. Raises DataError if the lines are not sufficient.
    """
    return _found_sides(config, Path(config.model_dir)) or _new_sides(config, notify, sample=sample)


def _sides(config: Config, subwords: tuple[Subwords, Subwords]) -> tuple[Side, Side]:
    """Return both sides with these subwords."""
    from nmt.data.corpora.corpus import Side

    return Side(config.data.src, subwords[0]), Side(config.data.tgt, subwords[1])


def _new_sides(
    config: Config, notify: Show, show: Show = tell_nobody, *, sample: list[list[str]] | None = None
) -> tuple[Side, Side]:
    """Train subwords in memory, on a sample if given. `notify` gets a line about slow steps, `show` the progress."""
    from nmt.data.corpora.prepare import load_sides

    if (given := given_subwords(config)) is not None:
        return _sides(config, given)
    if sample is None:
        notify("subwords: reading the training text")
    return load_sides(config.data, notify, show, sample)


def _found_sides(config: Config, folder: Path) -> tuple[Side, Side] | None:
    """Return the sides with the subwords in the folder, if these belong to this run: a checkpoint fits no others."""
    if not (exists(folder / LAST_NAME) or exists(folder / FORMER_NAME) or _has_same_subwords(config, folder)):
        return None
    return _sides(config, model_folder.load_subwords(folder, joint=config.data.subwords.joint))


def _has_same_subwords(config: Config, folder: Path) -> bool:
    """Return whether a run that never reached a checkpoint left subwords trained with the same settings."""
    names = model_folder.subword_names(joint=config.data.subwords.joint)
    if not all((folder / name).is_file() for name in (CONFIG_NAME, *names)):
        return False
    there = model_folder.load_folder_config(folder)
    left, wanted = there.data, config.data
    start = "load_model", "extend_vocabulary"
    if any(getattr(there.training, key) != getattr(config.training, key) for key in start):
        return False
    keys = "train", "src", "tgt", "subwords", "filter", "src_factors", "factor_separator"
    return all(getattr(left, key) == getattr(wanted, key) for key in keys)


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
    path = folder / model_folder.DATA_CHECK_NAME
    with writing(path):
        write_bytes(path, (json.dumps(found.to_dict(), indent=1, ensure_ascii=False) + "\n").encode())
