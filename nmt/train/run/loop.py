"""The training loop: updates, and between them validations, checkpoints and lines of progress."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nmt.system.terminal import BEST
from nmt.train.checkpoints.checkpoint import CheckpointManager, Trained
from nmt.train.distributed.ranks import Interrupted, Ranks, StopRequest
from nmt.train.log.progress import Stopwatch, TrainingLog, format_seconds, perplexity
from nmt.train.tasks.validation import Validator, is_better
from nmt.train.updates.optimizer import averaged
from nmt.train.updates.schedule import Schedule, TrainingState, cooldown_factor
from nmt.train.updates.update import MAX_IN_A_ROW, LossLimit, Updater

if TYPE_CHECKING:
    from nmt.config import FixedTraining
    from nmt.data.alignment.word_alignment import WordAlignments
    from nmt.model.network import LossStats
    from nmt.train.tasks.task import Task
    from nmt.train.updates.dealing import Dealing, UpdateBatches


FIRST_SECONDS = 20.0
"""Seconds after which a run that follows the clock shows for the first time what it has learnt."""
OVER = " are over (training.max_minutes)"
"""End of the reason of a run whose time is over."""


def stop_reason(
    state: TrainingState, settings: FixedTraining, schedule: Schedule, *, elapsed: float, validation_seconds: float
) -> str | None:
    """Return in words why training ends here; None if it continues."""
    if settings.updates is not None and state.update >= settings.updates:
        return f"{state.update} updates (training.updates)"
    if state.epoch > settings.epochs:
        return f"{settings.epochs} epochs (training.epochs)"
    # Also right after a validation: each further update needs another validation, for which there is no time.
    if settings.max_minutes is not None and elapsed >= _training_limit(settings.max_minutes, validation_seconds):
        return format_seconds(settings.max_minutes * 60) + OVER
    if schedule.finished:
        return f"learning rate below {settings.learning_rate_min:g} (training.learning_rate_min)"
    patience, count = settings.stop_after, state.without_improvement
    if patience is None or count < patience:
        return None
    return f"no better {settings.metric} in {count} validations (training.stop_after)"


def is_early_validation(state: TrainingState, settings: FixedTraining, elapsed: float, last: float) -> bool:
    """Return whether a validation is due before the first regular one: after `FIRST_SECONDS`, then each time the run
    is twice as old as at the `last`. Only in runs that follow the clock (`--budget`), where it changes nothing that is
    learnt, and not shortly before the regular one."""
    follows_clock = settings.max_minutes is not None and settings.updates is None and settings.stop_after is None
    is_soon = 3 * state.update >= 2 * settings.validation_freq
    return (
        follows_clock and settings.scheduling == "constant" and not is_soon and elapsed >= max(FIRST_SECONDS, 2 * last)
    )


def progress(
    state: TrainingState,
    settings: FixedTraining,
    *,
    num_batches: int,
    elapsed: float,
    validation_seconds: float,
    of_update: int = 1,
) -> float:
    """Return the fraction of the run that was done when update `state.update` began, from 0 to 1.

    The limit that will be reached first at the pace so far determines it. It is 1 only past that limit: before the last
    update it is less. Without `max_minutes` it depends on the state alone, so that a resumed run computes the same.

    `num_batches`: batches in the current epoch; other epochs are assumed to have the same number; `validation_seconds`:
    duration of the last validation; there is one more after the last update; `of_update`: batches of the current
    update.
    """
    shares = [(state.epoch - 1 + (state.position - of_update) / num_batches) / settings.epochs]
    if settings.updates is not None:
        shares.append((state.update - 1) / settings.updates)
    if settings.max_minutes is not None:
        shares.append(elapsed / _training_limit(settings.max_minutes, validation_seconds))
    return min(1.0, max(0.0, *shares))


def _training_limit(max_minutes: float, validation_seconds: float) -> float:
    """Return the seconds before the final validation, which is part of the run: at least half of the limit."""
    limit = max_minutes * 60
    return limit - min(validation_seconds, limit / 2)


def seconds_left(
    state: TrainingState, settings: FixedTraining, *, num_batches: int, seconds_per_update: float, elapsed: float
) -> float:
    """Return the estimated seconds to the nearest predictable limit: updates, epochs or minutes. `num_batches`: batches
    in the current epoch; other epochs are assumed to have the same number; `seconds_per_update`: wall-clock seconds,
    including validations and saving; infinity if not yet known."""
    batches = num_batches - state.position + (settings.epochs - state.epoch) * num_batches
    updates = -(-batches // state.batches_an_update)
    if settings.updates is not None:
        updates = min(updates, settings.updates - state.update)
    seconds = updates * seconds_per_update if updates > 0 else 0.0
    if settings.max_minutes is not None:
        seconds = min(seconds, settings.max_minutes * 60 - elapsed)
    return max(0.0, seconds)


SAVE_SECONDS, SOON, LITTLE = 300.0, 60.0, 0.02
"""Most seconds between writes of the last checkpoint, plus the duration of one update; the seconds after which it is
written where writing takes little of the time, and that share."""


class Loop:
    """Trains the model in `parts`, from the position in their state. `elapsed_before`: seconds that earlier runs took;
    `stop_after`: stop after this many updates, as if by a signal; None for no such limit."""

    def __init__(self, parts: Parts, elapsed_before: float, stop_after: int | None = None) -> None:
        self.parts, self._stop_after = parts, stop_after
        self.state = parts.state
        self.settings = parts.settings
        self._elapsed_before = elapsed_before
        self._started = time.monotonic()
        self._first_update = parts.state.update
        self._num_batches = 0
        self._norm = math.nan
        self._rate = 0.0
        self._is_cooling = False
        self._broken_in_row = 0
        self._updater = Updater(
            parts.config, parts.model, parts.optimizer, parts.num_threads, parts.ranks, alignments=parts.alignments
        )
        self._validation_seconds = parts.state.validation_seconds
        self._validated_at = elapsed_before

    def run(self) -> str:
        """Train until there is a reason to stop; validate if due, save, and return the reason. Raises Interrupted: A
        signal was received. The parts are consistent, but not saved. Raises NMTError: The loss has exploded or is not
        finite (see `LossLimit`), or the disk is full."""
        state = self.state
        if state.update > state.validated_update and not state.update % self.settings.validation_freq:
            self._validate()  # a signal interrupted this validation in the previous run
        reason = self._train()
        if state.update > state.validated_update:
            self._validate()
        elif state.update > self._first_update:
            self.save_last()
        return reason

    def save_last(self) -> None:
        """Write `last.safetensors`."""
        with self.parts.watch.measure("saving"):
            self.state.elapsed = self._elapsed
            self.parts.checkpoints.save_last()

    def _train(self) -> str:
        """Train epoch by epoch until there is a reason to stop, and return the reason."""
        state, dealing = self.state, self.parts.dealing
        while True:
            self._num_batches = dealing.batches.num_batches(state.epoch)
            if reason := self._stop_reason():
                return reason
            for batches in dealing.left(state):
                self._update(batches)
                if reason := self._after_update():
                    return reason
            state.epoch, state.position, state.dealt = state.epoch + 1, 0, []

    def _update(self, batches: UpdateBatches) -> None:
        """Do one update and record its result; one that is not finite, which would spoil the parameters, is skipped."""
        parts, state = self.parts, self.state
        state.update += 1
        state.position += len(batches)
        self._rate = self._learning_rate(len(batches))
        began = time.monotonic()
        with parts.watch.measure("training"):
            done = self._updater.update(batches, state.update, self._rate)
        if not done.is_finite:
            state.skipped += 1
            parts.reporter.log.line(f"update {state.update} skipped: {_fact(done.stats, done.norm)}")
            self._count_exploded(done.stats, done.norm)
            return
        if parts.loss_limit.is_broken(done.stats.nll / max(1, done.stats.tokens)):
            self._count_exploded(done.stats, done.norm)
        else:
            self._broken_in_row = 0
        if parts.average is not None:
            parts.average.update()
        self._norm = done.norm
        state.src_tokens += batches.num_src_tokens
        state.tgt_tokens += done.stats.tokens
        parts.reporter.add(batches, done.stats, time.monotonic() - began)

    def _learning_rate(self, of_update: int) -> float:
        """Return the learning rate of the current update, and log where the cooldown begins."""
        done = progress(
            self.state,
            self.settings,
            num_batches=self._num_batches,
            elapsed=self._elapsed_for_all,
            validation_seconds=self._validation_seconds,
            of_update=of_update,
        )
        factor = cooldown_factor(self.settings, done)
        if factor < 1 and not self._is_cooling:
            self._is_cooling = True
            self.parts.reporter.log.line(
                f"cooldown: from update {self.state.update} on ({done:.0%} of the run is over) the learning rate "
                "falls, to zero at the end of the run"
            )
        return self.parts.schedule.learning_rate(self.state.update) * factor

    def _count_exploded(self, stats: LossStats, norm: float) -> None:
        """Count an update whose loss has exploded. Raises an error after too many in a row."""
        self._broken_in_row += 1
        if self._broken_in_row >= MAX_IN_A_ROW:
            fact = f"{_fact(stats, norm)} and {MAX_IN_A_ROW} such updates in a row"
            raise self.parts.loss_limit.give_up("training", fact)

    def _after_update(self) -> str | None:
        """Report, validate and save as due; return the reason to stop, if any."""
        parts, state, settings = self.parts, self.state, self.settings
        self._report()
        is_cheap = parts.watch.seconds.get("saving", 0.0) < LITTLE * parts.watch.total
        is_old = parts.checkpoints.age > (SOON if is_cheap else SAVE_SECONDS)
        is_early = is_early_validation(state, settings, self._elapsed, self._validated_at)
        is_old, is_early = parts.stop.agree((is_old, is_early))
        parts.stop.check()
        if state.update % settings.validation_freq == 0 or is_early:
            self._validate()
            parts.stop.agree(None)
        elif is_old and not self._broken_in_row:
            self.save_last()
        parts.stop.check()
        if self._stop_after is not None and state.update - self._first_update >= self._stop_after:
            raise Interrupted
        return self._stop_reason()

    def _report(self) -> None:
        """Report progress: a line of the log every `logging_freq` updates, else the changing line on the terminal."""
        parts, state = self.parts, self.state
        done = state.update - self._first_update
        if done == 1:  # the first one compiles or loads the kernels
            self._started = time.monotonic()
        pace = (time.monotonic() - self._started) / (done - 1) if done > 1 else math.inf
        left = seconds_left(
            state, self.settings, num_batches=self._num_batches, seconds_per_update=pace, elapsed=self._elapsed
        )
        if state.update % self.settings.logging_freq == 0:
            parts.reporter.progress(state, learning_rate=self._rate, norm=self._norm, left=left, elapsed=self._elapsed)
        else:
            parts.reporter.live(
                f"epoch {state.epoch}  batch {state.position} of {self._num_batches}  "
                f"update {state.update}  left {format_seconds(left)}"
            )

    def _validate(self) -> None:
        """Score the model; record, report and save the result. The state changes only when the scores are known: a
        resumed run repeats a validation that Interrupted ended. Raises NMTError, without saving: Exploded loss."""
        parts, state, metric = self.parts, self.state, self.settings.metric
        began, former = time.monotonic(), self._validation_seconds
        with parts.watch.measure("validation"), averaged(parts.average):
            scores = parts.validator.losses(parts.model, parts.num_threads)
            if parts.loss_limit.is_broken(scores["loss"]):
                raise parts.loss_limit.give_up(f"validation at update {state.update}", f"{scores['loss']:.4g}")
            scores |= parts.validator.scores(parts.reporter.live)
        self._validation_seconds = parts.ranks.broadcast(time.monotonic() - began)
        is_first = not state.validated_update
        is_best = is_better(metric, scores, state.best_scores)
        state.validated_update = state.update
        if self.settings.max_minutes is not None:
            state.validation_seconds = max(former, self._validation_seconds)  # those of the limit that is reached
        state.without_improvement = 0 if is_best else state.without_improvement + 1
        if is_best:
            state.best_update, state.best_scores = state.update, scores
        parts.schedule.validated(improved=is_best)
        if is_first:
            parts.reporter.signatures(parts.validator.signatures)
        parts.reporter.validation(
            state, scores, is_best=is_best, seconds=self._validation_seconds, elapsed=self._elapsed
        )
        parts.reporter.samples(state.update, self.settings.print_valid_sents, parts.validator)
        with parts.watch.measure("saving"):
            state.elapsed = self._validated_at = self._elapsed
            calibration = parts.validator.calibration() if is_best else None
            parts.checkpoints.save_validated(scores[metric], calibration, is_best=is_best)

    def _stop_reason(self) -> str | None:
        """Return the limit that has been reached; None if there is none."""
        return stop_reason(
            self.state,
            self.settings,
            self.parts.schedule,
            elapsed=self._elapsed_for_all,
            validation_seconds=self._validation_seconds,
        )

    @property
    def _elapsed_for_all(self) -> float:
        """Return the elapsed seconds, by rank 0's clock if a limit depends on them. Called by all ranks."""
        return self._elapsed if self.settings.max_minutes is None else self.parts.ranks.broadcast(self._elapsed)

    @property
    def _elapsed(self) -> float:
        return self._elapsed_before + self.parts.watch.total


