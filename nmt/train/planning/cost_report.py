"""A one-page estimate of a run: parameters, memory by purpose, speed, hours. Validations are not included."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.train.log.memory import peak_bytes, reset_peak
from nmt.train.log.progress import format_seconds
from nmt.train.planning.batch_size import forecast
from nmt.train.planning.ranks_plan import ranks_page

if TYPE_CHECKING:
    from nmt.train.planning.batch_size import Forecast
    from nmt.train.planning.dry_run import DryRun, Timing

_UPDATES, _WARM_UP, _SECONDS = 20, 2, 15.0
_SMALL_SHARE = 0.01  # of the total: smaller purposes share one line


def cost_report(dry_run: DryRun, ranks: int = 1) -> str:
    """Predict memory from the plans, run the epoch's largest batch and some others, and return the page, with a
    prediction for several ranks if asked for."""
    accumulates = dry_run.config.training.batch_multiplier > 1
    found = forecast(
        dry_run.config, dry_run.model, dry_run.optimizer, dry_run.task.corpus, dry_run.batches, accumulates=accumulates
    )
    can_reset = reset_peak()
    dry_run.update(dry_run.batches.batch(1, dry_run.batches.shapes(1).tolist().index(list(found.shape))))
    timing = dry_run.measure(_UPDATES, warm_up=_WARM_UP, seconds=_SECONDS)
    peak = peak_bytes()
    taken = "measured peak" if can_reset else "measured peak since the start"
    sections = [
        _parameters(dry_run),
        [*_memory(found), _row("predicted peak", found.peak, ""), _row(taken, peak, f"{peak / found.peak:.0%} of it")],
        _speed(dry_run, timing),
        _time(dry_run, timing),
    ]
    if ranks > 1:
        sections.append([ranks_page(dry_run, timing, ranks)])
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


def _memory(found: Forecast) -> list[str]:
    """Return the forecast by purpose; small purposes of a batch share one line."""
    T, S, B = found.shape
    shape = f"{B} pairs, {S} source and {T} target steps" if S else f"{B} streams of {T} steps"
    lines = [f"memory, for the largest batch of the first epoch: {shape}"]
    batch = found.workspace + found.logits
    least = _SMALL_SHARE * found.peak
    small = [size for size in batch.values() if size < least]
    lines += [_row(name, size, "") for name, size in found.fixed.items()]
    lines += [_row(name, size, "") for name, size in batch.most_common() if size >= least]
    if small:
        lines.append(_row(f"{len(small)} smaller ones of the batch", sum(small), ""))
    return lines


def _row(name: str, size: int, note: str) -> str:
    return f"  {name:40}{size / (1 << 20):>8,.1f} MiB  {note}".rstrip()


def _speed(dry_run: DryRun, timing: Timing) -> list[str]:
    """Return the measured speed, and the time of an epoch that follows from it."""
    epoch = _epoch_seconds(dry_run, timing)
    updates, threads = dry_run.dealing.num_updates(1), dry_run.num_threads
    return [
        f"speed of {timing.updates} updates with {threads} thread{'s' if threads > 1 else ''}",
        *([f"  {'source tokens/s':34}{timing.src_tokens / timing.seconds:>14,.0f}"] if timing.src_tokens else []),
        f"  {'target tokens/s':34}{timing.tgt_tokens / timing.seconds:>14,.0f}",
        f"  {'target tokens an update':34}{timing.tgt_tokens / timing.updates:>14,.0f}"
        f"  (batch_size {dry_run.batch_size:,}{_times(dry_run.dealing.size)})",
        f"  {'seconds an update':34}{timing.seconds / timing.updates:>14.3f}",
        f"  {'updates an epoch':34}{updates:>14,}",
        f"  {'hours an epoch':34}{epoch / 3600:>14.2f}  ({format_seconds(epoch)})",
        *_faster(dry_run),
    ]


def _faster(dry_run: DryRun) -> list[str]:
    """Return settings that would take less time on this processor."""
    on_cpu, dtype = dry_run.model.device.name == "cpu", dry_run.config.compute_dtype
    if TARGET.has_amx and on_cpu and dtype == "float32":
        return ["  this processor has a matrix unit: compute_dtype: bfloat16 takes about a third of the time"]
    return []


def _times(size: int) -> str:
    return f", {size} batches an update" if size > 1 else ""


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
        mark = "  the end" if seconds == first else ""
        lines.append(f"  {name:40}{format_seconds(seconds):>8}{mark}")
    return [*lines, f"  epochs until then: {first / epoch:.1f}"]


def _epoch_seconds(dry_run: DryRun, timing: Timing) -> float:
    return dry_run.task.corpus.num_tgt_tokens * timing.seconds / timing.tgt_tokens
