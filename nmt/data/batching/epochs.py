"""The interface of a corpus that is divided into batches, epoch by epoch."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np


class Batches(ABC):
    """A corpus divided into batches. An epoch depends on (seed, epoch) alone: it can be repeated, and resumed at any
    batch. Batches of an epoch are counted from 0."""

    in_order: bool = False
    """Whether each batch continues the previous one, so that they must be used in order."""

    @abstractmethod
    def num_batches(self, epoch: int = 0) -> int:
        """Return the number of batches in an epoch; with shuffling it can differ by a few between epochs."""

    @abstractmethod
    def shapes(self, epoch: int = 0) -> np.ndarray:
        """Return T, S and B of every batch in an epoch: int64 [batches, 3]."""

    @abstractmethod
    def tokens(self, epoch: int = 0) -> np.ndarray:
        """Return the source and target tokens, EOS counted, of every batch in an epoch: int64 [batches, 2]."""

    def batch(self, epoch: int, number: int) -> Any:
        """Return one batch of an epoch."""
        return next(self.epoch(epoch, start=number))

    @abstractmethod
    def epoch(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """Yield the batches of an epoch in order, from number `start` on."""


def drawn(size: int, weight: float, epoch: int, seed: tuple[int, int], salt: int) -> np.ndarray:
    """Return the next weight * size numbers of an endless stream of passes over range(size), each shuffled differently:
    no number comes again before all others have come as often. `seed` and `salt` determine the order."""
    places = np.arange(math.floor(epoch * weight * size), math.floor((epoch + 1) * weight * size))
    found = np.zeros(len(places), np.int64)
    for turn in np.unique(places // max(1, size)).tolist():
        order = np.random.default_rng([*seed, turn, salt]).permutation(size)
        here = places // size == turn
        found[here] = order[places[here] % size]
    return found
