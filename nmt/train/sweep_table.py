"""The runs of a sweep, and their tables: a summary of each combination of settings, and a row for each run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Job:
    """One run: its settings by key as they were given, its folder and its result.

    result: The best checkpoint's scores by metric, test scores (`test BLEU`), `update` and `minutes`; None until the
    run has ended. error: The error message if it failed. minutes: How long it has run, over all starts.
    """

    values: dict[str, str]
    folder: Path
    config: dict[str, Any]
    result: dict[str, float] | None = None
    error: str = ""
    minutes: float = 0.0


def summary(jobs: Sequence[Job]) -> str:
    """Return a table of results: one line for each combination, with mean and standard deviation over its seeds."""
    groups: dict[tuple[tuple[str, str], ...], list[Job]] = {}
    for job in jobs:
        groups.setdefault(tuple((key, value) for key, value in job.values.items() if key != "seed"), []).append(job)
    names = _metric_names(jobs)
    rows = [["settings", "runs", *names]]
    for values, group in groups.items():
        ended = [job.result for job in group if job.result is not None]
        cells = [_mean([result[name] for result in ended if name in result]) for name in names]
        counted = str(len(ended)) if len(ended) == len(group) else f"{len(ended)} of {len(group)}"
        rows.append([" ".join(f"{key}={value}" for key, value in values) or "-", counted, *cells])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines + [f"failed: {job.folder.name}: {job.error}" for job in jobs if job.error])


def columns(jobs: Sequence[Job]) -> str:
    """Return all runs as tab-separated lines: folder, settings, results."""
    keys = list(dict.fromkeys(key for job in jobs for key in job.values))
    names = _metric_names(jobs)
    lines = ["\t".join(["run", *keys, *names, "error"])]
    for job in jobs:
        scores = [f"{job.result[name]:.4f}" if job.result and name in job.result else "" for name in names]
        lines.append("\t".join([job.folder.name, *(job.values.get(key, "") for key in keys), *scores, job.error]))
    return "\n".join(lines)


def _metric_names(jobs: Sequence[Job]) -> list[str]:
    return list(dict.fromkeys(name for job in jobs if job.result for name in job.result))


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "-"
    deviation = f" ± {_digits(statistics.stdev(values))}" if len(values) > 1 else ""
    mean = statistics.mean(values)
    return f"{_digits(mean)}{deviation}" if math.isfinite(mean) else "-"


def _digits(value: float) -> str:
    """Return a number with two decimals, or three significant digits if it is below 1."""
    return f"{value:.2f}" if abs(value) >= 1 or not value else f"{value:.3g}"
