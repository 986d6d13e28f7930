"""A sweep: runs of one config for every combination of some settings, with several seeds each, in turn or in parallel.

Each run is a separate nmt-train process, so that it resumes, saves and fails as any run does. The record `sweep.json`
lists the runs that have ended with their results; the same sweep resumes where it stopped.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from nmt.config import Config, load_config
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.system.files import explain, lock_alone, read_small, remedy, write_bytes
from nmt.train.log.progress import format_seconds
from nmt.train.sweep_table import Job, columns
from nmt.train.tasks.prepare import made_folder

RECORD_NAME = "sweep.json"
TABLE_NAME = "sweep.tsv"
_MOST_RECORD_BYTES = 256 * 2**20
_MOST_NAME = 120
_POLL_SECONDS = 0.2
_REPORT_SECONDS = 60.0
"""Seconds between lines of progress if no terminal shows it continuously."""
_MOST_LINE_BYTES = 4096

Grid = Sequence[tuple[str, Sequence[str]]]
"""Settings by dotted key, each with its values as YAML."""


def parse_grid(texts: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the keys and values of each text `KEY.PATH=V1,V2`; commas within brackets do not separate values. Raises
    ConfigError."""
    found: dict[str, list[str]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        parts = _split(values)
        if not equals or not key.strip() or not all(parts):
            example = "training.learning_rate=1e-3,2e-3"
            raise ConfigError(f"--grid {text}: must be KEY.PATH=V1,V2 without spaces, as in {example}")
        if key.strip() in found:
            raise ConfigError(f"--grid {text}: each key must be given once, got {key.strip()} again; join its values")
        found[key.strip()] = list(dict.fromkeys(parts))
    return list(found.items())


def _split(text: str) -> list[str]:
    """Return the parts of a text between commas outside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


@dataclass
class Sweep:
    """The runs of a grid. `command`: the command that starts nmt-train, to which config and options are added;
    `options`: options of every run, in addition to its own settings."""

    config_file: str
    folder: Path
    jobs: list[Job]
    command: Sequence[str]
    options: Sequence[str] = ()
    _running: dict[int, tuple[Job, subprocess.Popen[bytes], float]] = field(default_factory=dict)
    _signal: int | None = None
    _others: list[Job] = field(default_factory=list)
    """Runs of other grids in the same folder, which stay in the record and in the table."""
    _warnings: set[str] = field(default_factory=set)
    """Warnings of runs that have been shown."""

    def run(
        self, processes: int, notify: Callable[[str], None], show: Callable[[str], None] | None = None
    ) -> int | None:
        """Run the jobs that have not ended yet, `processes` at a time; a failed run does not end the others. Raises
        CheckpointError if the folder cannot be written, or another sweep is using it.

        Args:
            notify: Receives a line when a run begins or ends and, without `show`, a line of progress once a minute.

        Returns:
            The signal that ended the sweep, after the active runs have saved; None if all runs have ended.
        """
        with self._own_folder(), self._signals():
            self._load_results()
            waiting = [job for job in self.jobs if job.result is None]
            began, done_before = time.monotonic(), len(self.jobs) - len(waiting)
            reported_at = began
            if done_before:
                notify(f"sweep: {done_before} of {len(self.jobs)} runs have ended before")
            while waiting or self._running:
                while waiting and len(self._running) < processes and self._signal is None:
                    job = waiting.pop(0)
                    self._start(job)
                    notify(f"sweep: begun {job.folder.name}")
                for job in self._ended():
                    self._save()
                    for line in self._new_warnings(job):
                        notify(f"sweep: {job.folder.name}: {line}")
                    done = sum(one.result is not None or bool(one.error) for one in self.jobs)
                    pace = (time.monotonic() - began) / max(1, done - done_before)
                    left = format_seconds(pace * (len(self.jobs) - done))
                    what = job.error or ("done" if job.result else "stopped")
                    notify(f"sweep: ended {job.folder.name}: {what}; {done} of {len(self.jobs)}, left {left}")
                if self._signal is not None and not self._running:
                    return self._signal
                if show is not None:
                    show(self._progress())
                elif self._running and time.monotonic() - reported_at >= _REPORT_SECONDS:
                    reported_at = time.monotonic()
                    notify(f"sweep: {self._progress()}")
                time.sleep(_POLL_SECONDS)
            self._save()
        return None

    def _progress(self) -> str:
        """Return the progress of the active runs, from their latest output."""
        words = {job.folder.name: _last_words(_log(job, "err")) for job, _, _ in self._running.values()}
        return "; ".join(f"{name}: {line or 'begins'}" for name, line in words.items())

    def _new_warnings(self, job: Job) -> list[str]:
        """Return the warnings of a run, each text once in a sweep."""
        lines = _log(job, "err").read_text("utf-8", "replace").splitlines()
        new = dict.fromkeys(line for line in lines if line.startswith("warning: ") and line not in self._warnings)
        self._warnings |= new.keys()
        return list(new)

    def _start(self, job: Job) -> None:
        """Start a run; its output goes into files next to its folder."""
        settings = {**job.values, "model_dir": json.dumps(str(job.folder))}
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        with _log(job, "out").open("wb") as out, _log(job, "err").open("wb") as err:
            process = subprocess.Popen(
                [*self.command, self.config_file, *self.options, *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,  # this process passes Ctrl-C on, once
                preexec_fn=_end_with_parent,
            )
        self._running[process.pid] = (job, process, time.monotonic())

    def _ended(self) -> Iterator[Job]:
        """Yield the runs that have ended since the last call, with their results."""
        for number, (job, process, began) in list(self._running.items()):
            code = process.poll()
            if code is None:
                continue
            del self._running[number]
            job.minutes = round(job.minutes + (time.monotonic() - began) / 60, 3)
            if code == 0:
                job.result = _result(_log(job, "out").read_text("utf-8", "replace"))
                job.result["minutes"] = job.minutes
                job.error = ""
            elif self._signal is None or code not in (128 + signal.SIGINT, 128 + signal.SIGTERM):
                job.error = _reason(_log(job, "err")) or f"exit code {code}"
            yield job

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Pass SIGINT and SIGTERM on to the runs, which save and exit."""

        def stop(number: int, frame: Any) -> None:
            self._signal = number
            for _, process, _ in self._running.values():
                with contextlib.suppress(OSError):
                    process.send_signal(signal.SIGTERM)

        try:
            numbers = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) != signal.SIG_IGN]
            former = {number: signal.signal(number, stop) for number in numbers}
        except ValueError:  # not the main thread: the caller handles signals
            former = {}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def _own_folder(self) -> Iterator[None]:
        """Make the folder and keep other sweeps out of it."""
        handle = made_folder(self.folder)
        try:
            if not lock_alone(handle):
                raise CheckpointError(
                    f"{self.folder}: must not be in use, got another sweep at work in it; wait for it, or name another"
                )
            yield
        finally:
            os.close(handle)

    def _load_results(self) -> None:
        """Read the record: the results of runs that have already ended with the same settings, and the runs of other
        grids."""
        try:
            known = json.loads(read_small(self.folder / RECORD_NAME, _MOST_RECORD_BYTES))["runs"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return
        jobs = {job.folder.name: job for job in self.jobs}
        for name, entry in known.items() if isinstance(known, dict) else ():
            if not isinstance(entry, dict) or not {"values", "config", "result"} <= entry.keys():
                continue
            if name not in jobs:
                self._others.append(Job(folder=self.folder / name, **entry))
            elif entry["config"] == jobs[name].config:
                jobs[name].minutes = entry.get("minutes", 0.0)
                jobs[name].result = entry["result"] and dict(entry["result"])

    def _save(self) -> None:
        """Write the record and the table."""
        every = self._others + self.jobs
        names = [name for name in Job.__dataclass_fields__ if name != "folder"]
        runs = {job.folder.name: {name: getattr(job, name) for name in names} for job in every}
        try:
            write_bytes(self.folder / RECORD_NAME, (json.dumps({"runs": runs}, indent=1) + "\n").encode())
            write_bytes(self.folder / TABLE_NAME, (columns(every) + "\n").encode())
        except OSError as error:
            raise CheckpointError(f"{self.folder}: must be writable, got {explain(error)}; {remedy(error)}") from None


def plan(
    config: str | Mapping[str, Any], overrides: Sequence[str], grid: Grid, seeds: int, folder: Path | None
) -> tuple[Path, list[Job]]:
    """Return the folder of the sweep and its runs: every combination of the grid's values, with each of `seeds` seeds,
    all checked. Raises ConfigError if a combination is not valid.

    Args:
        config: The file of the settings, or the settings.
        seeds: Number of runs of each combination, with the config's seed and those that follow it.
        folder: The folder for the runs' folders; None uses the config's model_dir.
    """

    def checked(chosen: dict[str, str]) -> Config:
        """Return the settings of a combination. Without the grid, the config alone need not be valid."""
        try:
            changes = [*overrides, *(f"{key}={value}" for key, value in chosen.items())]
            return load_config(config, changes) if isinstance(config, str) else Config.from_dict(config, changes)
        except ConfigError as error:
            if not chosen:
                raise
            for key, value in chosen.items():
                if str(error).startswith(at := f"--set {key}={value}: "):
                    raise ConfigError(f"--grid {key}={value}: {str(error).removeprefix(at)}") from None
            named = " ".join(f"{key}={value}" for key, value in chosen.items())
            raise ConfigError(f"--grid: the combination {named} must be possible, got {error}") from None

    names = [key for key, _ in grid]
    first = checked({key: values[0] for key, values in grid})
    if seeds > 1:
        if "seed" in names:
            raise ConfigError("--seeds: must not be given with a grid over seed, got both; leave one out")
        grid = [*grid, ("seed", [str(first.seed + number) for number in range(seeds)])]
        names.append("seed")
    place = folder or Path(first.model_dir)
    jobs = []
    for values in product(*(values for _, values in grid)):
        chosen = dict(zip(names, values, strict=True))
        own = place / _name(chosen)
        jobs.append(Job(chosen, own, {**checked(chosen).to_dict(), "model_dir": str(own)}))
    return place, jobs


def _name(values: dict[str, str]) -> str:
    """Return a folder name for a run: its settings by the last part of each key, or by whole keys if the parts are
    ambiguous."""
    short = [key.rpartition(".")[2] for key in values]
    keys = short if len(set(short)) == len(short) else list(values)
    exact = ",".join(f"{key}={value}" for key, value in zip(keys, values.values(), strict=True))
    name = re.sub(r"[^A-Za-z0-9_.+=,-]", "_", exact)
    if name == exact and len(name) <= _MOST_NAME:
        return name or "run"
    # Different values may look the same once shortened.
    digest = hashlib.sha256(json.dumps(values).encode()).hexdigest()[:8]
    return f"{name[:_MOST_NAME]}-{digest}"


def _end_with_parent() -> None:
    """Make a run end with the sweep, before its program begins: if the sweep is killed, the run gets SIGTERM, saves and
    exits. Linux only."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _log(job: Job, kind: str) -> Path:
    return job.folder.with_name(f"{job.folder.name}.{kind}")


def _reason(path: Path) -> str:
    """Return why a run failed, from its log: its error, else its last line. Other processes may write there as well."""
    lines = path.read_text("utf-8", "replace").strip().splitlines()
    errors = [line for line in lines if line.startswith("Error: ")]
    return (errors or lines or [""])[-1].removeprefix("Error: ")


def _last_words(path: Path) -> str:
    """Return the last line of a run's output so far."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_LINE_BYTES))
        lines = file.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip() if lines else ""
    return ""


def _result(output: str) -> dict[str, float]:
    """Return the scores that nmt-train wrote to standard output. Raises DataError if it wrote something else."""
    found: dict[str, float] = {}
    for line in output.splitlines():
        kind, *cells = line.split("\t")
        try:
            if kind == "best":
                found["update"] = float(cells[1].removeprefix("update "))
                found |= {name: float(score) for name, score in (cell.split(" ") for cell in cells[2:])}
            elif kind == "test":
                found[f"test {cells[0]}"] = float(cells[1])
        except (IndexError, ValueError):
            raise DataError(f"sweep: must get the results of nmt-train, got {line[:80]!r}; see its output") from None
    return found
