"""Short runs of layers, many times over: what a run needs besides its numbers is found out once for each size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nmt.rnn import tuning
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.cell import axes_of
from nmt.rnn.scan.scan import Scan

Join = Callable[[Sequence[np.ndarray]], Any]
"""Makes one state of all layers from [1, B, n] of each layer and direction, as new memory."""


@dataclass(frozen=True)
class Side:
    """One direction of one layer."""

    scan: Scan
    weights: Weights
    params: tuple[str, ...]
    """Names of its parameters in the stack, without their `end`."""
    end: str
    reverse: bool


class PreparedLayers:
    """Layers over T steps of B whole rows, in memory of their own, with weights that stay as they are.

    For one thread at a time. A call copies the numbers in, runs the launches of all layers in a fixed order, and copies
    the results out.
    """

    def __init__(
        self, layers: Sequence[Sequence[Side]], joins: Sequence[Join], T: int, B: int, threads: int | None = None
    ) -> None:
        """`joins` by state; threads: those of each scan where None."""
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
        self._start = [[slot.copy() for slot in slots] for slots in self._first]  # zero, or what was learnt
        self._last = [[run.final[name][None] for run in runs] for name in scan.states]
        self._joins = joins

    def __call__(self, x: np.ndarray, given: Sequence[Sequence[np.ndarray] | None]) -> tuple[Any, ...]:
        """x [T, B, D] and, of each state, the initial one of each layer and direction [B, n] or None for the cell's
        own, checked already; y [T, B, directions * n] and the final states."""
        self.x[...] = x
        for array, start, slots in zip(given, self._start, self._first, strict=True):
            for slot, first in zip(slots, start if array is None else array, strict=True):
                slot[...] = first
        for step in self._steps:
            step()
        return (self.y.copy(), *[join(last) for join, last in zip(self._joins, self._last, strict=True)])


class LayersBySize:
    """`PreparedLayers` by size, made when first asked for; several threads may call at once."""

    def __init__(self, make: Callable[[int, int], PreparedLayers], most: int = tuning.LAYER_SIZES) -> None:
        self._make, self._most = make, most
        self._idle: dict[tuple[int, int], list[PreparedLayers]] = {}

    def __call__(self, x: np.ndarray, given: Sequence[Sequence[np.ndarray] | None]) -> tuple[Any, ...]:
        """See `PreparedLayers`."""
        size = x.shape[0], x.shape[1]
        idle = self._idle.get(size)
        if idle is None:
            if len(self._idle) >= self._most:
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


class ShortRuns:
    """Inference with layers of few rows, which finds the run of a size ready as long as weights stay.

    Any number of threads may call at once. What is prepared holds for one version of the weights: both are kept as one
    value, so that nobody can meet the runs of one version under the name of another.
    """

    def __init__(self, scans: Sequence[Scan], ends: Sequence[str], joins: Sequence[Join]) -> None:
        """One scan a layer; ends: what each direction's weights are called below the layer's number (an empty end: the
        weights themselves, of a single layer), the second direction in reverse. joins: see `PreparedLayers`."""
        self._scans, self._ends, self._joins = scans, ends, joins
        cells = [scan.cell for scan in scans]
        widths = [n for cell in cells for n in (cell.input_size, cell.output_size, *cell.states().values())]
        self._plain = scans[0].device.name == "cpu" and all(len(axes_of(n)) == 1 for n in widths)
        # By threads: a version of the weights, and what holds for it.
        self._prepared: dict[int, tuple[object, LayersBySize]] = {}

    def takes(self, x: np.ndarray, lengths: np.ndarray) -> bool:
        """Return whether it does so: few whole rows of x [T, B, D], on the processor, without matrices for states."""
        T, B = x.shape[:2]
        return self._plain and 0 < T * B <= tuning.SHORT_ROWS and int(lengths.min()) == T

    def __call__(self, weights: Weights, x: np.ndarray, threads: int | None = None) -> tuple[Any, ...]:
        """y [T, B, directions * n] and the final states, each as its join makes it; memory of the caller's own."""
        threads = threads or self._scans[0].threads
        version = weights.version
        known, sizes = self._prepared.get(threads) or (None, None)
        if known is not version or sizes is None:
            layers = [self._sides(weights, layer, scan) for layer, scan in enumerate(self._scans)]
            sizes = LayersBySize(partial(PreparedLayers, layers, self._joins, threads=threads), tuning.SENTENCE_SIZES)
            self._prepared[threads] = version, sizes
        return sizes(x, [None] * len(self._joins))

    def _sides(self, weights: Weights, layer: int, scan: Scan) -> list[Side]:
        """Return one layer in its directions, each with its own weights."""
        names = [(f"{layer}.{end}" if end else "", n == 1) for n, end in enumerate(self._ends)]
        return [Side(scan, weights.view(name) if name else weights, (), "", reverse) for name, reverse in names]
