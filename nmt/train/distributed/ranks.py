"""The processes (ranks) that train one model together: their number, this process's rank, and communication between
them.

A single process is rank 0 of 1 (`Ranks`); processes started by `mpiexec` are joined by MPI
(nmt/train/distributed/mpi_ranks.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nmt.data.corpora.readers import Readers

if TYPE_CHECKING:
    from nmt.train.distributed.reduction import Reduction


T = TypeVar("T")


class Ranks(Readers):
    """A single process. Methods marked "Called by all" must be called by all ranks, in the same order."""

    threads: int | None = None
    """Cores that this rank may use if several share a machine; None for all."""

    def broadcast(self, value: T) -> T:
        """Return the value of rank 0. Called by all."""
        return value

    def first_then_others(self, work: Callable[[], T]) -> T:
        """Do `work` in rank 0, then in the others; return this rank's result. Called by all."""
        return work()

    def collect(self, work: Callable[[], T]) -> list[T]:
        """Return the results of `work` in all ranks. If one raises Interrupted, all do. Called by all."""
        return [work()]

    def total(self, numbers: np.ndarray) -> np.ndarray:
        """Return the sum of a float64 array over all ranks, exact if one alone is not zero. Called by all."""
        return numbers

    def reduction(self, gradients: Mapping[str, np.ndarray], wire_dtype: str) -> Reduction | None:
        """Return the object that sums the gradients of all ranks; None if there is one rank."""
        return None

    def warnings(self, threads: int) -> list[str]:
        """Return warnings about the placement of ranks on machines; this rank uses `threads` threads. Called by all."""
        return []

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Within the block, an error that ends one rank ends all: that rank reports it, and none waits for it."""
        yield

    def end(self) -> None:
        """Release the other ranks at the end of the run. Called by all."""


def interleaved(shares: Sequence[Sequence[Any]]) -> list[Any]:
    """Return one list from shares of which rank r holds items r, r + N, r + 2N, ... for N ranks."""
    count = sum(map(len, shares))
    return [shares[number % len(shares)][number // len(shares)] for number in range(count)]


_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")  # the last two: the terminal was closed; Windows has the last
SIGNALS = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]


class Interrupted(Exception):  # noqa: N818 - not an error, but a way out of a long validation
    """Raised when the user asks to stop during long work."""


class StopRequest:
    """A context manager in which the first signal is recorded and the second ends the process at once.

    Signal handlers run in the main thread; in any other thread the context does nothing. If signals reach only some of
    several ranks, `agree` makes all stop after the same update.

    `ranks`: the ranks that must agree; `exits`: whether the second signal ends the process; else it has its former
    effect.
    """

    def __init__(self, ranks: Ranks, *, exits: bool) -> None:
        self._ranks, self._exits = ranks, exits
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
        with contextlib.suppress(OSError, ValueError):  # standard error is closed: the request still counts
            os.write(sys.stderr.fileno(), text.encode())

    def _receive_or_pass_on(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal in another program: the second has its former effect, such as KeyboardInterrupt."""
        if self._received is None:
            self._receive(number, frame)
            return
        signal.signal(number, self._former[number])
        signal.raise_signal(number)

    _receive.never_raises = True  # type: ignore[attr-defined]  # see nmt.system.interruption.uninterrupted
