"""Before the first update: the folder is ours, the subwords in it, the texts loaded."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.errors import CheckpointError, ConfigError
from nmt.files import explain, remove_temporaries, write_bytes
from nmt.model_folder import (
    BEST_NAME,
    CONFIG_NAME,
    LAST_NAME,
    SUBWORD_NAMES,
    load_folder_config,
    load_subwords,
    save_subwords,
    subword_names,
)

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.batches import Batch, TrainBatches
    from nmt.data.corpus import ParallelCorpus, Side
    from nmt.data.subwords import Subwords
    from nmt.train.progress import TrainingLog

Texts = tuple[list[str], list[str]]
"""Source lines as read, and reference lines cleaned as configured."""


@dataclass(frozen=True)
class Corpora:
    """Everything a run reads."""

    src_subwords: Subwords
    tgt_subwords: Subwords
    train: ParallelCorpus
    dev: ParallelCorpus
    dev_texts: Texts
    test_texts: Texts | None

    @property
    def fingerprint(self) -> list[int]:
        """Pairs and target tokens of the training corpus."""
        return [len(self.train), len(self.train.tgt.tokens)]


@contextlib.contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """Make the folder if need be and keep other runs out of it while the block lasts.

    Nothing that a person put there is removed; only temporary files of killed runs are.

    Raises:
        CheckpointError: It cannot be made, another run uses it, or it holds files with our names
            that did not come from a run.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise CheckpointError(
            f"{folder}: model_dir must be a folder that can be made and written, got "
            f"{explain(error)}; choose another one"
        ) from error
    try:
        _lock(handle, folder)
        ours = [LAST_NAME, BEST_NAME, *SUBWORD_NAMES.values()]
        found = [name for name in ours if (folder / name).exists()]
        if found and not (folder / CONFIG_NAME).exists():
            raise CheckpointError(
                f"{folder}: model_dir must be new or written by nmt-train, got one with {found[0]} "
                f"and no {CONFIG_NAME}; choose another one, or move that file away"
            )
        remove_temporaries(folder)
        yield
    finally:
        os.close(handle)  # and with it the lock goes, as it does when the process dies


def check_trainable(config: Config) -> None:
    """Raises ConfigError: Numbers of the settings' compute_dtype are too coarse to learn with."""
    if config.compute_dtype == "int8":
        raise ConfigError(
            "compute_dtype: must be float32 or bfloat16 for training, got int8; train in one of them, then "
            "nmt-quantize the model or translate with --compute-dtype int8"
        )


def save_config(folder: Path, config: Config) -> None:
    """Write the resolved settings, unless they are there already.

    Raises:
        CheckpointError: They cannot be written.
    """
    from nmt.config import dump_config

    content = dump_config(config).encode()
    path = folder / CONFIG_NAME
    try:
        if not path.exists() or path.read_bytes() != content:
            write_bytes(path, content, sync=True)
    except OSError as error:
        raise CheckpointError(f"{path}: must be written, got {explain(error)}; make room and run again") from error


def load_corpora(config: Config, folder: Path, log: TrainingLog) -> Corpora:
    """Read the texts and cut them into subwords, which are trained or copied first if need be.

    Args:
        config: The settings.
        folder: The model folder.
        log: Told how many pairs there are and how many were left out.

    Raises:
        DataError: A text or subword model is missing, damaged or does not fit its partner.
        CheckpointError: The folder cannot be written, or lost its subwords.
    """
    from nmt.data.corpus import load_parallel

    _check_files(config)
    src, tgt = _sides(config, folder, log)
    data = config.data
    dev = load_parallel(data.dev, src, tgt, training=False)
    test = load_parallel(data.test, src, tgt, training=False) if data.test else None
    train = load_parallel(data.train, src, tgt)
    tgt_tokens = len(train.tgt.tokens)
    log.line(
        f"data: {len(train):,} training pairs of {train.total:,} lines"
        f" ({train.skipped_empty:,} skipped with an empty side, "
        f"{train.skipped_long:,} over max_length), {tgt_tokens:,} target subwords; "
        f"{len(dev):,} validation pairs"
    )
    return Corpora(
        src_subwords=src.subwords,
        tgt_subwords=tgt.subwords,
        train=train,
        dev=dev,
        dev_texts=(dev.src_texts, dev.references),
        test_texts=(test.src_texts, test.references) if test else None,
    )


