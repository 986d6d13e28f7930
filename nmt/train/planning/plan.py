"""The batches of a run, its settings with a number in place of every auto, and its schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from nmt.train.planning.lengths import auto_lengths, fixed_training
from nmt.train.updates.dealing import Dealing
from nmt.train.updates.schedule import Schedule, make_schedule

if TYPE_CHECKING:
    from nmt.config import Config, FixedTraining
    from nmt.train.distributed.ranks import Ranks
    from nmt.train.tasks.task import Task


class Plan(NamedTuple):
    """The numbers that depend on the corpus, the model and the machine."""

    dealing: Dealing
    """The corpus divided into updates, in each of which every rank computes the same number of batches."""
    settings: FixedTraining
    schedule: Schedule


def make_plan(config: Config, task: Task, ranks: Ranks, notify: Callable[[str], None]) -> Plan:
    """Return the plan of a run. `notify` receives a line about each number that replaces an auto."""
    parts = ranks.size * config.training.batch_multiplier
    batches = task.batches(config.training.batch_size, parts)
    dealing = Dealing(batches, parts, config.seed, rank=ranks.rank, ranks=ranks.size)
    settings = fixed_training(config.training, dealing)
    if chosen := auto_lengths(config.training, settings, dealing):
        notify(chosen)
    return Plan(dealing, settings, make_schedule(settings))
