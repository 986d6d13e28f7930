"""The batches of a run, its settings with a number in place of every auto, and its schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from nmt.train.planning.batch_size import choose_batch_size
from nmt.train.planning.lengths import auto_lengths, fixed_training
from nmt.train.updates.dealing import Dealing
from nmt.train.updates.schedule import Schedule, make_schedule

if TYPE_CHECKING:
    from nmt.config import Config, FixedTraining
    from nmt.model.network import Network
    from nmt.train.distributed.ranks import Ranks
    from nmt.train.tasks.task import Task
    from nmt.train.updates.optimizer import Optimizer
    from nmt.train.updates.state import TrainingState


class Plan(NamedTuple):
    """The numbers that depend on the corpus, the model and the machine."""

    batch_size: int
    dealing: Dealing
    """The corpus divided into updates, in each of which every rank computes the same number of batches."""
    settings: FixedTraining
    schedule: Schedule


def make_plan(
    config: Config,
    state: TrainingState,
    model: Network,
    optimizer: Optimizer,
    task: Task,
    num_threads: int,
    ranks: Ranks,
    notify: Callable[[str], None],
) -> Plan:
    """Return the plan of a run; a resumed run keeps the batch size that `auto` chose, which `state` records. `notify`
    receives a line about each number that replaces an auto."""
    size = config.training.batch_size
    if size == "auto":
        found = choose_batch_size(
            config, state, model, optimizer, task, num_threads, ranks=ranks.size, ranks_here=ranks.ranks_here
        )
        size, reason = ranks.broadcast(found)
        notify(f"batch_size: auto is {size:,} target tokens: {reason}")
        state.batch_size = size
    else:
        state.batch_size = 0
    parts = ranks.size * config.training.batch_multiplier
    dealing = Dealing(task.batches(size, parts), parts, config.seed, rank=ranks.rank, ranks=ranks.size)
    settings = fixed_training(config.training, dealing)
    if chosen := auto_lengths(config.training, settings, dealing):
        notify(chosen)
    return Plan(size, dealing, settings, make_schedule(settings))
