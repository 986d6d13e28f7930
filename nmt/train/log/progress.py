"""Output of a run: lines on stderr, the same in train.log with times, events in metrics.jsonl; and its memory."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import psutil

from nmt.errors import one_line
from nmt.storage.model_folder import LOG_NAME, METRICS_NAME
from nmt.system.files import explain
from nmt.system.terminal import coloured, is_live, live


class TrainingLog:
    """Writes lines to terminal and model folder. A failure to write never ends a run. `folder`: the model folder; None
    to write no files; `terminal`: the stream for the user; None for no output."""

    def __init__(self, folder: Path | None, terminal: TextIO | None = None) -> None:
        self._terminal: TextIO | None = terminal
        self._is_live = is_live(terminal)
        self._live_shown = False
        self._files: dict[str, TextIO] = {}
        if folder is not None:
            for name in (LOG_NAME, METRICS_NAME):
                self._open(folder / name)

    def line(self, text: str) -> None:
        """Write one line to terminal and train.log."""
        text = one_line(text)
        self.live("")
        self._print(coloured(text, self._terminal) + "\n")
        self.note(text)

    def note(self, text: str) -> None:
        """Write one line to train.log only."""
        stamp = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S")
        self._write(LOG_NAME, f"{stamp}  {text}\n")

    def live(self, text: str) -> None:
        """Show `text` in the terminal's last line until the next output; "" removes it."""
        if not self._is_live or not (text or self._live_shown):
            return
        self._print(live(text))
        self._live_shown = bool(text)

    def event(self, kind: str, **values: Any) -> None:
        """Append one JSON object to metrics.jsonl; NaN and infinity become null."""
        record = {"event": kind, "time": round(time.time(), 3), **values}
        finite = {key: _finite(value) for key, value in record.items()}
        self._write(METRICS_NAME, json.dumps(finite, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Close the files."""
        self.live("")
        for file in self._files.values():
            with contextlib.suppress(OSError):
                file.close()
        self._files.clear()

    def _open(self, path: Path) -> None:
        """Open a file for appending; print a warning if that fails."""
        try:
            # A run that was killed, or found the disk full, may have left an incomplete line.
            cut = _ends_within_line(path)
            self._files[path.name] = path.open("a", encoding="utf-8")
        except OSError as error:
            self._warn(f"{path} cannot be written ({explain(error)}); going on without it")
            return
        if cut:
            self._write(path.name, "\n")

    def _write(self, name: str, text: str) -> None:
        """Write text to an open file; if that fails, warn once and continue without the file."""
        if (file := self._files.get(name)) is None:
            return
        try:
            file.write(text)
            file.flush()
        except OSError as error:
            del self._files[name]
            self._warn(f"{name} cannot be written ({explain(error)}); going on without it")

    def _warn(self, text: str) -> None:
        self._print(coloured(f"warning: {text}", self._terminal) + "\n")

    def _print(self, text: str) -> None:
        """Write to the terminal; stop doing so once its reader has gone."""
        if self._terminal is None:
            return
        try:
            self._terminal.write(text)
            self._terminal.flush()
        except (OSError, ValueError):
            self._terminal = None  # `nmt-train ... 2>&1 | head` must not end the training
            self._is_live = False


_SUSPENDED, _TIMES = 60.0, 10.0
"""Seconds, and times the longest of its kind before, from which work was not done but suspended."""


class Stopwatch:
    """Measures the seconds spent in each kind of work since its creation. A process that was stopped, or whose machine
    slept, has not worked: a block that took so much longer than those of its kind counts as the longest of these."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.seconds: dict[str, float] = {}
        self._longest: dict[str, float] = {}

    @contextlib.contextmanager
    def measure(self, kind: str) -> Iterator[None]:
        """Add the duration of this block to `kind`."""
        began = time.monotonic()
        try:
            yield
        finally:
            taken, longest = time.monotonic() - began, self._longest.get(kind, math.inf)
            if taken > max(_SUSPENDED, _TIMES * longest):
                self.started += taken - longest
                taken = longest
            self._longest[kind] = max(taken, self._longest.get(kind, 0.0))
            self.seconds[kind] = self.seconds.get(kind, 0.0) + taken

    @property
    def total(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self.started

    def summary(self) -> str:
        """Return the shares as text: `training 92% of 12m30s, validation 7%, saving 1%`."""
        total = max(self.total, 1e-9)
        shares = sorted(self.seconds.items(), key=lambda item: -item[1])
        parts = [f"{kind} {seconds / total:.1%}" for kind, seconds in shares]
        other = total - sum(self.seconds.values())
        return f"time {format_seconds(total)}: " + ", ".join([*parts, f"other {other / total:.1%}"])


def format_seconds(seconds: float) -> str:
    """Return a duration as `8s`, `12m05s` or `3h07m`."""
    if not math.isfinite(seconds):
        return "?"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def perplexity(nll: float) -> float:
    """Return e to the power of the mean negative log-likelihood per token; infinity if that overflows."""
    try:
        return math.exp(nll)
    except OverflowError:
        return math.inf


def _ends_within_line(path: Path) -> bool:
    """Return whether the last line of a file lacks its line end."""
    if not path.exists() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read() != b"\n"


def _finite(value: Any) -> Any:
    """Return a value that JSON can represent: floats rounded, None for NaN and infinity."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value


_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


def peak_bytes() -> int:
    """Return the peak resident memory since `reset_peak`, or since the process started if that had no effect."""
    if sys.platform == "win32":
        peak: int = psutil.Process().memory_info().peak_wset
        return peak
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def reset_peak() -> bool:
    """Reset the peak; return whether the system supports that (Linux: proc(5), clear_refs)."""
    if sys.platform == "win32":
        return False
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def format_bytes(size: float) -> str:
    """Return a size in a suitable unit: `1.42 GiB`, `37.5 MiB` or `12 KiB`."""
    if size >= 1 << 30:
        return f"{size / (1 << 30):.2f} GiB"
    return f"{size / (1 << 20):.1f} MiB" if size >= 1 << 20 else f"{size / (1 << 10):.0f} KiB"
