"""A run from its settings to its result: set up or resume, train, report, score the test set."""

from __future__ import annotations

import contextlib
import logging
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from nmt.config import Config, config_from_dict
from nmt.config.presets import settings_of_preset
from nmt.data.corpora.sources import name_of
from nmt.errors import CheckpointError, ConfigError, NMTError
from nmt.inference.translation import resolve_threads
from nmt.inference.translator import Translator
from nmt.model.parts.cells import named_cells
from nmt.rnn.cores import default_threads
from nmt.rnn.devices import choose_device, resolved_dtype
from nmt.storage import model_folder
from nmt.storage.model_folder import BEST_NAME, CONFIG_NAME, LAST_NAME, PARAMS_PREFIX
from nmt.train.checkpoints.checkpoint import CheckpointManager, Trained
from nmt.train.checkpoints.resume import SavedRun, load_saved_run
from nmt.train.checkpoints.start import check_start, start_from, with_model_of_start
from nmt.train.distributed.ranks import Interrupted, Ranks, StopRequest
from nmt.train.log.progress import Stopwatch, TrainingLog, format_bytes, format_seconds, peak_bytes
from nmt.train.planning.lengths import Plan, doubts, make_plan, validation_pairs
from nmt.train.run.loop import OVER, Loop, Parts, Reporter, format_scores, stop_reason
from nmt.train.tasks.prepare import check_before_training, check_settings_file, check_trainable, own_folder, save_config
from nmt.train.tasks.task import Task, load_task
from nmt.train.updates.optimizer import MovingAverage, averaged, make_optimizer
from nmt.train.updates.schedule import TrainingState
from nmt.train.updates.update import LossLimit

if TYPE_CHECKING:
    from nmt.evaluate.scores import Score
    from nmt.model.translation import TranslationModel
    from nmt.train.tasks.validation import Validator


def check_same_text(saved: SavedRun, task: Task) -> None:
    """Raise CheckpointError if a run would go on with other subwords, or with another training text. A text that moved
    is the same one, and settings that select other pairs of it may change."""
    state, changes, folder = saved.state, saved.changes, saved.path.parent
    if saved.content.metadata["subwords"] != model_folder.subwords_digest(*task.subwords):
        raise CheckpointError(
            f"{saved.path}: must have been trained with the subwords next to it, got others; "
            "restore the .spm files that belong to it"
        )
    if _are_same(state.corpus, task.fingerprint):
        return
    data = task.config.data
    selects = changes.selection or (data.filter.overlap != "none" and not _are_same(state.dev, task.dev_fingerprint))
    if changes.texts is None and selects:
        return
    before, now = changes.texts or (name_of(data.train), "another text there")
    raise CheckpointError(
        f"{folder}: must go on with the text that it was trained on, {before}, got {now}; choose another model_dir "
        f"(-o), with training.load_model={folder} to fine-tune this model"
    )


def _are_same(before: list[int], now: list[int]) -> bool:
    """Return whether two fingerprints agree in the numbers that both have; former versions kept fewer."""
    return all(one == other for one, other in zip(before, now, strict=False))


def restore(parts: Parts, saved: SavedRun, log: TrainingLog) -> None:
    """Restore the parts of this run from a saved run that `check_same_text` accepts, and log what has changed."""
    content = saved.content
    model_folder.set_params(parts.model, content.raw or content.params, saved.path)
    if parts.average is not None and content.raw:
        arrays = {key.removeprefix(PARAMS_PREFIX): array for key, array in content.params.items()}
        parts.average.load(arrays, content.metadata.get("average", {}).get("steps", 0))
    elif parts.average is not None:
        parts.average.restart()
    parts.optimizer.load_state_dict(content.optimizer, content.metadata["optimizer"])
    if not saved.changes.schedule:
        parts.schedule.load_state_dict(content.metadata["schedule"])
    state, metric = parts.state, parts.config.training.metric
    if saved.damage is not None:
        parts.checkpoints.last_is_good = False
        log.line(f"{saved.damage}; going on from the one before it")
    for note in saved.changes.notes:
        log.line(note)
    if saved.changes.batches or not _are_same(state.corpus, parts.task.fingerprint):
        state.position, state.dealt = 0, []
        log.line(f"warning: the training batches have changed: epoch {state.epoch} starts again")
    if not _are_same(state.dev, parts.task.dev_fingerprint):
        _check_new_validation(parts, saved)
        state.forget_best()
        log.line(
            "warning: the validation text has changed: the search for the best checkpoint begins again, and the "
            f"next validation replaces {BEST_NAME}"
        )
    best = f", best {metric} {state.best_scores[metric]:.2f}" if state.best_update else ""
    log.line(
        f"resuming from {saved.path}: epoch {state.epoch}, update {state.update}, "
        f"{format_seconds(state.elapsed)} so far{best}"
    )
    log.event("resume", epoch=state.epoch, update=state.update)


