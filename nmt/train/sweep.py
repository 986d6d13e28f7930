"""A sweep: runs of one config for every combination of some settings, with several seeds each, in turn or in parallel.

Each run is a separate nmt-train process in a folder of its own, so that it resumes, saves and fails as any run does.
A run that has ended has its result next to its folder, in NAME.json, and is not repeated.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from nmt.config import Config, load_config
from nmt.errors import CheckpointError, ConfigError
from nmt.system.files import explain, lock_alone, read_small, remedy, write_bytes
from nmt.system.paths import absent, exists
from nmt.system.terminal import reason
from nmt.train.tasks.prepare import check_trainable, made_folder

TABLE_NAME = "sweep.tsv"
_MOST_RECORD_BYTES = 2**20
_MOST_NAME = 120
_POLL_SECONDS = 0.2

Grid = Sequence[tuple[str, Sequence[str]]]
"""Settings by dotted key, each with its values as YAML."""


@dataclass
class SweepRun:
    """One run: its settings by key as they were given, its folder, all its settings, and what came of it.

    result: The best checkpoint's scores by metric, test scores (`test BLEU`) and `update`; None until the run has
    ended. error: The error message if it failed.
    """

    values: dict[str, str]
    folder: Path
    config: dict[str, Any]
    result: dict[str, float] | None = None
    error: str = ""

    def file(self, kind: str) -> Path:
        """Return a file next to the folder: `json`, the result; `out` and `err`, what nmt-train wrote."""
        return self.folder.with_name(f"{self.folder.name}.{kind}")

    def recall(self) -> None:
        """Read the result, if the run has ended with the same settings."""
        try:
            known = json.loads(read_small(self.file("json"), _MOST_RECORD_BYTES))
            if known["config"] == self.config:
                self.result = {str(name): float(score) for name, score in known["result"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return

    def end(self, code: int) -> None:
        """Set and keep the result, or the error, of a process that has ended with this exit code."""
        if code:
            self.error = reason(self.file("err").read_bytes(), code)
            return
        self.result = {}
        for line in self.file("out").read_text("utf-8", "replace").splitlines():
            kind, *cells = line.split("\t")
            if kind == "best":
                self.result["update"] = float(cells[1].removeprefix("update "))
                self.result |= {name: float(score) for name, score in (cell.split(" ") for cell in cells[2:])}
            elif kind == "test":
                self.result[f"test {cells[0]}"] = float(cells[1])
        write_bytes(self.file("json"), json.dumps({"config": self.config, "result": self.result}).encode())


def parse_grid(texts: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return keys and values of texts `KEY.PATH=V1,V2`; commas in brackets separate none. Raises ConfigError."""
    found: dict[str, list[str]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        parts = [part.strip() for part in re.split(r",(?![^\[{]*[\]}])", values)]
        if not equals or not key.strip() or not all(parts):
            example = "training.learning_rate=1e-3,2e-3"
            raise ConfigError(f"--grid {text}: must be KEY.PATH=V1,V2 without spaces, as in {example}")
        if key.strip() in found:
            raise ConfigError(f"--grid {text}: each key must be given once, got {key.strip()} again; join its values")
        found[key.strip()] = list(dict.fromkeys(parts))
    return list(found.items())


def plan(
    config: str, overrides: Sequence[str], grid: Grid, seeds: int, folder: Path | None
) -> tuple[Path, list[SweepRun]]:
    """Return the folder of the sweep and its runs: every combination of the grid's values, with each of `seeds` seeds,
    all checked. Raises ConfigError if a combination is not valid. `config`: the file of the settings; `seeds`: number
    of runs of each combination, with the config's seed and those that follow it; `folder`: the folder for the runs'
    folders; None uses the config's model_dir."""

    if not exists(Path(config)):
        raise ConfigError(absent(config))

    def checked(chosen: dict[str, str]) -> Config:
        """Return the settings of a combination. Without the grid, the config alone need not be valid."""
        try:
            found = load_config(config, [*overrides, *(f"{key}={value}" for key, value in chosen.items())])
            check_trainable(found)
            return found
        except ConfigError as error:
            for key, value in chosen.items():
                if str(error).startswith(at := f"--set {key}={value}: "):
                    raise ConfigError(f"--grid {key}={value}: {str(error).removeprefix(at)}") from None
            if not chosen:
                raise
            named = " ".join(f"{key}={value}" for key, value in chosen.items())
            raise ConfigError(f"--grid: the combination {named} must be possible, got {error}") from None

    first = checked({key: values[0] for key, values in grid})
    if seeds > 1:
        if any(key == "seed" for key, _ in grid):
            raise ConfigError("--seeds: must not be given with a grid over seed, got both; leave one out")
        grid = [*grid, ("seed", [str(first.seed + number) for number in range(seeds)])]
    place = folder or Path(first.model_dir)
    runs = []
    for values in product(*(values for _, values in grid)):
        chosen = dict(zip((key for key, _ in grid), values, strict=True))
        own = place / _name(chosen)
        runs.append(SweepRun(chosen, own, {**checked(chosen).to_dict(), "model_dir": str(own)}))
    return place, runs


def _name(values: dict[str, str]) -> str:
    """Return a folder name for a run: its settings by the last parts of keys, or by whole keys if those clash."""
    short = [key.rpartition(".")[2] for key in values]
    keys = short if len(set(short)) == len(short) else list(values)
    exact = ",".join(f"{key}={value}" for key, value in zip(keys, values.values(), strict=True))
    name = re.sub(r"[^A-Za-z0-9_.+=,-]", "_", exact)
    if name == exact and len(name) <= _MOST_NAME:
        return name or "run"
    # Different values may look the same once shortened.
    digest = hashlib.sha256(json.dumps(values).encode()).hexdigest()[:8]
    return f"{name[:_MOST_NAME]}-{digest}"


def run_sweep(
    command: Sequence[str], folder: Path, runs: list[SweepRun], processes: int, notify: Callable[[str], None]
) -> int | None:
    """Run what has not ended yet, `processes` at a time; a failed run does not end the others. Raises CheckpointError
    if the folder cannot be written, or another sweep is using it. `command`: nmt-train with the config and the options
    of every run; its own settings are added; `notify`: receives a line when a run begins or ends. Returns the signal
    that ended the sweep, after the active runs have saved; None if all runs have ended."""
    active: dict[subprocess.Popen[bytes], SweepRun] = {}
    got: list[int] = []

    def stop(number: int, frame: Any) -> None:
        got.append(number)
        for process in active:
            process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))

    handle = made_folder(folder)
    former = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        if not lock_alone(handle):
            raise CheckpointError(
                f"{folder}: must not be in use, got another sweep at work in it; wait for it, or name another"
            )
        for run in runs:
            run.recall()
        waiting = [run for run in runs if run.result is None]
        while (waiting and not got) or active:
            while waiting and len(active) < processes and not got:
                run = waiting.pop(0)
                active[_start(command, run)] = run
                notify(f"sweep: begun {run.folder.name}; {len(waiting)} runs wait")
            for process, run in list(active.items()):
                if (code := process.poll()) is not None:
                    del active[process]
                    if not (got and code > 128):
                        run.end(code)
                    notify(f"sweep: ended {run.folder.name}: {run.error or ('done' if run.result else 'stopped')}")
            time.sleep(_POLL_SECONDS)
        write_bytes(folder / TABLE_NAME, (columns(runs) + "\n").encode())
    except OSError as error:
        raise CheckpointError(f"{folder}: must be writable, got {explain(error)}; {remedy(error)}") from None
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        os.close(handle)
    return got[0] if got else None