def _fact(stats: LossStats, norm: float) -> str:
    return f"loss {stats.loss / max(1, stats.tokens):.4g}, gradient norm {norm:.4g}"


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


_LIVE_SECONDS = 0.2


class Reporter:
    """Sums the results of updates and reports them at intervals. `label_smoothing`: label smoothing of the training:
    the loss then differs from the likelihood, and lines show both."""

    def __init__(self, log: TrainingLog, label_smoothing: float = 0.0, *, adds: bool = False) -> None:
        self.log = log
        self._minimised = "whole loss" if adds else "smoothed loss" if label_smoothing else ""
        self._sums: dict[str, float] = defaultdict(float)
        """Sums over the updates since the last line of progress; `src` and `tgt` are the tokens of timed updates."""
        self._is_warm = False
        self._live_at = 0.0

    def add(self, batches: UpdateBatches, stats: LossStats, seconds: float) -> None:
        """Add an update that was not skipped; `seconds` is the duration of its training step alone. The time of a run's
        first update is not counted, since it compiles or loads the kernels."""
        found = {"updates": 1, "nll": stats.nll, "loss": stats.loss, "correct": stats.correct, "tokens": stats.tokens}
        if self._is_warm:
            found |= {"src": batches.num_src_tokens, "tgt": stats.tokens, "seconds": seconds}
        for name, value in found.items():
            self._sums[name] += value
        self._is_warm = True

    def progress(self, state: TrainingState, *, learning_rate: float, norm: float, left: float, elapsed: float) -> None:
        """Write the line for the updates since the last one, and reset the sums.

        Rates count tokens without padding over the time of the training steps alone. `ppl` is e to the power of `nll`,
        the negative log-likelihood, which equals `loss` unless the loss is smoothed or has further terms; in
        metrics.jsonl `loss` is always the minimised quantity.
        """
        sums, self._sums = self._sums, defaultdict(float)
        if not sums["updates"]:
            return
        seconds = max(sums["seconds"], 1e-9)
        loss, nll, accuracy = (sums[name] / sums["tokens"] for name in ("loss", "nll", "correct"))
        src_rate, tgt_rate = sums["src"] / seconds, sums["tgt"] / seconds
        named = f"{self._minimised} {loss:.4f}  nll {nll:.4f}" if self._minimised else f"loss {loss:.4f}"
        self.log.line(
            f"epoch {state.epoch:>3}  update {state.update:>6}  {named}"
            f"  ppl {perplexity(nll):.2f}  lr {learning_rate:.3g}  grad {norm:.2f}"
            f"  src {src_rate:,.0f}/s  tgt {tgt_rate:,.0f}/s  left {format_seconds(left)}"
        )
        self.log.event(
            "train",
            epoch=state.epoch,
            update=state.update,
            loss=loss,
            nll=nll,
            ppl=perplexity(nll),
            accuracy=accuracy,
            learning_rate=learning_rate,
            gradient_norm=norm,
            src_tokens_per_second=src_rate,
            tgt_tokens_per_second=tgt_rate,
            src_tokens=state.src_tokens,
            tgt_tokens=state.tgt_tokens,
            skipped=state.skipped,
            elapsed=elapsed,
        )

    def live(self, text: str) -> None:
        """Show `text` on the terminal's last line, at most a few times a second."""
        now = time.monotonic()
        if now - self._live_at >= _LIVE_SECONDS:
            self._live_at = now
            self.log.live(text)

    def validation(
        self, state: TrainingState, scores: Mapping[str, float], *, is_best: bool, seconds: float, elapsed: float
    ) -> None:
        """Write the scores of a validation, with a `*` if they are the best so far."""
        self.log.line(
            f"validation  update {state.update:>6}  {format_scores(scores)}"
            f"  took {format_seconds(seconds)}" + (BEST if is_best else "")
        )
        self.log.event(
            "validation",
            epoch=state.epoch,
            update=state.update,
            **scores,
            best=is_best,
            seconds=seconds,
            elapsed=elapsed,
        )

    def samples(self, update: int, indices: Sequence[int], validator: Validator) -> None:
        """Write sample translations of the last validation, and the confidence intervals of its scores."""
        samples = list(validator.samples(indices))
        for sample in samples:
            for name, text in sample.items():
                self.log.line(f"  {name:<10}  {text}")
        if samples or validator.intervals:
            self.log.event("samples", update=update, intervals=validator.intervals, samples=samples)

    def signatures(self, signatures: Mapping[str, str]) -> None:
        """Write the signatures of the scores, which say how they were computed."""
        for name, signature in signatures.items():
            self.log.line(f"{name} signature {signature}")
        if signatures:
            self.log.event("signatures", **signatures)


def format_scores(scores: Mapping[str, float]) -> str:
    """Return scores as text: `loss 2.1034  ppl 8.19  accuracy 55.2%  bleu 30.12  chrf 54.80`."""
    formats = {"loss": "{:.4f}", "accuracy": "{:.1%}"}
    return "  ".join(f"{name} {formats.get(name, '{:.2f}').format(score)}" for name, score in scores.items())
