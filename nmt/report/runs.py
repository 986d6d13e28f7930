"""Reads a run from its model folder: metrics.jsonl, config.yaml, data_check.json."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import DataError
from nmt.storage.model_folder import DATA_CHECK_NAME, METRICS_NAME, load_folder_config
from nmt.storage.trained_settings import flat_settings
from nmt.system.files import explain, read_json
from nmt.system.paths import absent, exists, is_file, shown

MOST_POINTS = 2_000
"""Most points of a curve: no screen is wider."""
_CURVES = {
    "train": ("loss", "nll", "ppl", "accuracy", "learning_rate", "gradient_norm", "tgt_tokens_per_second"),
    "validation": ("loss", "ppl", "accuracy", "bleu", "chrf"),
}
"""Values of events that become curves."""

Points = list[tuple[float, float, float]]
"""The points of a curve: update, minutes, value."""


@dataclass
class Run:
    """A training run.

    Attributes:
        name: The path of the folder as text.
        folder: The model folder.
        curves: Curves by names such as `train loss` and `validation bleu`.
        intervals: Half-width of the 95 % interval of BLEU, by update.
        samples: For each sample sentence its source, reference, and [update, hypothesis] whenever the hypothesis
            changed.
        events: The last event of each kind.
        best: The best validation so far; empty before the first.
        settings: Values by dotted key.
        findings: Findings of the corpus check; None if there was none.
        skipped: Number of unreadable lines in metrics.jsonl.
    """

    name: str
    folder: Path
    curves: dict[str, Points] = field(default_factory=dict)
    intervals: dict[int, float] = field(default_factory=dict)
    samples: list[dict[str, Any]] = field(default_factory=list)
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    best: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    findings: dict[str, Any] | None = None
    skipped: int = 0

    @property
    def updates(self) -> int:
        """Return the number of updates recorded."""
        return max((int(as_number(event.get("update"))) for event in self.events.values()), default=0)

    @property
    def minutes(self) -> float:
        """Return the minutes that the updates took."""
        return max((as_number(event.get("elapsed")) for event in self.events.values()), default=0.0) / 60

    @property
    def speed(self) -> float:
        """Return the mean number of target tokens per second over the lines of progress; NaN if there are none."""
        rates = [value for _, _, value in self.curves.get("train tgt_tokens_per_second", ()) if value > 0]
        return sum(rates) / len(rates) if rates else math.nan


def runs_in(names: Sequence[str]) -> list[Path]:
    """Return the model folders that are named: themselves, or the runs in the folder of a sweep, whose other files are
    passed over. A folder without runs is returned as it is."""
    found: dict[Path, None] = {}
    for folder in map(Path, names):
        runs = [] if exists(folder / METRICS_NAME) else sorted(path.parent for path in folder.glob(f"*/{METRICS_NAME}"))
        beside = is_file(folder) and any(folder.parent.glob(f"*/{METRICS_NAME}"))
        found |= dict.fromkeys(runs or ([] if beside else [folder]))
    return list(found)


def read_run(folder: Path) -> Run:
    """Return the run in a model folder; of updates that a resumed run repeated, the later events. Raises DataError."""
    run = Run(shown(folder), folder)
    path = folder / METRICS_NAME
    raw: dict[str, dict[int, tuple[Any, ...]]] = {kind: {} for kind in _CURVES}
    try:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            for line in map(str.strip, file):
                if (event := event_of(line)) is None:
                    run.skipped += bool(line)
                else:
                    _note(run, raw, event)
    except OSError as error:
        if not exists(folder):
            raise DataError(absent(folder, "folder")) from None
        fact = "one without" if isinstance(error, FileNotFoundError) else explain(error)
        raise DataError(
            f"{folder}: must be a model folder with {METRICS_NAME}, got {fact}; give the folder of model_dir"
        ) from None
    if not run.events:
        raise DataError(f"{path}: must contain the events of a run, got none; train first")
    for kind, keys in _CURVES.items():
        updates = sorted(raw[kind])
        table = _numbers([raw[kind][update] for update in updates])
        for place, key in enumerate(keys, start=1):
            numbers = np.flatnonzero(np.isfinite(table[:, place])) if updates else ()
            if len(numbers):
                run.curves[f"{kind} {key}"] = [
                    (updates[n], round(float(np.nan_to_num(table[n, 0])) / 60, 3), float(f"{table[n, place]:.5g}"))
                    for n in numbers[thinned(table[numbers, place])]
                ]
    if exists(folder / "config.yaml"):
        run.settings = dict(flat_settings(load_folder_config(folder).to_dict()))
    found = read_json(folder / DATA_CHECK_NAME)
    run.findings = found if found is not None and isinstance(found.get("findings"), list) else None
    return run


def thinned(values: np.ndarray, most: int = MOST_POINTS) -> np.ndarray:
    """Return the indices of at most `most` values of a curve [N], in order: the lowest and highest value of each
    stretch, so that no peak is lost, and the first and last value."""
    if len(values) <= most:
        return np.arange(len(values))
    starts = 1 + np.arange((most - 2) // 2 + 1) * (len(values) - 2) // ((most - 2) // 2)
    stretches = [(first, values[first:last]) for first, last in zip(starts[:-1], starts[1:], strict=True)]
    inner = [first + place for first, part in stretches for place in (part.argmin(), part.argmax())]
    return np.unique([0, *inner, len(values) - 1])


def as_number(value: Any) -> float:
    """Return a finite number as a float, and 0 for anything else."""
    try:
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0
    except OverflowError:  # an integer of hundreds of digits
        return 0.0


def _numbers(rows: list[tuple[Any, ...]]) -> np.ndarray:
    """Return rows of values as a table, float64 [N, n]; NaN for what is not a number."""
    if not set(map(type, chain.from_iterable(rows))) <= {float, int, type(None)}:
        rows = [tuple(value if isinstance(value, int | float) else None for value in row) for row in rows]
    try:
        return np.array(rows, np.float64)
    except OverflowError:  # an integer of hundreds of digits
        return np.full((len(rows), len(rows[0])), math.nan)


def event_of(line: str) -> dict[str, Any] | None:
    """Return the event that a line of metrics.jsonl without spaces around it is; None for others, as a crash leaves."""
    try:
        event, end = _decode(line)
    except (ValueError, RecursionError):
        return None
    return event if end == len(line) and isinstance(event, dict) and isinstance(event.get("event"), str) else None


_decode = json.JSONDecoder().raw_decode
"""Decode as json.loads does, in two thirds of the time."""


def _note(run: Run, raw: dict[str, dict[int, tuple[Any, ...]]], event: dict[str, Any]) -> None:
    """Add one event to a run, and its seconds and values to `raw`, the data of the curves by update."""
    kind, update = event["event"], event.get("update")
    run.events[kind] = event
    if kind == "validation" and event.get("best"):
        run.best = event
    if kind == "samples" and isinstance(update, int):
        _note_samples(run, update, event)
    if kind in _CURVES and isinstance(update, int):
        get = event.get
        # A tuple of numbers, which the garbage collector does not keep tracking.
        raw[kind][update] = (get("elapsed"), *map(get, _CURVES[kind]))


def _note_samples(run: Run, update: int, event: Mapping[str, Any]) -> None:
    """Add the sample translations of a validation that have changed."""
    intervals = event.get("intervals")
    if isinstance(intervals, dict) and isinstance(intervals.get("bleu"), int | float):
        run.intervals[update] = float(intervals["bleu"])
    rows = event.get("samples")
    for number, row in enumerate(rows if isinstance(rows, list) else []):
        if not isinstance(row, dict):
            continue
        if number >= len(run.samples):
            run.samples.append({"source": row.get("source"), "reference": row.get("reference"), "changes": []})
        changes = run.samples[number]["changes"]
        while changes and changes[-1][0] >= update:
            changes.pop()
        if not changes or changes[-1][1] != row.get("hypothesis"):
            changes.append([update, row.get("hypothesis")])