def _check_new_validation(parts: Parts, saved: SavedRun) -> None:
    """Raise CheckpointError if another validation text would replace the best checkpoint unasked: that of a run that
    has finished, or by a text under the same name."""
    state, folder, name = parts.state, saved.path.parent, name_of(parts.config.data.dev)
    seconds = {"elapsed": state.elapsed, "validation_seconds": state.validation_seconds}
    if (reason := stop_reason(state, parts.settings, parts.schedule, **seconds)) is not None:
        before, now = saved.changes.dev or (name, "another text there")
        raise CheckpointError(
            f"{folder}: is finished ({reason}), with the validation text {before}, got {now}; give the same one, or "
            f"measure its model on another text with nmt-evaluate"
        )
    if saved.changes.dev is None:
        raise CheckpointError(
            f"{folder}: must go on with the validation text that it began with, {name}, got another text there; is "
            "this another folder? Give the path of the same text, or another text another name"
        )


_OF_USE = "decoding.", "data.test", "compute_dtype"
"""Settings that matter after training, too."""


@dataclass(frozen=True)
class TrainingResult:
    """The outcome of a run."""

    folder: Path
    """The model folder."""
    reason: str
    """Why the run ended, in words; for a run that had ended before, also which changed settings had no effect."""
    signal: int | None
    """The signal that ended the run, or None."""
    update: int
    best_path: Path | None
    """The best checkpoint; None before the first validation."""
    best_update: int
    best_scores: dict[str, float] = field(default_factory=dict)
    test_scores: dict[str, Score] = field(default_factory=dict)
    """Scores of the best checkpoint on data.test, if that is configured and the run was completed."""
    cells: tuple[str, ...] = ()
    """The modules of your own cells that the run used, which `translator` therefore allows."""

    def translator(self, **loading: Any) -> Translator:
        """Load the best checkpoint, or the last one before the first validation; see `Translator.load`."""
        return Translator.load(self.folder, **{"cells": self.cells, **loading})


