"""A dry run: real updates on real batches, and what nmt-train --plan prints of it; nothing is saved."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from nmt.data.batching.batches import make_batch
from nmt.inference.translation import resolve_threads
from nmt.rnn.devices import choose_device
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.storage.model_folder import LAST_NAME
from nmt.train.checkpoints.start import check_start, with_model_of_start
from nmt.train.distributed.ranks import Ranks
from nmt.train.log.progress import format_seconds, peak_bytes, reset_peak
from nmt.train.planning.lengths import make_plan
from nmt.train.tasks.prepare import check_trainable, sides_of_dry_run
from nmt.train.tasks.task import Task
from nmt.train.updates.optimizer import Optimizer, make_optimizer
from nmt.train.updates.schedule import TrainingState
from nmt.train.updates.update import Updater

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.model.translation import TranslationModel
    from nmt.train.updates.dealing import UpdateBatches


@dataclass(frozen=True)
class Timing:
    """Measured time of some updates, including the making of their batches, and what they were trained on. `median` is
    the seconds of a typical update, which excludes single slow ones in which code was compiled."""

    updates: int
    seconds: float
    median: float
    src_tokens: int
    tgt_tokens: int


class DryRun:
    """A fresh model with its optimizer and the batches of the configured corpus, warmed up; of model_dir only the
    subwords are read, if a run left any. Raises NMTError if a text or a setting is not usable. `threads`, `device`: see
    `Trainer`; `notify` receives a line about each slow step and each choice; `keep`: save new subwords in the model
    folder, for the run that follows."""

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
        self.task: Task = Task(config, *sides_of_dry_run(config, notify, keep=keep))
        self.model: TranslationModel = self.task.build_model(choose_device(device or config.device))
        self.optimizer: Optimizer = make_optimizer(
            config.training, self.model.params, self.num_threads, self.model.device
        )
        # Everything that an update needs is loaded or compiled; no parameter changes.
        pair = make_batch([[4]], [[4]], [0], config.model.encoder.boundaries)
        self.model.loss_and_gradients(pair, seed=0, threads=self.num_threads)
        self.dealing, self.settings, self.schedule = make_plan(config, self.task, Ranks(), notify)
        self.batches = self.dealing.batches
        self._updater = Updater(
            config, self.model, self.optimizer, self.num_threads, alignments=self.task.alignments(notify)
        )
        self._number = 0

    def update(self, batch: Any) -> None:
        """Do one update with one batch."""
        self._number += 1
        self._updater.update_with(batch, self._number, self.schedule.learning_rate(self._number))

    def measure(self, updates: int, *, warm_up: int, seconds: float = float("inf")) -> Timing:
        """Time updates as at the start of training, after some for warm-up. It stops early after `seconds`, but not
        before the warm-up and three updates are done."""
        updates_to_do = (one for epoch in count(1) for one in self.dealing.left(TrainingState(epoch=epoch)))
        for _ in range(warm_up):
            self._update(next(updates_to_do))
        done: list[UpdateBatches] = []
        each: list[float] = []
        began = time.perf_counter()
        while len(done) < updates and (len(done) < 3 or time.perf_counter() - began < seconds):
            start = time.perf_counter()
            done.append(next(updates_to_do))
            self._update(done[-1])
            each.append(time.perf_counter() - start)
        self.model.device.synchronize()
        took = time.perf_counter() - began
        src_tokens, tgt_tokens = sum(one.num_src_tokens for one in done), sum(one.num_tgt_tokens for one in done)
        return Timing(len(done), took, median(each), src_tokens, tgt_tokens)

    def _update(self, batches: UpdateBatches) -> None:
        self._number += 1
        self._updater.update(batches, self._number, self.schedule.learning_rate(self._number))


_UPDATES, _WARM_UP, _SECONDS = 20, 2, 15.0


def cost_report(dry_run: DryRun) -> str:
    """Run the epoch's largest batch and some others, and return the page."""
    shapes = dry_run.batches.shapes(1).tolist()
    T, S, B = largest = max(shapes, key=lambda shape: (shape[0] + shape[1]) * shape[2])
    can_reset = reset_peak()
    dry_run.update(dry_run.batches.batch(1, shapes.index(largest)))
    timing = dry_run.measure(_UPDATES, warm_up=_WARM_UP, seconds=_SECONDS)
    taken = "measured peak" if can_reset else "measured peak since the start"
    memory = [
        f"memory, with the largest batch of the first epoch: {B} pairs, {S} source and {T} target steps",
        f"  {taken:40}{peak_bytes() / (1 << 20):>8,.1f} MiB",
    ]
    sections = [_parameters(dry_run), memory, _speed(dry_run, timing), _time(dry_run, timing)]
    return "\n\n".join("\n".join(lines) for lines in sections)


