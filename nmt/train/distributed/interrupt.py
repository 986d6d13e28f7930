"""SIGINT and SIGTERM as a request to finish the update, save and exit. A second signal exits at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, TypeVar

from nmt.train.distributed.ranks import Ranks

T = TypeVar("T")
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")  # the last two: the terminal was closed; Windows has the last
SIGNALS = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]


class Interrupted(Exception):  # noqa: N818 - not an error, but a way out of a long validation
    """Raised when the user asks to stop during long work."""


class StopRequest:
    """A context manager in which the first signal is recorded and the second ends the process at once.

    Signal handlers run in the main thread; in any other thread the context does nothing. If signals reach only some of
    several ranks, `agree` makes all stop after the same update.

    `ranks`: the ranks that must agree; None for this process alone; `exits`: whether the second signal ends the
    process. If not, it has its former effect.
    """

    def __init__(self, ranks: Ranks | None = None, *, exits: bool = True) -> None:
        self._ranks, self._exits = ranks or Ranks(), exits
        self._received: int | None = None
        self._agreed: int | None = None
        self._former: dict[int, Any] = {}

    @property
    def signal(self) -> int | None:
        """Return the signal that was received, or None; with several ranks, the one they last agreed on."""
        return self._received if self._ranks.size == 1 else self._agreed

    def agree(self, said: T) -> T:
        """Share received signals with all ranks; return rank 0's value of `said`. Called by all ranks."""
        if self._ranks.size == 1:
            return said
        of_ranks = self._ranks.all_gather((self._received or 0, said))
        self._agreed = max(number for number, _ in of_ranks) or None
        return of_ranks[0][1]

    def check(self) -> None:
        """Raise Interrupted if a signal was received; between updates, in all ranks or in none."""
        if self.signal is not None:
            raise Interrupted

    def check_here(self) -> None:
        """Raise Interrupted if this process received a signal; for long work that `Ranks.collect` runs."""
        if self._received is not None:
            raise Interrupted

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:  # nohup, or a job in a script's background
                    receive = self._receive if self._exits else self._receive_or_pass_on
                    self._former[number] = signal.signal(number, receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former.clear()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: the first asks to stop after this update, the second ends the process."""
        if self._received is not None:
            # Not an exception: it could be caught, or wait for threads. A file that was being
            # written is a temporary one, which the next run removes.
            os._exit(128 + number)
        self._received = number
        if self._ranks.rank:
            return  # rank 0 prints it
        name = signal.Signals(number).name
        text = f"\n{name}: stopping after this update and saving; once more to stop at once\n"
        try:
            os.write(sys.stderr.fileno(), text.encode())
        except (OSError, ValueError):
            pass  # standard error is closed: the request still counts

    def _receive_or_pass_on(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal in another program: the second has its former effect, such as KeyboardInterrupt."""
        if self._received is None:
            self._receive(number, frame)
            return
        signal.signal(number, self._former[number])
        signal.raise_signal(number)

    _receive.never_raises = True  # type: ignore[attr-defined]  # see nmt.system.interruption.uninterrupted