class Trainer:
    """A run in a model folder, started or resumed where the previous run stopped.

    threads: cores to use; None takes the configured number, or all. device: `cpu`, `cuda` or `auto`; None takes the
    configured one. terminal: the stream that shows progress; None for no output. stop_after: stop after this many
    updates, as if by a signal; None for no such limit. ranks: the processes that train this model together; None for
    this one alone. Each makes a Trainer and calls `run`; rank 0 writes files and shows progress. exits: whether a
    second signal ends the process; see `StopRequest`. tried: the task of a dry run of these settings, whose training
    text is not read again, and `spent` the seconds that it took, which count in the time of a new run.
    """

    def __init__(
        self,
        config: Config,
        *,
        threads: int | None = None,
        device: str | None = None,
        terminal: TextIO | None = None,
        stop_after: int | None = None,
        ranks: Ranks | None = None,
        exits: bool = True,
        tried: Task | None = None,
        spent: float = 0.0,
    ) -> None:
        config = with_model_of_start(config)
        check_trainable(config)
        self.config = config
        self._ranks = ranks or Ranks()
        self._device = choose_device(device or config.device)
        self.folder = Path(config.model_dir)
        if threads is None and config.threads is None:
            threads = self._ranks.threads
        self._num_threads = resolve_threads(threads, config)
        self._terminal, self._stop_after = terminal, stop_after
        self._stop = StopRequest(self._ranks, exits=exits)
        self._tried, self._spent = tried, spent
        self._facts: dict[str, Any] = {}

    def run(self) -> TrainingResult:
        """Train until a limit, early stopping or a signal ends it. Raises NMTError: A file, a setting or the folder is
        not usable, the disk is full, or the loss has exploded. The last good checkpoint is kept."""
        watch, ranks = Stopwatch(), self._ranks
        with contextlib.ExitStack() as stack:
            log = ranks.first_then_others(lambda: self._open(stack))
            try:
                saved = load_saved_run(self.folder, self.config)
                if saved is None:
                    check_start(self.config, log.line)
                if saved is None and self.config.data.check:
                    ranks.first_then_others(
                        lambda: check_before_training(self.config, self.folder, log) if ranks.rank == 0 else None
                    )
                task = load_task(self.config, self.folder, log, ranks, self._tried)
                if saved is not None:
                    check_same_text(saved, task)
                parts = self._set_up(task, saved, log, watch)
                self._check_same_inputs(parts, task)
                former = model_folder.load_folder_config(self.folder) if saved is not None else None
                if ranks.rank == 0:
                    save_config(self.folder, self.config)
                    log.line(f"settings: {self.folder / CONFIG_NAME}")
                elapsed_before = saved.state.elapsed if saved else self._spent
                with self._stop:
                    changed, begun_at = saved.changes.keys if saved else [], parts.state.update
                    result = self._train(Loop(parts, elapsed_before, self._stop_after), log, task, changed)
                if former is not None and ranks.rank == 0 and result.update == begun_at:  # nothing was trained
                    values, before = self.config.to_dict(), former.training.to_dict()  # texts may have moved
                    values["training"] |= {key: one for key, one in before.items() if f"training.{key}" in changed}
                    save_config(self.folder, config_from_dict(values, trained=True))
                ranks.end()
                return result
            except NMTError as error:
                log.note(f"Error: {error}")
                raise

    def _open(self, stack: contextlib.ExitStack) -> TrainingLog:
        """Return the log; in rank 0, also lock the folder until the stack is closed."""
        if self._ranks.rank:
            return stack.enter_context(contextlib.closing(TrainingLog(None)))
        stack.enter_context(own_folder(self.folder))
        check_settings_file(self.folder / CONFIG_NAME, self.config)
        log = stack.enter_context(contextlib.closing(TrainingLog(self.folder, self._terminal)))
        if self.config.preset is not None:
            for line in settings_of_preset(self.config.preset, self.config.to_dict()):
                log.note(line)
        return log

    def _check_same_inputs(self, parts: Parts, task: Task) -> None:
        """Raise CheckpointError if a rank has read other texts, settings or checkpoints than rank 0."""
        mine = {
            "settings": self.config.model_dump(exclude={"threads"}),
            "training text": task.fingerprint,
            "subwords": model_folder.subwords_digest(*task.subwords),
            "checkpoint": (parts.state.update, parts.state.position),
        }
        for rank, others in enumerate(self._ranks.all_gather(mine)):
            for name, value in self._ranks.broadcast(mine).items():
                if others[name] != value:
                    raise CheckpointError(
                        f"rank {rank}: must have the {name} of rank 0, got other ones; let all machines see the same "
                        "files"
                    )

    def _set_up(self, task: Task, saved: SavedRun | None, log: TrainingLog, watch: Stopwatch) -> Parts:
        """Make or restore all parts of the run, and describe them in the log."""
        config, settings, threads = self.config, self.config.training, self._num_threads
        digest = model_folder.subwords_digest(*task.subwords)
        model = task.build_model(self._device)
        optimizer = make_optimizer(settings, model.params, threads, model.device)
        state = saved.state if saved else TrainingState()
        if saved is None and settings.load_model is not None:
            log.line(start_from(config, model, optimizer, task.subwords))
        average = MovingAverage(model, settings.ema_decay) if settings.ema_decay else None
        plan = make_plan(config, task, self._ranks, log.line)
        trained = Trained(config, model, optimizer, plan.schedule, state, average)
        parts = Parts(
            **vars(trained),
            settings=plan.settings,
            num_threads=threads,
            task=task,
            dealing=plan.dealing,
            validator=self._validator(model, task, plan, state, log),
            checkpoints=CheckpointManager(self.folder, digest, trained, self._ranks),
            reporter=Reporter(log, settings.label_smoothing, adds=bool(settings.r_drop or settings.guided_alignment)),
            loss_limit=LossLimit(task.subwords[1].vocab_size),
            alignments=task.alignments(log.line),
            stop=self._stop,
            watch=watch,
            ranks=self._ranks,
        )
        for doubt in doubts(config, plan.settings):
            log.line(doubt)
        if config.compute_dtype == "auto":
            log.line(f"compute_dtype: auto is {resolved_dtype('auto', self._device)} on this machine")
        src, tgt = (subwords.vocab_size for subwords in task.subwords)
        device = self._device
        where = f"{threads} thread{'s' if threads > 1 else ''}" if device.is_cpu else f"device {device.name}"
        where = where if self._ranks.size == 1 else f"{self._ranks.size} ranks with {where} each"
        log.line(
            f"model {config.name}: {model.num_params:,} parameters, vocabularies of {src:,} and {tgt:,}, "
            f"{where}, in {self.folder}"
        )
        for warning in self._ranks.warnings(threads):
            log.line(warning)
        self._facts = dict(  # what a report shows before the curves of the run
            name=config.name,
            parameters=model.num_params,
            vocabularies=[subwords.vocab_size for subwords in task.subwords],
            batch_size=settings.batch_size,
            device=device.name,
            threads=threads,
            machine=machine(),
        )
        if saved is None:
            parts.checkpoints.begin()
        else:
            restore(parts, saved, log)
        plan.dealing.resume(state)
        state.corpus, state.dev, state.seen = task.fingerprint, task.dev_fingerprint, task.seen
        return parts

    def _validator(
        self, model: TranslationModel, task: Task, plan: Plan, state: TrainingState, log: TrainingLog
    ) -> Validator:
        """Return the validator. A new run chooses how many pairs it reads, and its state records the number."""
        if not state.update:
            pairs, tokens = task.dev_size
            between = plan.settings.validation_freq * task.corpus.num_tgt_tokens / plan.dealing.num_updates(1)
            state.validation_pairs = validation_pairs(self.config, pairs, tokens, between)
            if state.validation_pairs < pairs:
                log.line(f"validation: {state.validation_pairs:,} of {pairs:,} pairs (training.validation_pairs)")
        return task.validator(
            model,
            self.config.training.batch_size,
            self._num_threads,
            self._stop.check_here,
            self._ranks,
            state.validation_pairs,
        )

    def _train(self, loop: Loop, log: TrainingLog, task: Task, changed: Sequence[str]) -> TrainingResult:
        """Run the loop until it ends or a signal stops it; then score the test set, if there is one. `changed`: the
        settings that differ from those of the run that is resumed."""
        state, begun_at = loop.state, loop.state.update
        test_scores: dict[str, Score] = {}
        # Only now, when a signal no longer ends the run at once: a program that waits for events may send one.
        log.event("start", **self._facts)
        try:
            reason = loop.run()
            if not state.update:
                raise ConfigError(
                    f"training.max_minutes: must be enough for one update, got {reason.removesuffix(OVER)} (with "
                    "--budget, what timing left of it), which was over when the texts were read; give more time"
                )
            keys = [name for name in changed if name not in reason and not name.startswith(_OF_USE)]
            if state.update == begun_at > 0:
                if keys:
                    reason = (
                        f"already finished, {reason}; changed settings had no effect ({', '.join(keys)}): "
                        "start a new run with them in another folder"
                    )
                    if self._terminal is None and self._ranks.rank == 0:
                        logging.getLogger("nmt").warning("warning: %s: %s", self.folder, reason)
                else:
                    log.line(f"this run was finished before: {reason}; nothing is trained")
            peak = peak_bytes()
            log.line(f"finished: {reason}; {loop.parts.watch.summary()}; at most {format_bytes(peak)} of memory")
            log.event("end", update=state.update, reason=reason, elapsed=state.elapsed, peak_memory=peak)
            if state.best_update:
                pairs, read = task.dev_size[0], state.validation_pairs
                sample = f" on {read:,} of {pairs:,} validation pairs" if 0 < read < pairs else ""
                log.line(
                    f"best checkpoint {self.folder / BEST_NAME}: update {state.best_update}, "
                    f"{format_scores(state.best_scores)}{sample}"
                )
            if self.config.data.test is not None:
                test_scores = self._score_test(loop.parts, task, log)
        except Interrupted:
            self._stop.agree(None)
            reason = "a signal"
            loop.save_last()
            log.line(
                f"stopped at epoch {state.epoch}, update {state.update}; "
                f"run the same command again to resume from {self.folder / LAST_NAME}"
            )
        return TrainingResult(
            folder=self.folder,
            reason=reason,
            signal=self._stop.signal,
            update=state.update,
            best_path=self.folder / BEST_NAME if state.best_update else None,
            best_update=state.best_update,
            best_scores=dict(state.best_scores),
            test_scores=test_scores,
            cells=tuple(path.rpartition(".")[0] for path in named_cells(self.config).values()),
        )

    def _score_test(self, parts: Parts, task: Task, log: TrainingLog) -> dict[str, Score]:
        """Return the scores on the test set of the best checkpoint, or of the last if there is no best."""
        best = parts.checkpoints.best_path
        if parts.state.best_update:
            # Rank 0 arrives here after it has written the file.
            tensors, _ = self._ranks.first_then_others(lambda: model_folder.read_checkpoint(best, prefix=PARAMS_PREFIX))
            model_folder.set_params(parts.model, tensors, best)
        with averaged(None if parts.state.best_update else parts.average):
            scores = task.test(parts.model, self._num_threads, self._stop.check_here, self._ranks)
        figures = {name: score.score for name, score in scores.items()}
        signatures = {name: score.signature for name, score in scores.items()}
        log.line(f"test {name_of(self.config.data.test or '')}: {format_scores(figures)}")
        log.event("test", update=parts.state.best_update, **figures, signatures=signatures)
        return scores


def machine() -> dict[str, str | int]:
    """Return processor, cores and threads, system and versions: what a reader needs to judge a speed."""
    import nmt

    return {
        "processor": _processor(),
        "cores": default_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "nmt": nmt.__version__,
    }


def _processor() -> str:
    """Return the model name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