def train_batches(config: Config, corpus: ParallelCorpus, size: int) -> TrainBatches:
    """Deal the training corpus into batches of `size` tokens or sentences."""
    from nmt.data.batches import TrainBatches

    return TrainBatches(corpus, size, config.training.batch_type, config.seed, config.training.shuffle)


def validation_batches(config: Config, corpus: ParallelCorpus, size: int) -> list[Batch]:
    """Return the validation pairs in batches of `size` tokens or sentences."""
    from nmt.data.batches import TrainBatches

    return list(TrainBatches(corpus, size, config.training.batch_type, shuffle=False).epoch(0))


def load_training_text(config: Config, say: Callable[[str], None]) -> tuple[Side, Side, ParallelCorpus]:
    """Read the training text with the subwords it would be trained with, and write nothing.

    Args:
        config: The settings. Subwords of a run in its folder are used again, others trained in memory.
        say: Told what takes long.

    Raises:
        DataError: A text or subword model is missing, damaged or does not fit its partner.
    """
    from nmt.data.corpus import load_parallel

    _check_files(config)
    src, tgt = _found_sides(config, Path(config.model_dir)) or _new_sides(config, say)
    return src, tgt, load_parallel(config.data.train, src, tgt)


def _check_files(config: Config) -> None:
    """Find a missing file before minutes go into training subwords."""
    from nmt.data.corpus import text_file

    data = config.data
    for prefix in filter(None, (data.train, data.dev, data.test)):
        for side in (data.src, data.tgt):
            text_file(f"{prefix}.{side.lang}")


def _sides(config: Config, folder: Path, log: TrainingLog) -> tuple[Side, Side]:
    found = _found_sides(config, folder)
    if found is not None:
        return found
    if not (folder / CONFIG_NAME).exists():
        save_config(folder, config)  # from here on the folder is ours
    src, tgt = _new_sides(config, log.line)
    save_subwords(folder, src.subwords, tgt.subwords, joint=config.data.subwords.joint)
    return src, tgt


def _new_sides(config: Config, say: Callable[[str], None]) -> tuple[Side, Side]:
    from nmt.data.prepare import load_sides

    say("subwords: reading the training text")
    return load_sides(config.data)


def _found_sides(config: Config, folder: Path) -> tuple[Side, Side] | None:
    """The sides with the subwords in the folder, if they are those of this run: a checkpoint fits no others."""
    from nmt.data.corpus import Side

    if not ((folder / LAST_NAME).exists() or _has_same_subwords(config, folder)):
        return None
    src, tgt = load_subwords(folder, joint=config.data.subwords.joint)
    return Side(config.data.src, src), Side(config.data.tgt, tgt)


def _has_same_subwords(config: Config, folder: Path) -> bool:
    """Whether a run that never reached a checkpoint left subwords made with the same settings."""
    names = subword_names(joint=config.data.subwords.joint)
    if not all((folder / name).is_file() for name in (CONFIG_NAME, *names)):
        return False
    left, wanted = load_folder_config(folder).data, config.data
    return (left.train, left.src, left.tgt, left.subwords) == (
        wanted.train,
        wanted.src,
        wanted.tgt,
        wanted.subwords,
    )


def _lock(handle: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # no such thing on this system: two runs in one folder are then not noticed
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise CheckpointError(
            f"{folder}: model_dir must not be in use, got another nmt-train at work in it; "
            "wait for it or choose another one"
        ) from error
    except OSError:
        return  # some network file systems have no locks
