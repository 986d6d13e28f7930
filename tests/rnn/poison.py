"""Arrays of calls that wait hold NaN until the calls run: who reads one computes NaN, who writes one is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from nmt.rnn.kernels.loops.run_cpu import Table
from nmt.rnn.kernels.threads import pool


class Poison:
    """What the arrays of waiting calls held, in the order in which these came."""

    def __init__(self) -> None:
        self.saved: list[tuple[np.ndarray, np.ndarray]] = []
        self.calls = 0

    def spoil(self, keep: Any) -> None:
        """Fill the arrays of floats that a call keeps with NaN; lengths, ids and segments are the host's to read."""
        if isinstance(keep, np.ndarray):
            if keep.dtype.kind == "f" and keep.flags.writeable:
                self.saved.append((keep, keep.copy()))
                keep.fill(np.nan)
        elif isinstance(keep, Table):
            self.spoil(keep.arrays)
        elif isinstance(keep, (tuple, list)):
            for one in keep:
                self.spoil(one)

    def holds(self, arrays: Any) -> bool:
        """Return whether an array, or one of several, has memory of a call that waits."""
        if isinstance(arrays, np.ndarray):
            return any(np.may_share_memory(arrays, one) for one, _ in self.saved)
        several = arrays.values() if isinstance(arrays, dict) else arrays
        return any(map(self.holds, several))

    def restore(self) -> None:
        """Give the arrays their numbers back. AssertionError: one was written meanwhile."""
        saved, self.saved = self.saved, []
        written = [array.shape for array, _ in saved if not np.isnan(array).all()]
        for array, numbers in reversed(saved):
            array[...] = numbers
        assert not written, f"written while a call waits that has it: arrays {written}"


class _Kept(list[Any]):
    """What calls that wait keep."""

    def __init__(self, poison: Poison) -> None:
        super().__init__()
        self._poison = poison

    def append(self, keep: Any) -> None:
        self._poison.calls += 1
        self._poison.spoil(keep)
        super().append(keep)


class _Waiting(pool._Waiting):
    poison: Poison

    @property
    def kept(self) -> list[Any]:
        return self._kept

    @kept.setter
    def kept(self, new: list[Any]) -> None:
        """`run_waiting` takes the former list away and then runs its calls; so does the end of a context."""
        self.poison.restore()
        self._kept: list[Any] = _Kept(self.poison)


@contextmanager
def poisoned(monkeypatch: pytest.MonkeyPatch) -> Iterator[Poison]:
    """Spoil the arrays of all calls that wait inside the block."""
    poison = Poison()
    with monkeypatch.context() as patch:
        patch.setattr(_Waiting, "poison", poison, raising=False)
        patch.setattr(pool, "_waiting", _Waiting())
        yield poison