def _parameters(dry_run: DryRun) -> list[str]:
    """Return the number of parameters of each part of the model."""
    model = dry_run.model
    parts: Counter[str] = Counter()
    for name, array in model.params.items():
        pieces = name.split(".")
        parts[" ".join(pieces[:2]) if pieces[0] == "encoder" else pieces[0]] += array.size
    lines = [f"parameters {dry_run.config.name}"]
    lines += [f"  {part.replace('_', ' '):34}{size:>14,}" for part, size in parts.items()]
    return [*lines, f"  {'all':34}{model.num_params:>14,}"]


def _speed(dry_run: DryRun, timing: Timing) -> list[str]:
    """Return the measured speed, and the time of an epoch that follows from it."""
    epoch = _epoch_seconds(dry_run, timing)
    updates, threads = dry_run.dealing.num_updates(1), dry_run.num_threads
    several = f", {dry_run.dealing.size} batches per update" if dry_run.dealing.size > 1 else ""
    faster = []
    if TARGET.has_amx and dry_run.model.device.is_cpu and dry_run.config.compute_dtype == "float32":
        faster = ["  this processor has a matrix unit: compute_dtype: bfloat16 takes a third of the time or so"]
    return [
        f"speed of {timing.updates} updates with {threads} thread{'s' if threads > 1 else ''}",
        f"  {'source tokens/s':34}{timing.src_tokens / timing.seconds:>14,.0f}",
        f"  {'target tokens/s':34}{timing.tgt_tokens / timing.seconds:>14,.0f}",
        f"  {'target tokens per update':34}{timing.tgt_tokens / timing.updates:>14,.0f}"
        f"  (batch_size {dry_run.config.training.batch_size:,}{several})",
        f"  {'seconds per update':34}{timing.seconds / timing.updates:>14.3f}",
        f"  {'updates per epoch':34}{updates:>14,}",
        f"  {'one epoch':34}{format_seconds(epoch):>14}",
        *faster,
    ]


def _time(dry_run: DryRun, timing: Timing) -> list[str]:
    """Return the time until each limit; the first limit is marked."""
    settings = dry_run.settings
    epoch = _epoch_seconds(dry_run, timing)
    per_update = epoch / dry_run.dealing.num_updates(1)
    limits = [(f"{settings.epochs} epochs (training.epochs)", settings.epochs * epoch)]
    if settings.updates is not None:
        limits.append((f"{settings.updates:,} updates (training.updates)", settings.updates * per_update))
    if settings.max_minutes is not None:
        limits.append((f"{settings.max_minutes:.4g} minutes (training.max_minutes)", settings.max_minutes * 60))
    first = min(seconds for _, seconds in limits)
    lines = ["time to the limits, validations not counted"]
    for name, seconds in limits:
        mark = "  training stops here" if seconds == first else ""
        lines.append(f"  {name:40}{format_seconds(seconds):>8}{mark}")
    return [*lines, f"  epochs until then: {first / epoch:.1f}"]


def _epoch_seconds(dry_run: DryRun, timing: Timing) -> float:
    return dry_run.task.corpus.num_tgt_tokens * timing.seconds / timing.tgt_tokens
