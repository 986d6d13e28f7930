"""A dry run: real updates on real batches, without writing anything to disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from nmt.inference.translation import resolve_threads
from nmt.rnn.devices import choose_device
from nmt.rnn.profile import Profile, recording
from nmt.storage.model_folder import LAST_NAME
from nmt.train.checkpoints.start import check_start, with_model_of_start
from nmt.train.distributed.ranks import Ranks
from nmt.train.planning.plan import make_plan
from nmt.train.tasks.prepare import check_trainable
from nmt.train.tasks.task import load_dry_run_task
from nmt.train.updates.dealing import SingleBatch
from nmt.train.updates.optimizer import make_optimizer
from nmt.train.updates.state import TrainingState
from nmt.train.updates.update import Updater

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.model.network import Network
    from nmt.train.tasks.task import Task
    from nmt.train.updates.dealing import UpdateBatches
    from nmt.train.updates.optimizer import Optimizer


@dataclass(frozen=True)
class Timing:
    """Measured time of some updates, including the making of their batches, and what they were trained on. `median` is
    the seconds of a typical update, which excludes single slow ones in which code was compiled."""

    updates: int
    seconds: float
    median: float
    src_tokens: int
    tgt_tokens: int
    profile: Profile


class DryRun:
    """A fresh model with its optimizer and the batches of the configured corpus, warmed up. Raises NMTError if a text
    or a setting is not usable.

    Args:
        config: The settings. Only the subwords are read from model_dir, if a run left any.
        threads: Cores to use; None takes the configured number, or all.
        notify: Receives a line about each slow step and each choice.
        device: `cpu`, `cuda` or `auto`; None takes the configured one.
        keep: Save new subwords in the model folder, for the run that follows.
    """

    def __init__(
        self,
        config: Config,
        threads: int | None,
        notify: Callable[[str], None],
        device: str | None = None,
        *,
        keep: bool = False,
    ) -> None:
        config = with_model_of_start(config)
        check_trainable(config)
        if not (Path(config.model_dir) / LAST_NAME).exists():
            check_start(config)
        self.config = config
        self.num_threads = resolve_threads(threads, config)
        self.task: Task = load_dry_run_task(config, notify, keep=keep)
        self.model: Network = self.task.build_model(choose_device(device or config.device))
        self.optimizer: Optimizer = make_optimizer(
            config.training, self.model.params, self.num_threads, self.model.device
        )
        # Everything that an update needs is loaded or compiled; no parameter changes.
        self.model.loss_and_gradients(self.task.smallest_batch(), seed=0, threads=self.num_threads)
        self.model.carry({})
        self.dealing, self.settings, self.schedule = make_plan(config, self.task, Ranks(), notify)
        self.batches = self.dealing.batches
        self._updater = Updater(
            config,
            self.model,
            self.optimizer,
            self.num_threads,
            alignments=self.task.alignments(notify),
        )
        self._number = 0

    def update(self, batch: Any) -> None:
        """Do one update with one batch."""
        self._update(SingleBatch(batch))

    def measure(self, updates: int, *, warm_up: int, seconds: float = float("inf")) -> Timing:
        """Time updates as at the start of training, after some for warm-up; return the times with a profile.

        It stops early after `seconds`, but not before the warm-up and three updates are done.
        """
        updates_to_do = self._endless()
        for _ in range(warm_up):
            self._update(next(updates_to_do))
        done = src_tokens = tgt_tokens = 0
        each: list[float] = []
        with recording(self.model.device.clock()) as profile:
            began = time.perf_counter()
            while done < updates and (done < 3 or time.perf_counter() - began < seconds):
                start = time.perf_counter()
                batches = next(updates_to_do)
                self._update(batches)
                each.append(time.perf_counter() - start)
                done += 1
                src_tokens, tgt_tokens = src_tokens + batches.num_src_tokens, tgt_tokens + batches.num_tgt_tokens
            self.model.device.synchronize()
            took = time.perf_counter() - began
        return Timing(done, took, median(each), src_tokens, tgt_tokens, profile)

    def _update(self, batches: UpdateBatches | SingleBatch) -> None:
        self._number += 1
        self._updater.update(batches, self._number, self.schedule.learning_rate(self._number))

    def _endless(self) -> Iterator[UpdateBatches]:
        for epoch in count(1):
            yield from self.dealing.left(TrainingState(epoch=epoch))
