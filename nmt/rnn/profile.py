"""Profiles of a computation: seconds by name of operation, kept only while a recording is active.

Code that launches work wraps it in `with operation("decoder", ": time loop")`. Without a recording that only reads a
module variable; with one, the time is added to the name, minus the time of operations inside it, so the seconds of all
names add up to the total. Times are differences of moments of a clock: the processor's, or a GPU's, which knows how
long its work took only when the work is done; they are therefore added up when the recording ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from threading import get_ident
from time import perf_counter
from types import TracebackType
from typing import Any, Protocol


class Clock(Protocol):
    """A clock that gives moments, and the time between two of them."""

    def now(self) -> Any:
        """Return this moment; on a GPU, the point that its stream of work has reached."""

    def seconds(self, began: Any, ended: Any) -> float:
        """Return the time between two moments; may wait for the second."""


class ProcessorClock:
    """The performance counter of the processor."""

    def now(self) -> float:
        """Return this moment."""
        return perf_counter()

    def seconds(self, began: float, ended: float) -> float:
        """Return the time between two moments."""
        return ended - began


@dataclass
class Operation:
    """The totals of all calls under one name: elapsed seconds, and the multiply-adds of their products."""

    calls: int = 0
    seconds: float = 0.0
    multiply_adds: int = 0


@dataclass
class Profile:
    """Operations by name, in the order in which their first calls ended; filled when the recording ends."""

    operations: dict[str, Operation] = field(default_factory=dict)
    clock: Clock = field(default_factory=ProcessorClock)
    thread: int = field(default_factory=get_ident)
    """The thread whose operations are recorded."""
    _spans: list[tuple[str, int, Any, Any, int]] = field(default_factory=list)  # name, depth, moments, multiply-adds
    _depth: int = 0

    def add_up(self) -> None:
        """Add up what was recorded into `operations`."""
        inner: dict[int, float] = {}  # by depth: seconds of operations inside the one that will end next
        for name, depth, began, ended, count in self._spans:
            seconds = self.clock.seconds(began, ended)
            one = self.operations.setdefault(name, Operation())
            one.calls += 1
            one.seconds += seconds - inner.pop(depth + 1, 0.0)
            one.multiply_adds += count
            inner[depth] = inner.get(depth, 0.0) + seconds
        self._spans.clear()

    @property
    def seconds(self) -> float:
        """Return the total time spent in operations."""
        return sum(one.seconds for one in self.operations.values())


_active: Profile | None = None
_OFF = nullcontext()


@contextmanager
def recording(clock: Clock | None = None) -> Iterator[Profile]:
    """Record the operations of this thread during the block; clock: None for the processor's. Recordings do not nest:
    the inner one receives everything."""
    global _active
    former, _active = _active, Profile(clock=clock or ProcessorClock())
    profile = _active
    try:
        yield profile
    finally:
        _active = former
        profile.add_up()


def is_recording() -> bool:
    """Return whether operations of this thread are being recorded."""
    return _active is not None and _active.thread == get_ident()


def operation(*name: str, multiply_adds: int | Callable[[], int] = 0) -> AbstractContextManager[None]:
    """Time a block as an operation whose name is the concatenation of these parts.

    Args:
        name: Parts of the name, joined only while recording.
        multiply_adds: Multiply-adds of the block's products; a function, called only while recording, if counting
            takes time.
    """
    profile = _active
    if profile is None or profile.thread != get_ident():
        return _OFF
    return _Timed(profile, "".join(name), multiply_adds)


class _Timed(AbstractContextManager[None]):
    def __init__(self, profile: Profile, name: str, multiply_adds: int | Callable[[], int]) -> None:
        self._profile, self._name, self._multiply_adds = profile, name, multiply_adds
        self._began: Any = None

    def __enter__(self) -> None:
        self._profile._depth += 1
        self._began = self._profile.clock.now()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        profile, ended, count = self._profile, self._profile.clock.now(), self._multiply_adds
        profile._depth -= 1
        counted = count if isinstance(count, int) else count()
        profile._spans.append((self._name, profile._depth, self._began, ended, counted))


def moment() -> Any:
    """Return this moment, for `record_parts`; None while this thread is not recorded."""
    profile = _active
    return None if profile is None or profile.thread != get_ident() else profile.clock.now()


def record_parts(began: Any, parts: Sequence[tuple[str, float, int]]) -> None:
    """Record that the processor alone has run these operations, interleaved, since `began`. parts: name, time in any
    common unit, and multiply-adds of each; the elapsed time is divided in proportion."""
    profile = _active
    if profile is None:
        return
    elapsed, whole = profile.clock.now() - began, sum(share for _, share, _ in parts)
    for name, share, count in parts:
        ended = began + (elapsed * share / whole if whole else elapsed / len(parts))
        profile._spans.append((name, profile._depth, began, ended, count))
        began = ended
