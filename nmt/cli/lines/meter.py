"""Progress of work on lines, on standard error: live on a terminal, otherwise an occasional line."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from nmt.cli.lines.streams import tell
from nmt.system.terminal import is_live, live

_LIVE_SECONDS = 0.2
_LINE_SECONDS = 30.0


@contextlib.contextmanager
def showing() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a text on the terminal's last line, at most a few times a second; without a terminal
    it does nothing."""
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


class Meter:
    """Counts lines and shows the rate. Without a terminal, it is silent if all is done within 30 s.

    Args:
        done: The past participle for the lines, such as `translated`.
    """

    def __init__(self, done: str = "translated") -> None:
        self._what = done
        self._done = 0
        self._started = time.monotonic()
        self._is_live = is_live(sys.stderr)
        self._shown_at = self._started
        self._has_shown = False

    def add(self, count: int) -> None:
        """Count `count` more lines."""
        self._done += count
        now = time.monotonic()
        if now - self._shown_at < (_LIVE_SECONDS if self._is_live else _LINE_SECONDS):
            return
        self._shown_at, self._has_shown = now, True
        tell(live(self._text()) if self._is_live else self._text(), end="" if self._is_live else "\n")

    def close(self) -> None:
        """Print the final count, if a count was printed before."""
        if self._has_shown:
            tell(live(self._text()) if self._is_live else self._text())

    def _text(self) -> str:
        seconds = time.monotonic() - self._started
        return f"{self._done:,} lines {self._what} in {seconds:,.1f} s, {self._done / max(seconds, 1e-9):,.1f} lines/s"
