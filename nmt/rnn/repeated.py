"""Short runs of layers, many times over: what a run needs besides its numbers is found out once for each size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from nmt.rnn.scan import Scan
from nmt.rnn.weights import Weights

SHORT_ROWS = 128
"""Rows, of all steps together, up to which finding memory and arguments takes longer than copying numbers."""

SIZES = 16
"""Sizes whose memory is kept."""


class Repeated:
    """Layers over T steps of B whole rows, in memory of their own, with weights that stay as they are.

    For one thread at a time. A call copies the numbers in, runs the launches of all layers in a fixed order, and copies
    the results out.
    """

    def __init__(self, scans: Sequence[Scan], weights: Sequence[Sequence[Weights]], T: int, B: int) -> None:
        """`weights` by layer and direction."""
        scan = scans[0]
        self.x = below = np.zeros((T, B, scan.cell.input_size), scan.dtype)
        self._steps: list[Callable[[], Any]] = []
        runs = []
        for layer, directions in zip(scans, weights, strict=True):
            found = [layer.prepare(own, below, reverse=n == 1) for n, own in enumerate(directions)]
            self._steps += [launch for run in found for launch in run.launches]
            below = found[0].y
            if len(found) > 1:
                parts = [run.y for run in found]
                below = np.concatenate(parts, axis=-1)
                self._steps.append(partial(np.concatenate, parts, axis=-1, out=below))
            runs += found
        self.y = below
        self._first = [[run.initial[name] for run in runs] for name in scan.states]
        self._last = [[run.final[name][None] for run in runs] for name in scan.states]

    def __call__(self, x: np.ndarray, given: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
        """x [T, B, D] and, of each state, the initial [L * directions, B, n] or None for zero, checked already; y
        [T, B, directions * n] and the final states."""
        self.x[...] = x
        for array, slots in zip(given, self._first, strict=True):
            for at, slot in enumerate(slots):
                slot[...] = 0 if array is None else array[at]
        for step in self._steps:
            step()
        return (self.y.copy(), *[np.concatenate(last) if len(last) > 1 else last[0].copy() for last in self._last])


class Sizes:
    """`Repeated` by size, made when first asked for; several threads may call at once."""

    def __init__(self, make: Callable[[int, int], Repeated]) -> None:
        self._make = make
        self._idle: dict[tuple[int, int], list[Repeated]] = {}

    def __call__(self, x: np.ndarray, given: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
        """See `Repeated`."""
        size = x.shape[0], x.shape[1]
        idle = self._idle.get(size)
        if idle is None:
            if len(self._idle) >= SIZES:
                self._idle = {}
            idle = self._idle.setdefault(size, [])
        # Taking from and adding to a list are each one step for the interpreter.
        try:
            run = idle.pop()
        except IndexError:
            run = self._make(*size)
        results = run(x, given)
        idle.append(run)
        return results
