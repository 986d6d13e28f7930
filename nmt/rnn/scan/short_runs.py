"""Short runs of layers, repeated many times: everything a run needs besides its numbers is prepared once for each
size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nmt.rnn import tuning
from nmt.rnn.arrays.idle import Idle
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.scan.scan import Scan

Join = Callable[[Sequence[np.ndarray]], Any]
"""A function that makes one state of all layers from [1, B, n] of each layer and direction, in new memory."""


@dataclass(frozen=True)
class LayerSide:
    """One direction of one layer."""

    scan: Scan
    weights: Weights
    params: tuple[str, ...]
    """Names of its parameters in the stack, without their `end`."""
    end: str
    reverse: bool


class PreparedLayers:
    """Layers over T steps of B whole rows, in separate memory, with fixed weights.

    For one thread at a time. A call copies the numbers in, runs the launches of all layers in a fixed order, and copies
    the results out.
    """

    def __init__(
        self,
        layers: Sequence[Sequence[LayerSide]],
        joins: Sequence[Join],
        T: int,
        B: int,
        threads: int | None = None,
    ) -> None:
        """Prepare the layers. `joins` by state; threads: those of each scan where None."""
        scan = layers[0][0].scan
        self.x = below = np.zeros((T, B, scan.cell.input_size), scan.dtype)
        self._steps: list[Callable[[], Any]] = []
        runs = []
        for sides in layers:
            found = [side.scan.prepare(side.weights, below, reverse=side.reverse, threads=threads) for side in sides]
            self._steps += [launch for run in found for launch in run.launches]
            below = found[0].y
            if len(found) > 1:
                parts = [run.y for run in found]
                below = np.concatenate(parts, axis=-1)
                self._steps.append(partial(np.concatenate, parts, axis=-1, out=below))
            runs += found
        self.y = below
        self._first = [[run.initial[name] for run in runs] for name in scan.states]
        self._start = [[slot.copy() for slot in slots] for slots in self._first]  # zero, or learned initial states
        self._last = [[run.final[name][None] for run in runs] for name in scan.states]
        self._joins = joins

    def __call__(self, x: np.ndarray, given: Sequence[Sequence[np.ndarray] | None]) -> tuple[Any, ...]:
        """Run the layers over x [T, B, D]; return y [T, B, directions * n] and the final states.

        given: of each state, the initial one of each layer and direction [B, n], checked already, or None for the
        cell's own.
        """
        self.x[...] = x
        for array, start, slots in zip(given, self._start, self._first, strict=True):
            for slot, first in zip(slots, start if array is None else array, strict=True):
                slot[...] = first
        for step in self._steps:
            step()
        return (self.y.copy(), *[join(last) for join, last in zip(self._joins, self._last, strict=True)])


class LayersBySize:
    """`PreparedLayers` by size, made at first use; several threads may call at once."""

    def __init__(self, make: Callable[[int, int], PreparedLayers], most: int = tuning.LAYER_SIZES) -> None:
        self._make, self._most = make, most
        self._idle: dict[tuple[int, int], Idle[PreparedLayers]] = {}

    def __call__(self, x: np.ndarray, given: Sequence[Sequence[np.ndarray] | None]) -> tuple[Any, ...]:
        """Run the layers prepared for this size; see `PreparedLayers`."""
        size = x.shape[0], x.shape[1]
        idle = self._idle.get(size)
        if idle is None:
            if len(self._idle) >= self._most:
                self._idle = {}
            idle = self._idle.setdefault(size, Idle(partial(self._make, *size)))
        run = idle.take()
        results = run(x, given)
        idle.give(run)
        return results
