"""Where the time of a computation goes: seconds by name of operation, kept only while someone records.

Whoever launches work wraps it in `with operation("decoder", ": time loop")`. Without a recording that is one look at a
module's variable; with one, the time goes to the name, less the time of operations inside it: seconds of all names
add up to the time spent in any. Times are moments of a clock: the processor's, or a GPU's, which knows how long its
work took only when that is done; so they are added up when the recording ends.
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
    """Moments, and the time between them."""

    def now(self) -> Any:
        """This moment: where a GPU's work, in its order, has got to."""

    def seconds(self, began: Any, ended: Any) -> float:
        """Between two moments; may wait for the second."""


class ProcessorClock:
    """The time of the day."""

    def now(self) -> float:
        """See `Clock`."""
        return perf_counter()

    def seconds(self, began: float, ended: float) -> float:
        """See `Clock`."""
        return ended - began


@dataclass
class Operation:
    """What all calls of one name took together: seconds by the clock, and the multiply-adds of their products."""

    calls: int = 0
    seconds: float = 0.0
    multiply_adds: int = 0


@dataclass
class Profile:
    """Operations by name, in the order in which their first calls ended; they are there when the recording has
    ended."""

    operations: dict[str, Operation] = field(default_factory=dict)
    clock: Clock = field(default_factory=ProcessorClock)
    thread: int = field(default_factory=get_ident)
    """Whose operations are recorded."""
    _spans: list[tuple[str, int, Any, Any, int]] = field(default_factory=list)  # name, depth, moments, multiply-adds
    _depth: int = 0

    def add_up(self) -> None:
        """Put what was recorded into `operations`."""
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
        """Return the time spent in operations."""
        return sum(one.seconds for one in self.operations.values())


_active: Profile | None = None
_OFF = nullcontext()


@contextmanager
def recording(clock: Clock | None = None) -> Iterator[Profile]:
    """Record the operations of this thread while the block lasts; clock: None for the processor's. Recordings do not
    nest: the inner one takes all."""
    global _active
    former, _active = _active, Profile(clock=clock or ProcessorClock())
    profile = _active
    try:
        yield profile
    finally:
        _active = former
        profile.add_up()


def operation(*name: str, multiply_adds: int | Callable[[], int] = 0) -> AbstractContextManager[None]:
    """Time a block as the operation whose name these parts make together.

    Args:
        name: Joined only while recording.
        multiply_adds: Of the block's products; what takes time to count is a function, called only while recording.
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
    """This moment, for `record_parts`; None while nobody records this thread."""
    profile = _active
    return None if profile is None or profile.thread != get_ident() else profile.clock.now()


def record_parts(began: Any, parts: Sequence[tuple[str, float, int]]) -> None:
    """What has run since `began` was these operations, which took turns: names, what each took in a measure of its own,
    multiply-adds. It must have been the processor's work alone."""
    profile = _active
    if profile is None:
        return
    elapsed, whole = profile.clock.now() - began, sum(share for _, share, _ in parts)
    for name, share, count in parts:
        ended = began + (elapsed * share / whole if whole else elapsed / len(parts))
        profile._spans.append((name, profile._depth, began, ended, count))
        began = ended
