"""The parts of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nmt.train.checkpoints.checkpoint_manager import CheckpointManager, Trained

if TYPE_CHECKING:
    from nmt.config import FixedTraining
    from nmt.data.alignment.word_alignment import WordAlignments
    from nmt.train.distributed.interrupt import StopRequest
    from nmt.train.distributed.ranks import Ranks
    from nmt.train.log.progress import Stopwatch
    from nmt.train.run.report import Reporter
    from nmt.train.tasks.task import Task
    from nmt.train.tasks.validation import Validator
    from nmt.train.updates.dealing import Dealing
    from nmt.train.updates.loss_limit import LossLimit


@dataclass
class Parts(Trained):
    """The parts of a run: what a checkpoint contains, the data, and where results are reported to."""

    settings: FixedTraining
    """Its training section, with a number in place of every auto."""
    num_threads: int
    task: Task
    dealing: Dealing
    validator: Validator
    checkpoints: CheckpointManager
    reporter: Reporter
    loss_limit: LossLimit
    alignments: WordAlignments | None
    """Word alignments of the training pairs, if attention is guided by them."""
    stop: StopRequest
    watch: Stopwatch
    ranks: Ranks
