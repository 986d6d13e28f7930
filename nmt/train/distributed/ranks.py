"""The processes that train one model together: how many there are, which of them this one is, what they tell one
another. By itself a process is rank 0 of 1 (`Ranks`); what `mpiexec` starts is joined by MPI
(nmt/train/distributed/mpi_ranks.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from nmt.train.distributed.reduction import Reduction

T = TypeVar("T")


class Ranks:
    """A process by itself. Methods that say so must be called by all ranks, in the same order."""

    rank = 0
    size = 1
    threads: int | None = None
    """Cores that this rank may take where several share a machine; None for all there are."""
    ranks_here = 1
    """Ranks on this machine."""

    def all_say(self, value: T) -> list[T]:
        """Return what each rank says, by rank. Called by all."""
        return [value]

    def first_says(self, value: T) -> T:
        """Return what rank 0 says. Called by all."""
        return value

    def first_then_others(self, work: Callable[[], T]) -> T:
        """Do some work of which rank 0 has to be done first. Called by all."""
        return work()

    def collect(self, work: Callable[[], T]) -> list[T]:
        """Do some work and return what each rank made of it, by rank. Called by all; where Interrupted is raised in one
        rank it is raised in all."""
        return [work()]

    def total(self, numbers: np.ndarray) -> np.ndarray:
        """Return the sums of float64 arrays, exact where all ranks but one have zero. Called by all."""
        return numbers

    def merged(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return for rank 0 the arrays of all ranks, which have different names. Called by all."""
        return dict(arrays)

    def gathered(self, own: Mapping[int, np.ndarray], dtype: Any) -> np.ndarray:
        """Return an array of numbered pieces of which each rank has some (see `nmt.data.corpora.readers.Readers`);
        there is one copy of it on a machine. Called by all."""
        from nmt.data.corpora.readers import end_to_end

        return end_to_end(own, dtype)

    def reduction(self, gradients: Mapping[str, np.ndarray], wire_dtype: str) -> Reduction | None:
        """Return what adds up the gradients of all ranks; None where there is one."""
        return None

    def watch(self, folder: Path) -> None:
        """From now on the death of a rank ends all others. Called by all, once rank 0 owns the folder."""

    def begin(self, update: int) -> None:
        """Note that an update begins, for whoever is told where a rank died."""

    def warnings(self, threads: int) -> list[str]:
        """Return what is to be told of how ranks lie on machines, this one with so many threads. Called by all."""
        return []

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """While the block lasts, what ends one rank ends all of them: the one says why, and none waits for it."""
        yield

    def end(self) -> None:
        """Leave the others in peace: all is done. Called by all."""


def interleaved(shares: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the whole of which rank r had every item from number r on, one of as many as there are ranks."""
    count = sum(map(len, shares))
    return [shares[number % len(shares)][number // len(shares)] for number in range(count)]
