"""What a run is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmt.config import Config, FixedTraining
    from nmt.data.subwords import Subwords
    from nmt.data.word_alignment import WordAlignments
    from nmt.model.network import Network
    from nmt.train.checkpoint_manager import CheckpointManager
    from nmt.train.dealing import Dealing
    from nmt.train.explosion import LossLimit
    from nmt.train.interrupt import StopRequest
    from nmt.train.moving_average import MovingAverage
    from nmt.train.optimizer import Optimizer
    from nmt.train.progress import Stopwatch
    from nmt.train.ranks import Ranks
    from nmt.train.report import Reporter
    from nmt.train.schedule import Constant
    from nmt.train.state import TrainingState
    from nmt.train.validation import Validator


@dataclass
class Parts:
    """What a run is made of."""

    config: Config
    settings: FixedTraining
    """Its training section, with a number for every auto."""
    num_threads: int
    dealing: Dealing
    model: Network
    optimizer: Optimizer
    average: MovingAverage | None
    """Of the parameters: the model that is validated and saved; None for the parameters themselves."""
    schedule: Constant
    state: TrainingState
    validator: Validator
    checkpoints: CheckpointManager
    reporter: Reporter
    loss_limit: LossLimit
    alignments: WordAlignments | None
    """Of the training pairs, where attention is guided by them."""
    tgt_subwords: Subwords
    stop: StopRequest
    watch: Stopwatch
    ranks: Ranks
