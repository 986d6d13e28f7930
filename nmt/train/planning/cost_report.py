"""Pages about a run without training: its parameters, memory, speed and hours, without validations; and a profile, the
time of an update by name of operation."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.train.log.memory import peak_bytes, reset_peak
from nmt.train.log.progress import format_seconds

if TYPE_CHECKING:
    from nmt.train.planning.dry_run import DryRun, Timing

_UPDATES, _WARM_UP, _SECONDS = 20, 2, 15.0


def cost_report(dry_run: DryRun) -> str:
    """Run the epoch's largest batch and some others, and return the page."""
    shapes = dry_run.batches.shapes(1).tolist()
    T, S, B = largest = max(shapes, key=lambda shape: (shape[0] + shape[1]) * shape[2])
    can_reset = reset_peak()
    dry_run.update(dry_run.batches.batch(1, shapes.index(largest)))
    timing = dry_run.measure(_UPDATES, warm_up=_WARM_UP, seconds=_SECONDS)
    taken = "measured peak" if can_reset else "measured peak since the start"
    batch = f"{B} pairs, {S} source and {T} target steps" if S else f"{B} streams of {T} steps"
    memory = [
        f"memory, with the largest batch of the first epoch: {batch}",
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
        *([f"  {'source tokens/s':34}{timing.src_tokens / timing.seconds:>14,.0f}"] if timing.src_tokens else []),
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


WARM_UP = 3
"""Updates before those that are profiled, in which memory grows to the size that batches need."""
OTHER = "other (Python)"


def profile_page(dry_run: DryRun, updates: int) -> str:
    """Run some updates and return a table of their operations, the longest first; the seconds add up to the time of an
    update.

    GFLOP/s count two operations for each multiply-add of a matrix product; the rest of an operation's arithmetic is not
    counted.
    """
    timing = dry_run.measure(updates, warm_up=WARM_UP)
    profile, whole = timing.profile, timing.seconds
    rows = [
        (name, one.calls / updates, one.seconds, 2e-9 * one.multiply_adds / max(one.seconds, 1e-9))
        for name, one in profile.operations.items()
    ]
    rows.append((OTHER, 0.0, whole - profile.seconds, 0.0))
    rows.sort(key=lambda row: -row[2])
    rate = 2e-9 * sum(one.multiply_adds for one in profile.operations.values()) / whole
    rows.append(("an update", 1.0, whole, rate))
    width = max(len(row[0]) for row in rows)
    threads = dry_run.num_threads
    lines = [
        f"{updates} updates of {timing.tgt_tokens / updates:,.0f} target tokens, after {WARM_UP} of warm-up, "
        f"{threads} thread{'s' if threads > 1 else ''}: "
        + (f"{timing.src_tokens / whole:,.0f} source and " if timing.src_tokens else "")
        + f"{timing.tgt_tokens / whole:,.0f} target tokens/s",
        "",
        f"{'operation':{width}}  {'calls':>7}  {'seconds':>9}  {'share':>6}  {'GFLOP/s':>7}",
    ]
    for name, calls, seconds, speed in rows:
        shown = f"{speed:7.1f}" if speed else ""
        count = f"{calls:7.1f}" if calls else " " * 7
        line = f"{name:{width}}  {count}  {seconds / updates:9.6f}  {seconds / whole:6.1%}  {shown}"
        lines.append(line.rstrip())
    return "\n".join(lines)
