"""The rows of one run: the length of each, what it reads, and the blocks of time that the run is divided into.

Every device runs its plans over `Rows`. All of it is host data: lengths decide what is launched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nmt.rnn import tuning
from nmt.rnn.compiler.program import Place, PlaceKind
from nmt.rnn.division import Division


class TimeBlock(NamedTuple):
    """Steps [start, stop) of a loop, which are steps [low, high) of the sequence, in opposite order if the loop runs
    backwards."""

    start: int
    stop: int
    low: int
    high: int


@dataclass
class Rows:
    """The rows of a run and how threads share them.

    lengths: number of steps of each row. source_lengths: number of positions of each captured row. owner: index of the
    captured row that each row reads. With `ragged`, captured arrays are [positions, n]: `owner` is the first position
    of each row, and `source_lengths` is read there. Other captured arrays may be read by another index: the array named
    `I_` and their name.
    """

    T: int
    B: int
    S: int
    lengths: np.ndarray  # int64 [B]
    source_lengths: np.ndarray  # int64 [C]
    owner: np.ndarray  # int64 [B]
    bounds: np.ndarray  # int64 [threads + 1]: rows of each thread
    reverse: bool
    division: Division | None = None  # None: chosen for each loop
    block_rows: int | None = None  # None: tuning.BLOCK_ROWS
    block_multiple: int = 1  # a block of time has a multiple of these steps, unless it has all
    ragged: bool = False
    label: str = "scan"  # the run's name in a profile
    _derived: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def threads(self) -> int:
        """Return how many threads share the rows."""
        return len(self.bounds) - 1

    @cached_property
    def whole(self) -> bool:
        """Return whether every row runs to the end."""
        return not len(self.lengths) or int(self.lengths.min()) == self.T

    @cached_property
    def ordered(self) -> bool:
        """Return whether the rows still running at any step are always the first ones, so products skip ended rows."""
        return self.whole or bool((self.lengths[:-1] >= self.lengths[1:]).all())

    @cached_property
    def block_steps(self) -> int:
        """Return the steps in a block of time; blocks are of nearly equal length."""
        count = -(-self.T * self.B // (self.block_rows or tuning.BLOCK_ROWS))
        steps = -(-self.T // max(1, count))
        return min(self.T, -(-steps // self.block_multiple) * self.block_multiple)

    def blocks(self, *, backward: bool) -> list[TimeBlock]:
        """Return the blocks of a pass in the order they are run, in a `backward` pass against the direction of the
        rows."""
        backwards, size = self.reverse != backward, self.block_steps
        found = []
        for start in range(0, self.T, max(1, size)):
            stop = min(self.T, start + size)
            low, high = (self.T - stop, self.T - start) if backwards else (start, stop)
            found.append(TimeBlock(start, stop, low, high))
        return found

    def derived(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what a device computes from these rows, computed once for each key; both passes read it."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def of_lengths(self, lengths: np.ndarray) -> Rows:
        """Return the same rows with other lengths, int64 [B]."""
        return replace(self, lengths=lengths, _derived={})


def steps_of(place: Place, T: int) -> int:
    """Return the length of an array that has entries for the T steps of a run."""
    return -(-T // tuning.CHECKPOINT_STEPS) if place.kind is PlaceKind.CHECKPOINT else T


def shape_of_step(place: Place, rows: Rows) -> tuple[int, ...]:
    """Return the shape of one step of an array: [S, B, n] if it has source positions, else [B, n]; without n if it has
    no width."""
    source = (rows.S,) if place.source_axis else ()
    width = (place.width,) if place.width is not None else ()
    return (*source, rows.B, *width)
