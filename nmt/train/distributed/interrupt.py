"""SIGINT and SIGTERM as a request: finish the update, save, leave. A second one is an order."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

from nmt.train.distributed.ranks import Ranks

SIGNALS = [signal.SIGINT, signal.SIGTERM]
if hasattr(signal, "SIGHUP"):  # the terminal was closed
    SIGNALS.append(signal.SIGHUP)


class Interrupted(Exception):  # noqa: N818 - not an error, but a way out of a long validation
    """The user asked to stop while something long was under way."""


class StopRequest:
    """A context in which the first signal is remembered and the second ends the process at once.

    Handlers belong to the main thread of a process; in any other thread the context does nothing. Of several ranks
    signals may reach some: all stop after the same update, which `agree` sees to.

    Args:
        ranks: With whom to agree; None for nobody.
    """

    def __init__(self, ranks: Ranks | None = None) -> None:
        self._ranks = ranks or Ranks()
        self._received: int | None = None
        self._agreed: int | None = None
        self._former: dict[int, Any] = {}

    @property
    def signal(self) -> int | None:
        """Return the signal that came, or None; of several ranks as they agreed last."""
        return self._received if self._ranks.size == 1 else self._agreed

    def agree(self, said: bool = False) -> bool:
        """Let all ranks know of signals that came to some; returns what rank 0 says of something else. Called by
        all."""
        if self._ranks.size == 1:
            return said
        of_ranks = self._ranks.all_say((self._received or 0, said))
        self._agreed = max(number for number, _ in of_ranks) or None
        return of_ranks[0][1]

    def check(self) -> None:
        """Raise Interrupted if a signal came, between updates: in all ranks or in none."""
        if self.signal is not None:
            raise Interrupted

    def check_here(self) -> None:
        """Raise Interrupted if a signal came to this process: within long work that is done by `Ranks.collect`."""
        if self._received is not None:
            raise Interrupted

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:  # nohup, or a job in a script's background
                    self._former[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former.clear()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: the first one asks to stop after this update, a second one ends the process."""
        if self._received is not None:
            # Not an exception: it could be caught, or wait for threads. Whatever file was being
            # written lies aside, and the next run removes it.
            os._exit(128 + number)
        self._received = number
        if self._ranks.rank:
            return  # rank 0 says it
        name = signal.Signals(number).name
        text = f"\n{name}: stopping after this update and saving; once more to stop at once\n"
        try:
            os.write(sys.stderr.fileno(), text.encode())
        except (OSError, ValueError):
            pass  # nobody listens: the request stands all the same

    _receive.never_raises = True  # type: ignore[attr-defined]  # see nmt.system.interruption.uninterrupted
