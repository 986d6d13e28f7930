"""Progress of work on lines, on standard error: live on a terminal, otherwise an occasional line."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator

from tqdm import tqdm

from nmt.cli.lines.streams import WarningsOnly, tell
from nmt.errors import NMTError
from nmt.system.lines import STDIN, count_lines
from nmt.system.terminal import is_live, live

_LIVE_SECONDS = 0.2
_LINE_SECONDS = 30.0


@contextlib.contextmanager
def showing() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a text on the terminal's last line, at most a few times a second, or does nothing."""
    shows, shown_at = is_live(sys.stderr), 0.0

    def show(text: str) -> None:
        nonlocal shown_at
        now = time.monotonic()
        if shows and now - shown_at >= _LIVE_SECONDS:
            shown_at = now
            tell(live(text), end="")

    try:
        yield show
    finally:
        if shown_at:
            tell(live(""), end="")


class _StandardError(io.TextIOBase):
    """The stream that tqdm writes to: standard error, where errors are ignored; without a terminal, what would replace
    the last line becomes a line of its own."""

    encoding = "utf-8"

    def __init__(self, is_live: bool) -> None:
        self._is_live = is_live

    def write(self, text: str) -> int:
        """Write a text of tqdm."""
        if self._is_live:
            tell(live(text.strip()) if text.strip() else text, end="")  # tqdm may write more than fits
        elif text.strip():
            tell(text.strip())
        return len(text)

    def fileno(self) -> int:
        """Return the number of standard error, by which tqdm asks for the width of the terminal."""
        return sys.stderr.fileno()


class Meter(tqdm):
    """Counts lines, and shows the part that is done, the rate and the time left. Without a terminal it is silent if all
    is done within 30 s; with --quiet it is always silent. `done`: the past participle for the lines, such as
    `translated`; `source`: the text as named on the command line, whose lines are counted for the total; `total`: the
    number of lines, if it is known; `initial`: the number that an earlier run has done."""

    monitor_interval = 0  # no thread that redraws
    _lock = threading.RLock()  # by default tqdm also makes one for several processes

    def __init__(
        self, done: str = "translated", source: str | None = None, total: int | None = None, initial: int = 0
    ) -> None:
        shows = is_live(sys.stderr)
        seconds = _LIVE_SECONDS if shows else _LINE_SECONDS
        self._source, self._shown_from = source, time.monotonic() + seconds
        super().__init__(
            desc=done,
            total=total,
            unit=" lines",
            file=_StandardError(shows),
            initial=initial,
            dynamic_ncols=shows,
            ncols=None if shows else 0,  # 0: no bar, the numbers only
            mininterval=seconds,
            delay=seconds,
            miniters=1,
            disable=isinstance(sys.stderr, WarningsOnly),  # with --quiet no lines are counted, either
        )

    def add(self, count: int) -> None:
        """Count `count` more lines."""
        if not self.disable and self._source is not None and time.monotonic() >= self._shown_from:
            self.total, self._source = _lines_in(self._source), None  # it is about to be shown
        self.update(count)


def _lines_in(source: str) -> int | None:
    """Return the number of lines of a file or of standard input that is one; None for pipes and what cannot be read,
    about which the reader of the text complains."""
    try:
        path = "/dev/stdin" if source == STDIN else source
        return count_lines(path) if stat.S_ISREG(os.stat(path).st_mode) else None
    except (OSError, EOFError, NMTError):
        return None
