"""Progress and warnings during work, and a notice that machine code is being compiled."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from nmt.system.interruption import forkable

_SHOWN = 5
"""Number of line numbers listed for each kind."""

Show = Callable[[str], None]
"""A function that receives a line of text to show."""


def tell_nobody(text: str) -> None:
    """Discard the text: a Show for no output."""


class Notices:
    """Collects warnings about the lines of a text."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._first: dict[str, list[int]] = {}

    def add(self, number: int, warnings: Iterable[str]) -> None:
        """Record warnings about line `number`, counted from 0; duplicates count once."""
        for text in dict.fromkeys(warnings):
            self._counts[text] += 1
            if len(first := self._first.setdefault(text, [])) < _SHOWN:
                first.append(number + 1)

    def told(self) -> list[str]:
        """Return a text for each kind of warning: the problem, the number of lines, and the first of them, from 1."""
        found = []
        for text, count in self._counts.items():
            numbers = ", ".join(map(str, self._first[text]))
            more = ", ..." if count > _SHOWN else ""
            where = f"line {numbers}" if count == 1 else f"{count:,} lines: {numbers}{more}"
            found.append(f"{text} ({where})")
        return found


_QUIET_SECONDS = 1.0
"""Compilation that takes less time is not reported."""
_ONCE = "once on this machine"
_EACH_TIME = "in each run, for there is no folder to keep it in (set NMT_CACHE_DIR to one)"


class _Notice:
    """Writes one line by `tell` when the functions that are compiled have taken more than _QUIET_SECONDS together."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._lock = tell, forkable(threading.Lock())
        self._depth, self._seconds, self._since = 0, 0.0, 0.0
        self._timer: threading.Timer | None = None
        self.is_over = False

    def begin(self, is_kept: bool) -> None:
        """Record that the compilation of a function begins."""
        with self._lock:
            if not self._depth and not self.is_over:
                self._since = time.monotonic()
                left = max(0.0, _QUIET_SECONDS - self._seconds)
                self._timer = threading.Timer(left, self._report, [_ONCE if is_kept else _EACH_TIME])
                self._timer.daemon = True
                self._timer.start()
            self._depth += 1

    def end(self) -> None:
        """Record that the compilation has ended."""
        with self._lock:
            self._depth -= 1
            if not self._depth and self._timer is not None:
                self._timer.cancel()
                self._seconds += time.monotonic() - self._since

    def _report(self, how: str) -> None:
        with self._lock:
            if self._depth and not self.is_over:
                self.is_over = True
                self._tell(f"compiling machine code, {how}, which takes some seconds")


_notices: list[_Notice] = []
"""That of the running command; at most one."""


@contextmanager
def telling_of_compilation(tell: Callable[[str], None]) -> Iterator[None]:
    """Report that code is compiled within the block, if it takes more than a second, by `tell`, which writes a line."""
    notice = _Notice(tell)
    _notices.append(notice)
    try:
        yield
    finally:
        _notices.remove(notice)
        notice.is_over = True


def stop_telling() -> None:
    """Print no notice: another process of the same job prints it."""
    for notice in _notices:
        notice.is_over = True


@contextmanager
def making_code(is_kept: bool = True) -> Iterator[None]:
    """Record that code is compiled, or waited for, within the block. `is_kept`: whether it is stored for others."""
    notice = _notices[-1] if _notices else None
    if notice is None:
        yield
        return
    notice.begin(is_kept)
    try:
        yield
    finally:
        notice.end()
