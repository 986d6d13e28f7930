"""The processes (ranks) that train one model together: their number, this process's rank, and communication between
them.

A single process is rank 0 of 1 (`Ranks`); processes started by `mpiexec` are joined by MPI
(nmt/train/distributed/mpi_ranks.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
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

    def merged(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return in rank 0 the arrays of all ranks, whose names must differ. Called by all."""
        return dict(arrays)

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
