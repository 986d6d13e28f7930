"""Where the time of a computation goes: seconds by name of operation, kept only while someone records.

Whoever launches work wraps it in `with operation("decoder", ": time loop")`. Without a recording that is one look at a
module's variable; with one, the time goes to the name, less the time of operations inside it: seconds of all names
add up to the time spent in any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from types import TracebackType


@dataclass
class Operation:
    """What all calls of one name took together: seconds by the clock, and the multiply-adds of their products."""

    calls: int = 0
    seconds: float = 0.0
    multiply_adds: int = 0


@dataclass
class Profile:
    """Operations by name, in the order of their first call."""

    operations: dict[str, Operation] = field(default_factory=dict)
    _inner: list[float] = field(default_factory=list)  # seconds that went to others inside each open operation

    @property
    def seconds(self) -> float:
        """The time spent in operations."""
        return sum(one.seconds for one in self.operations.values())


_active: Profile | None = None
_OFF = nullcontext()


@contextmanager
def recording() -> Iterator[Profile]:
    """Record the operations of this thread while the block lasts. Recordings do not nest: the inner one takes all."""
    global _active
    former, _active = _active, Profile()
    try:
        yield _active
    finally:
        _active = former


def operation(*name: str, multiply_adds: int | Callable[[], int] = 0) -> AbstractContextManager[None]:
    """Time a block as the operation whose name these parts make together.

    Args:
        name: Joined only while recording.
        multiply_adds: Of the block's products; what takes time to count is a function, called only while recording.
    """
    if _active is None:
        return _OFF
    return _Timed(_active, "".join(name), multiply_adds)


class _Timed(AbstractContextManager[None]):
    def __init__(self, profile: Profile, name: str, multiply_adds: int | Callable[[], int]) -> None:
        self._profile, self._name, self._multiply_adds = profile, name, multiply_adds
        self._began = 0.0

    def __enter__(self) -> None:
        self._profile._inner.append(0.0)
        self._began = perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        seconds = perf_counter() - self._began
        inner = self._profile._inner
        one = self._profile.operations.setdefault(self._name, Operation())
        one.calls += 1
        one.seconds += seconds - inner.pop()
        if inner:
            inner[-1] += seconds
        count = self._multiply_adds
        one.multiply_adds += count if isinstance(count, int) else count()
