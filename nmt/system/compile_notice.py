"""A notice that machine code is being compiled: a first run on a machine otherwise waits for it without explanation.

Code that compiles marks the time with `making_code`, and reports each function that is ready with `note_found`. A
command that wants notices runs its work within `telling_of_compilation`; otherwise nothing is written.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nmt.system.interruption import forkable
from nmt.system.terminal import is_live, live

_QUIET_SECONDS = 1.0
"""Compilation that takes less time is not reported."""
_LOOK_SECONDS = 0.2
_USUAL_SECONDS, _USUAL_FUNCTIONS = 0.2, 10
"""Prior for the time estimate: seconds per function, and its weight as a number of functions."""

_ONCE = "once on this machine"
_EACH_TIME = "in each run, for there is no folder to keep it in (set NMT_CACHE_DIR to one)"


class _Progress:
    """Counts functions and prints notices. The first function that has to be compiled starts its thread.

    Args:
        tell: Writes a text and its ending to standard error.
        functions: Approximate number of functions that the command needs.
        changes: Whether a terminal gets a line that changes.
    """

    def __init__(self, tell: Callable[[str, str], None], functions: int, changes: bool) -> None:
        self._tell, self._functions, self._changes = tell, functions, changes
        self._lock = forkable(threading.Lock())
        self._ended = threading.Event()
        self._found = self._first = self._depth = 0
        self._seconds = self._since = 0.0
        self._thread: threading.Thread | None = None
        self._reported = self._shown = False
        self._how = _ONCE

    def begin(self, is_kept: bool) -> None:
        """Record that the compilation of a function begins."""
        with self._lock:
            self._how = _ONCE if is_kept else _EACH_TIME
            if self._thread is None:
                self._first = self._found
                self._thread = threading.Thread(target=self._watch, name="nmt-compile-notice", daemon=True)
                self._thread.start()
            if not self._depth:
                self._since = time.monotonic()
            self._depth += 1

    def end(self) -> None:
        """Record that the compilation has ended, and clear the notice so that other output starts on an empty line."""
        with self._lock:
            self._depth -= 1
            if not self._depth:
                self._seconds += time.monotonic() - self._since
                self._clear()

    def found(self) -> None:
        """Count one more function as ready."""
        self._found += 1

    def close(self) -> None:
        """Print no more notices."""
        self._ended.set()
        with self._lock:
            self._clear()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            with self._lock:
                if self._depth and not self._ended.is_set():
                    self._report(self._seconds + time.monotonic() - self._since)

    def _report(self, seconds: float) -> None:
        """Print a notice if `seconds` of compilation warrant one."""
        if seconds < _QUIET_SECONDS:
            return
        text = f"compiling machine code, {self._how}: {self._state(seconds)}"
        if self._changes and is_live(sys.stderr):
            self._tell(live(text), "")
            self._shown = True
        elif not self._reported:
            self._tell(text, "\n")
        self._reported = True

    def _state(self, seconds: float) -> str:
        made = self._found - self._first
        left = self._functions - self._found
        if left <= 0:
            return f"function {made + 1}, {seconds:.0f} s so far"
        each = (seconds + _USUAL_SECONDS * _USUAL_FUNCTIONS) / (made + _USUAL_FUNCTIONS)
        return f"function {made + 1} of about {made + left}, about {max(1, round(each * left))} s left"

    def _clear(self) -> None:
        if self._shown:
            self._tell(live(""), "")
            self._shown = False


_progress: list[_Progress] = []
"""The progress of the running command; at most one."""


@contextmanager
def telling_of_compilation(
    tell: Callable[[str, str], None], functions: int = 30, *, changing: bool = True
) -> Iterator[None]:
    """Report what is compiled within the block: one line, or on a terminal a changing line with the progress.
    Nothing is reported if it takes less than a second.

    Args:
        tell: Writes a text and its ending, like `nmt.cli.lines.streams.tell`.
        functions: Approximate number of compiled functions that the work needs.
        changing: Whether a terminal gets a line that changes.
    """
    progress = _Progress(tell, functions, changing)
    _progress.append(progress)
    try:
        yield
    finally:
        _progress.remove(progress)
        progress.close()


def stop_telling() -> None:
    """Print no more notices: another process of the same job prints them."""
    for progress in _progress:
        progress.close()


@contextmanager
def making_code(is_kept: bool = True) -> Iterator[None]:
    """Record that something is compiled within the block, or that this process waits for another to compile it.
    `is_kept`: whether the code is stored for later processes."""
    progress = _progress[-1] if _progress else None
    if progress is None:
        yield
        return
    progress.begin(is_kept)
    try:
        yield
    finally:
        progress.end()


def note_found() -> None:
    """Record that a function is ready, whether it was stored or has just been compiled."""
    if _progress:
        _progress[-1].found()
