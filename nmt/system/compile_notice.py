"""Tells a user that machine code is being made: the first run on a machine waits for it, long and without a word.

Code that compiles says when it begins and ends (`making_code`) and when it found code that was there (`note_found`).
A command that wants to tell its user does its work within `telling_of_compilation`; elsewhere nothing is written.
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
"""What compiles in less is not worth a line."""
_LOOK_SECONDS = 0.2
_USUAL_SECONDS, _USUAL_FUNCTIONS = 0.2, 10
"""What a function takes, and how many measured ones count as much as that."""

_ONCE = "once on this machine"
_EACH_TIME = "in each run, for there is no folder to keep it in (set NMT_CACHE_DIR to one)"


class _Progress:
    """Counts functions and tells of them. Its thread is begun by the first function that has to be compiled.

    Args:
        tell: Writes a text and what ends it to standard error.
        functions: How many the command needs, about.
    """

    def __init__(self, tell: Callable[[str, str], None], functions: int) -> None:
        self._tell, self._functions = tell, functions
        self._lock = forkable(threading.Lock())
        self._ended = threading.Event()
        self._found = self._first = self._depth = 0
        self._seconds = self._since = 0.0
        self._thread: threading.Thread | None = None
        self._told = self._shown = False
        self._how = _ONCE

    def begin(self, is_kept: bool) -> None:
        """Note that a function is being compiled."""
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
        """Note that it is made. Whoever writes next finds an empty line."""
        with self._lock:
            self._depth -= 1
            if not self._depth:
                self._seconds += time.monotonic() - self._since
                self._clear()

    def found(self) -> None:
        """Note that one more function can run."""
        self._found += 1

    def close(self) -> None:
        """Tell no more."""
        self._ended.set()
        with self._lock:
            self._clear()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            with self._lock:
                if self._depth and not self._ended.is_set():
                    self._look(self._seconds + time.monotonic() - self._since)

    def _look(self, seconds: float) -> None:
        """Tell what is worth it after so many seconds of compiling."""
        if seconds < _QUIET_SECONDS:
            return
        text = f"compiling machine code, {self._how}: {self._state(seconds)}"
        if is_live(sys.stderr):
            self._tell(live(text), "")
            self._shown = True
        elif not self._told:
            self._tell(text, "\n")
        self._told = True

    def _state(self, seconds: float) -> str:
        made = self._found - self._first
        left = self._functions - self._found
        if left <= 0:
            return f"function {made + 1}, {seconds:.0f} s so far"
        each = (seconds + _USUAL_SECONDS * _USUAL_FUNCTIONS) / (made + _USUAL_FUNCTIONS)
        return f"{made} of about {made + left} functions, about {max(1, round(each * left))} s left"

    def _clear(self) -> None:
        if self._shown:
            self._tell(live(""), "")
            self._shown = False


_progress: list[_Progress] = []
"""Of the command that runs; none or one."""


@contextmanager
def telling_of_compilation(tell: Callable[[str, str], None], functions: int) -> Iterator[None]:
    """Tell on standard error what is compiled within the block: one line, and on a terminal a line that shows how far
    it is. Silent where that takes less than a second.

    Args:
        tell: Writes a text and what ends it, as `nmt.cli.lines.streams.tell` does.
        functions: How many functions of machine code the work needs, about.
    """
    progress = _Progress(tell, functions)
    _progress.append(progress)
    try:
        yield
    finally:
        _progress.remove(progress)
        progress.close()


def stop_telling() -> None:
    """Write nothing from now on: another process of the same work does."""
    for progress in _progress:
        progress.close()


@contextmanager
def making_code(is_kept: bool = True) -> Iterator[None]:
    """Note that something is compiled within the block, or that this process waits for another one to compile it.

    Args:
        is_kept: Whether later processes will find it.
    """
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
    """Note that a function can run: it was there, or has been compiled."""
    if _progress:
        _progress[-1].found()
