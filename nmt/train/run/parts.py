"""The parts of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmt.config import Config, FixedTraining
    from nmt.data.alignment.word_alignment import WordAlignments
    from nmt.data.tokens.subwords import Subwords
    from nmt.model.network import Network
    from nmt.train.checkpoints.checkpoint_manager import CheckpointManager
    from nmt.train.distributed.interrupt import StopRequest
    from nmt.train.distributed.ranks import Ranks
    from nmt.train.log.progress import Stopwatch
    from nmt.train.run.report import Reporter
    from nmt.train.tasks.validation import Validator
    from nmt.train.updates.dealing import Dealing
    from nmt.train.updates.explosion import LossLimit
    from nmt.train.updates.moving_average import MovingAverage
    from nmt.train.updates.optimizer import Optimizer
    from nmt.train.updates.schedule import Schedule
    from nmt.train.updates.state import TrainingState


@dataclass
class Parts:
    """The parts of a run: settings, model, optimizer, data, state, and where they report to."""

    config: Config
    settings: FixedTraining
    """Its training section, with a number in place of every auto."""
    num_threads: int
    dealing: Dealing
    model: Network
    optimizer: Optimizer
    average: MovingAverage | None
    """The average of the parameters, which is the model that is validated and saved; None to use the parameters
    themselves."""
    schedule: Schedule
    state: TrainingState
    validator: Validator
    checkpoints: CheckpointManager
    reporter: Reporter
    loss_limit: LossLimit
    alignments: WordAlignments | None
    """Word alignments of the training pairs, if attention is guided by them."""
    tgt_subwords: Subwords
    stop: StopRequest
    watch: Stopwatch
    ranks: Ranks
