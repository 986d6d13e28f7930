"""Rounds: each a model folder that nmt-train writes, its texts next to it, and a record of its purpose."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from typing import Any

from nmt.report.runs import event_of
from nmt.storage.model_folder import BEST_NAME, CONFIG_NAME, LAST_NAME, METRICS_NAME
from nmt.studio.errors import Refused
from nmt.studio.projects import ROUNDS, Project, kept_json, safe_name, write_json
from nmt.system.files import lock_alone, open_folder, read_json

_PHASES = {"data: ": "checking", "budget: ": "checking", "alignment: ": "timing", "compiling ": "timing"}
_PHASES["subwords: "] = "pieces"
"""Phases before the first update, by the beginning of the last line of the log."""
_MOST_READ = 2**20
REPORT = ".report.json"
FREE = 700 * 2**20
"""Bytes that a training needs on the disk."""
_ALIVE = 60.0
"""Seconds after its last sign of life for which a training is taken to go on."""
_MINUTES = re.compile(r"^ *max_minutes: ([\d.]+)$", re.MULTILINE)
_WEIGHT = 5.0
"""Times that a corrected pair is read for each time that another is."""
_SHOWN = "minutes began pairs new corrections direction preset on held words".split()
"""The parts of the record that the page is shown."""


class Round:
    """A round of a project."""

    def __init__(self, project: Project, number: int) -> None:
        self.project, self.number = project, number
        self.folder = project.round_file(number)
        self._path = project.round_file(number, ".json")
        self.log = project.round_file(number, ".log")
        if not self._path.is_file():
            raise Refused("no-such-round")

    @classmethod
    def make(cls, project: Project, **facts: Any) -> Round:
        """Begin the next round. `facts`: minutes, direction, preset, and `on`, the round to go on from."""
        number = max(project.rounds(), default=0) + 1
        name = f"{safe_name(project.values['name'])}-{number}"
        write_json(project.round_file(number, ".json"), {"n": number, "name": name, "began": time.time(), **facts})
        return cls(project, number)

    @property
    def record(self) -> dict[str, Any]:
        """Return what is known of it."""
        return self.project.record(self.number)

    def note(self, **facts: Any) -> None:
        """Add facts to the record."""
        write_json(self._path, self.record | facts)

    def begin(self, process: int) -> None:
        """Note the process that trains it from now on."""
        self.note(child=process, logged=self._size, error=None)

    @property
    def report(self) -> dict[str, Any] | None:
        """Return the report, if it was tested."""
        return read_json(self.project.round_file(self.number, REPORT))

    @property
    def quality(self) -> dict[str, Any] | None:
        """Return how good it is, if it was tested; must not be changed."""
        return (self.result or {}).get("quality")

    @property
    def result(self) -> dict[str, Any] | None:
        """Return how good it is, and how it compares with earlier ones, if it was tested; must not be changed."""
        return kept_json(self.project.round_file(self.number, REPORT), "quality", "before")

    @property
    def has_begun(self) -> bool:
        """Return whether there is something to go on from."""
        return (self.folder / LAST_NAME).is_file()

    @property
    def has_model(self) -> bool:
        """Return whether it can translate."""
        return (self.folder / CONFIG_NAME).is_file() and ((self.folder / BEST_NAME).is_file() or self.has_begun)

    @property
    def has_ended(self) -> bool:
        """Return whether its training has come to its end."""
        return bool(self.record.get("ended")) or "end" in {one["event"] for one in self._last(2**16)[-4:]}

    @property
    def elapsed(self) -> float:
        """Return the seconds of training so far."""
        return next((one["elapsed"] for one in reversed(self._last()) if one.get("elapsed")), 0.0)

    @property
    def is_locked(self) -> bool:
        """Return whether a process trains it, as one may that has outlived an earlier studio."""
        if not self.folder.is_dir():
            return False
        handle = open_folder(self.folder)
        try:
            return not lock_alone(handle)
        finally:
            os.close(handle)

    @property
    def arguments(self) -> list[str]:
        """Return the command: that of nmt-train, which anybody can run in the project's folder."""
        record = self.record
        here, codes = f"{ROUNDS}/{self.number}", record["codes"]
        source, target = (codes[side] for side in record["direction"])
        files = [f"{here}.train.{code}" for code in (source, target)]
        command = ["train", *files, "-o", here, "-s", source, "-t", target, "--stop-with-stdin"]
        if record["held"]["dev"]:
            command += [word for code in (source, target) for word in ("--dev", f"{here}.dev.{code}")]
        if record.get("preset"):
            command += ["--preset", record["preset"], "--set", "data.subwords.vocab_size=auto"]
        if record.get("on"):
            command += ["--set", f"training.load_model={ROUNDS}/{record['on']}"]
        if record["corrections"]:
            corpora = [{"path": f"{here}.train"}, {"path": f"{here}.corrections", "weight": _WEIGHT}]
            command += ["--set", f"data.train={json.dumps(corpora)}"]
        command += ["--set", f"name={json.dumps(record['name'])}"]
        seconds = record.get("finishing") or 60 * record["minutes"]
        return [*command, "--budget", f"{max(30, round(seconds))}s"]

    def view(self, doing: str = "") -> dict[str, Any]:
        """Return it as the page takes it. `doing`: the wish with which it is trained now, `train` without one, `test`
        while it is tested; empty if nothing is done."""
        record, quality, events = self.record, self.quality, self._last(2**16)
        has_started = bool(events) and self._size > record.get("logged", 0)
        state = "failed" if record.get("error") else "done" if quality else "paused"
        if doing == "test" or (state == "paused" and not doing and self.has_ended):
            state = "testing"
        elif doing or (state == "paused" and self.is_locked):
            state = "training" if has_started else "starting"
            state = state if doing in ("train", "longer") else "stopping"
        error, free = record.get("error"), shutil.disk_usage(self.project.folder).free
        if state == "paused" and free < FREE:  # the reason of its end could not be written
            error = Refused("disk-full", need=FREE, free=free).to_dict()
        phase = "testing" if state == "testing" else None
        if doing and state != "testing":
            phase = "saving" if state == "stopping" else "training" if has_started else self._phase(record)
            phase = "validating" if has_started and events[-1]["event"] == "samples" else phase
        elapsed = self.elapsed + (min(_ALIVE, max(0.0, time.time() - self._alive)) if state == "training" else 0.0)
        return {
            "n": self.number,
            **{name: record.get(name) for name in _SHOWN},
            "error": error,
            "state": state,
            "phase": phase,
            "elapsed": elapsed,
            "left": max(0.0, self._seconds - elapsed) if state in ("training", "starting", "paused") else None,
            "quality": quality,
            "model": self.has_model,
            "command": " ".join(["nmt-train", *self.arguments[1:]]) if record.get("prepared") else "",
        }

    def progress(self, start: int, doing: str) -> dict[str, Any]:
        """Return what has happened after a place in metrics.jsonl."""
        data = self._read(start, _MOST_READ)
        whole, points, samples = data[: data.rfind(b"\n") + 1], [], []
        for one in _events(whole):
            if one["event"] == "validation":
                points.append({"seconds": one.get("elapsed"), "chrf": one.get("chrf"), "update": one.get("update")})
            elif one["event"] == "samples":
                names = {"source": "source", "reference": "reference", "translation": "hypothesis"}
                lines = [{name: row.get(own) for name, own in names.items()} for row in one.get("samples", ())]
                samples.append({"seconds": points[-1]["seconds"] if points else self.elapsed, "lines": lines})
        passes = next((one["epoch"] for one in reversed(self._last(2**16)) if "epoch" in one), None)
        found = {"points": points, "samples": samples, "passes": passes, "alive": self._alive}
        return {"round": self.view(doing), "next": start + len(whole), **found}

    @property
    def _seconds(self) -> float:
        """Return the seconds that training may take."""
        record, config = self.record, self.folder / CONFIG_NAME
        total = float(record.get("finishing") or 60 * record["minutes"])
        found = _MINUTES.search(config.read_text(encoding="utf-8")) if config.is_file() else None
        return min(total, 60 * float(found[1])) if found and not record.get("finishing") else total

    @property
    def _size(self) -> int:
        path = self.folder / METRICS_NAME
        return path.stat().st_size if path.is_file() else 0

    @property
    def _alive(self) -> float:
        paths = (self.folder / METRICS_NAME, self.log, self._path)
        return max(path.stat().st_mtime for path in paths if path.is_file())

    def _phase(self, record: dict[str, Any]) -> str:
        """Return what is done before the first update, by the last known line of the log."""
        lines = self.log.read_text("utf-8", "replace")[-4000:].splitlines() if self.log.is_file() else []
        known = [phase for line in lines for start, phase in _PHASES.items() if line.startswith(start)]
        return known[-1] if known and record.get("prepared") else "reading"

    def _last(self, most: int = _MOST_READ) -> list[dict[str, Any]]:
        """Return the last events."""
        return _events(self._read(max(0, self._size - most)))

    def _read(self, start: int, most: int = -1) -> bytes:
        try:
            with (self.folder / METRICS_NAME).open("rb") as file:
                file.seek(start)
                return file.read(most)
        except OSError:
            return b""


def _events(data: bytes) -> list[dict[str, Any]]:
    """Return the events of whole lines; others are skipped."""
    lines = data.decode("utf-8", "replace").split("\n")
    return [event for line in lines if (event := event_of(line.strip())) is not None]


def best_round(project: Project) -> int | None:
    """Return the round to use: the last one of the project's direction that no earlier one is better than."""
    best = None
    for number in project.rounds():
        one = Round(project, number)
        found = one.result
        if found is not None and one.record.get("direction") == project.values["direction"]:
            if best is None or (found["before"] or {}).get("better") != "worse":
                best = number
    return best
