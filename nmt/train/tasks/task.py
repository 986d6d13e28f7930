"""The interface between the training loop, which knows only updates, and texts, models and metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from nmt.train.log.progress import format_bytes

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.alignment.word_alignment import WordAlignments
    from nmt.data.batching.batches import Batches
    from nmt.data.tokens.subwords import Subwords
    from nmt.evaluate import Score
    from nmt.model.network import Network
    from nmt.rnn.device import Device
    from nmt.train.distributed.ranks import Ranks
    from nmt.train.log.progress import TrainingLog
    from nmt.train.tasks.validation import Validator


class Corpus(Protocol):
    """A training corpus."""

    def __len__(self) -> int:
        """Return the number of pairs or lines."""

    @property
    def num_tgt_tokens(self) -> int:
        """Return the number of target tokens to predict in an epoch, including EOS."""

    @property
    def nbytes(self) -> int:
        """Return the bytes of all token ids."""


class Task(Protocol):
    """A training corpus, with the model, batches and metrics that go with it."""

    config: Config
    subwords: tuple[Subwords, Subwords]
    """Subwords of both sides; the same object twice if they share it or if there is one side."""

    @property
    def corpus(self) -> Corpus:
        """Return the training corpus."""

    @property
    def fingerprint(self) -> list[int]:
        """Return numbers that identify the training corpus, to notice when it changes: its size, and a checksum of its
        ids if they are in memory."""

    @property
    def seen(self) -> str:
        """Return fingerprints of the training pairs (see `sketch_of`); empty if there are none."""

    @property
    def dev_fingerprint(self) -> list[int]:
        """Return numbers that identify the validation text, to notice when it changes."""

    def held_out(self, notify: Callable[[str], None]) -> Task:
        """Load the texts of data.dev and data.test as well; return the task itself."""

    def alignments(self, notify: Callable[[str], None]) -> WordAlignments | None:
        """Return the word alignments of the pairs, if configured; `notify` is called with a line when they have been
        learned. Raises DataError if they do not fit."""

    def build_model(self, device: Device) -> Network:
        """Return a new model."""

    def batches(self, size: int, parts: int = 1) -> Batches:
        """Return the corpus in batches of `size` (see training.batch_type); `parts` batches make an update."""

    def smallest_batch(self) -> Any:
        """Return a batch of one word, used to load or compile everything."""

    @property
    def dev_size(self) -> tuple[int, int]:
        """Return the number of validation pairs, and of their target tokens; zeros if there are no pairs."""

    def validator(
        self, model: Network, size: int, num_threads: int, check: Callable[[], None], ranks: Ranks, pairs: int = 0
    ) -> Validator:
        """Return the validator, which reads as many pairs, 0 for all. It calls `check` now and then, which raises to
        stop early; ranks share the work."""

    def test(self, model: Network, num_threads: int, check: Callable[[], None], ranks: Ranks) -> dict[str, Score]:
        """Return scores on data.test; empty if that is not configured. Called by all ranks."""


def load_task(config: Config, folder: Path, log: TrainingLog, ranks: Ranks, tried: Task | None = None) -> Task:
    """Read all texts and split them into subwords, which are trained or copied into the folder first if needed. Raises
    DataError if a text or subword model is missing, damaged or does not fit its partner, and CheckpointError if the
    folder cannot be written, or lost its subwords. `log`: receives the sizes of the texts and the numbers of filtered
    lines; `ranks`: rank 0 trains the subwords and the others read them; each tokenizes a share of the training text.
    Called by all; `tried`: a task whose training text has been read by the same settings of text and model."""
    from nmt.train.tasks.prepare import sides_of_run

    sides = ranks.first_then_others(lambda: sides_of_run(config, folder, log.line, log.live))
    if tried is not None:
        tried.config = config
    task: Task = (tried or _kind(config)(config, *sides, ranks)).held_out(log.line)
    if ranks.size > 1:
        log.line(
            f"training text: {format_bytes(task.corpus.nbytes)} on each machine; each of {ranks.size} ranks has "
            "tokenized "
            "a share of it"
        )
    return task


def load_dry_run_task(config: Config, notify: Callable[[str], None], *, keep: bool = False) -> Task:
    """Read the training text with the subwords it would be trained with, without writing anything. Raises DataError if
    a text or subword model is missing, damaged or does not fit its partner. `config`: the settings. Subwords that a run
    left in its folder are reused, otherwise they are trained in memory; `keep`: save new subwords in the model folder,
    for the run that follows."""
    from nmt.train.tasks.prepare import sides_of_dry_run

    sides = sides_of_dry_run(config, notify, keep=keep)
    return _kind(config)(config, *sides)


def _kind(config: Config) -> Any:
    """Return the class of the task that the settings name; its modules are imported here."""
    if config.task == "lm":
        from nmt.train.tasks.language_task import LanguageTask

        return LanguageTask
    from nmt.train.tasks.translation_task import TranslationTask

    return TranslationTask
