"""What a run learns: the seam between the loop, which knows updates, and texts, models and measures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from nmt.data.corpora.sources import name_of
from nmt.errors import DataError
from nmt.train.log.memory import format_bytes

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.alignment.word_alignment import WordAlignments
    from nmt.data.tokens.subwords import Subwords
    from nmt.evaluate import Score
    from nmt.model.network import Network
    from nmt.rnn.device import Device
    from nmt.train.distributed.ranks import Ranks
    from nmt.train.log.progress import TrainingLog
    from nmt.train.tasks.validation import Validator
    from nmt.train.updates.dealing import Batches


class Corpus(Protocol):
    """What is learned from."""

    def __len__(self) -> int:
        """Return pairs or lines."""

    @property
    def num_tgt_tokens(self) -> int:
        """Return target tokens to predict in an epoch: EOS counted."""

    @property
    def nbytes(self) -> int:
        """Return bytes of all ids."""


class Task(Protocol):
    """A corpus to learn from, and the model, batches and measures that go with it."""

    subwords: tuple[Subwords, Subwords]
    """Of both sides; the same object twice where they share it, or where there is one side."""

    @property
    def corpus(self) -> Corpus:
        """Return what is learned from."""

    @property
    def fingerprint(self) -> list[int]:
        """Return numbers of the training corpus by which another one is noticed."""

    def alignments(self) -> WordAlignments | None:
        """Return those of the training pairs' words where the settings want them. Raises DataError where they do not
        fit."""

    def save_statistics(self, folder: Path) -> None:
        """Write what of the training text goes with the model. Raises CheckpointError where it cannot."""

    def build_model(self, device: Device) -> Network:
        """Return a fresh model."""

    def batches(self, size: int, parts: int = 1) -> Batches:
        """Return the corpus in batches of `size`, as training.batch_type counts it; `parts` of them make an update."""

    def smallest_batch(self) -> Any:
        """Return a batch of one word, to load or compile everything with."""

    def validator(
        self, model: Network, size: int, num_threads: int, check: Callable[[], None], ranks: Ranks
    ) -> Validator:
        """Return what measures the model between updates; `check` is called now and then, and raises to stop early.
        Ranks divide the work."""

    def test(self, model: Network, num_threads: int, check: Callable[[], None], ranks: Ranks) -> dict[str, Score]:
        """Return scores of the model on data.test; none where that is not configured. Called by all ranks, which may
        divide the work."""


def load_task(config: Config, folder: Path, log: TrainingLog, ranks: Ranks) -> Task:
    """Read all texts and cut them into subwords, which are trained or copied into the folder first if need be.

    Args:
        config: The settings.
        folder: The model folder.
        log: Told how much there is and what was left out.
        ranks: Rank 0 trains the subwords, the others read them; of the training text each cuts a share. Called by all.

    Raises:
        DataError: A text or subword model is missing, damaged or does not fit its partner.
        CheckpointError: The folder cannot be written, or lost its subwords.
    """
    from nmt.train.tasks.prepare import sides_of_run

    sides = ranks.first_then_others(lambda: sides_of_run(config, folder, log.line, log.live))
    if config.task == "translation":
        from nmt.train.tasks.translation_task import indexing_of

        if (indexing := indexing_of(config, *sides)) is not None:
            ranks.first_then_others(lambda: indexing.make(log.live, log.line))
    task: Task = _kind(config)(config, *sides, ranks).held_out(log.line)
    if ranks.size > 1:
        log.line(
            f"training text: {format_bytes(task.corpus.nbytes)} on each machine; each of {ranks.size} ranks has cut a "
            "share of it"
        )
    return task


def load_dry_run_task(config: Config, say: Callable[[str], None], *, keep: bool = False) -> Task:
    """Read the training text with the subwords it would be trained with, and write nothing.

    Args:
        config: The settings. Subwords of a run in its folder are used again, others trained in memory.
        say: Told what takes long.
        keep: Leave new subwords in the model folder after all, for the run that follows.

    Raises:
        DataError: A text or subword model is missing, damaged or does not fit its partner.
    """
    from nmt.train.tasks.prepare import sides_of_dry_run

    sides = sides_of_dry_run(config, say, keep=keep)
    if config.task == "translation":
        from nmt.train.tasks.translation_task import indexing_of

        if (indexing := indexing_of(config, *sides)) is not None and not indexing.is_current:
            raise DataError(
                f"data.train: must have an index to be tried out, got none of {name_of(config.data.train)} as it is "
                "now; start nmt-train, which makes it, or set data.train to a part of the text"
            )
    return _kind(config)(config, *sides)


def _kind(config: Config) -> Any:
    """Return the class of the task that the settings name; what it needs is imported here."""
    if config.task == "lm":
        from nmt.train.tasks.language_task import LanguageTask

        return LanguageTask
    from nmt.train.tasks.translation_task import TranslationTask

    return TranslationTask