def _start(command: Sequence[str], run: SweepRun) -> subprocess.Popen[bytes]:
    """Start a run; its output goes into files next to its folder."""
    settings = {**run.values, "model_dir": json.dumps(str(run.folder))}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    with run.file("out").open("wb") as out, run.file("err").open("wb") as err:
        # In a session or group of its own, since the sweep passes Ctrl-C on, once.
        alone: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            alone = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        return subprocess.Popen([*command, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err, **alone)


def summary(runs: Sequence[SweepRun]) -> str:
    """Return a table of results: one line for each combination, with mean and standard deviation over its seeds."""
    groups: dict[tuple[tuple[str, str], ...], list[SweepRun]] = {}
    for run in runs:
        groups.setdefault(tuple((key, value) for key, value in run.values.items() if key != "seed"), []).append(run)
    names = _metric_names(runs)
    rows = [["settings", "runs", *names]]
    for values, group in groups.items():
        ended = [run.result for run in group if run.result is not None]
        cells = [_mean([result[name] for result in ended if name in result]) for name in names]
        counted = str(len(ended)) if len(ended) == len(group) else f"{len(ended)} of {len(group)}"
        rows.append([" ".join(f"{key}={value}" for key, value in values) or "-", counted, *cells])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines + [f"failed: {run.folder.name}: {run.error}" for run in runs if run.error])


def columns(runs: Sequence[SweepRun]) -> str:
    """Return all runs as tab-separated lines: folder, settings, results."""
    keys = list(dict.fromkeys(key for run in runs for key in run.values))
    names = _metric_names(runs)
    lines = ["\t".join(["run", *keys, *names, "error"])]
    for run in runs:
        scores = [f"{run.result[name]:.4f}" if run.result and name in run.result else "" for name in names]
        lines.append("\t".join([run.folder.name, *(run.values.get(key, "") for key in keys), *scores, run.error]))
    return "\n".join(lines)


def _metric_names(runs: Sequence[SweepRun]) -> list[str]:
    return list(dict.fromkeys(name for run in runs if run.result for name in run.result))


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "-"
    deviation = f" ± {_digits(statistics.stdev(values))}" if len(values) > 1 else ""
    mean = statistics.mean(values)
    return f"{_digits(mean)}{deviation}" if math.isfinite(mean) else "-"


def _digits(value: float) -> str:
    """Return a number with two decimals, or three significant digits if it is below 1."""
    return f"{value:.2f}" if abs(value) >= 1 or not value else f"{value:.3g}"
