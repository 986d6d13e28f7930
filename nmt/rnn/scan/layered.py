"""A stack of cells over finished sequences, one layer after another.

A stack is one step of all its layers. Over a known sequence, if no layer feeds a lower one, every layer can run to the
end before the next begins. A product that waits for a state of a lower layer, inside the loop of the whole step, then
reads a finished sequence: it leaves the loop.

For short runs that are repeated, everything besides the numbers is prepared once for each size.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nmt.errors import NMTError
from nmt.rnn import tuning
from nmt.rnn.arrays.array_names import Arrays
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.arrays.workspace import Allocate, Fresh, Idle
from nmt.rnn.cell import Captured, Cell, Param, strip, under
from nmt.rnn.cells import StackCell
from nmt.rnn.devices import cpu
from nmt.rnn.scan.passes import Gradients, Result, Tape
from nmt.rnn.scan.scan import Scan
from nmt.rnn.scan.scan_setup import check_names

_SEED_STEP = 0x9E3779B97F4A7C15
"""The distance between the seeds of two groups of 64 runs: far from the seeds of other batches."""


@dataclass
class LayeredTape:
    """Tapes of all layers by direction, each row's length, and the memory and threads of their runs."""

    layers: list[list[Tape]]
    lengths: np.ndarray
    allocate: Allocate
    threads: int


class LayeredScan:
    """The computation of `Scan(StackCell(cells))`, with the same parameters, layer by layer; or layers that run in the
    named `directions`, the second from each row's last step to its first, whose outputs are side by side.

    delays: the number of steps by which each layer's output is late. Such a layer is given as many zeros after every
    row, and its first outputs are dropped, so layer n's output t may depend on its inputs up to t + delays[n].
    directions: then the parameters and initial states of a layer are below `LAYER.DIRECTION.`, and final states are
    those [B, n] of all directions side by side. residual: each layer but the first adds its input to its output."""

    def __init__(
        self,
        cells: Sequence[Cell],
        *,
        delays: Sequence[int] | None = None,
        directions: Sequence[str] = (),
        residual: bool = False,
        **options: Any,
    ) -> None:
        """Make scans of all cells. `options` are those of `Scan`; `keep` has names of the stack, `0.o`."""
        keep = options.pop("keep", None) or {}
        self.directions, self.residual = tuple(directions), residual
        if not directions:
            self.cell = StackCell(list(cells))
            Scan(self.cell, keep=keep)  # raises an error for unknown names
        self.scans = [Scan(cell, keep=strip(keep, str(n)), **options) for n, cell in enumerate(cells)]
        self.delays = [0] * len(self.scans) if delays is None else list(delays)
        self.device = options.get("device") or cpu()
        self.dtype, self.packed = self.scans[0].dtype, self.scans[0].packed
        self.params: dict[str, Param] = {}
        self.states: dict[str, int] = {}
        self.captured: dict[str, Captured] = {}
        for n, cell in enumerate(cells):
            for name in self.names(n):
                self.params |= under(name, cell.params())
                self.states |= under(name, cell.states())
            self.captured |= cell.captured()

    def names(self, n: int) -> list[str]:
        """Return the name of each direction of layer n."""
        return [f"{n}.{direction}" for direction in self.directions] or [str(n)]

    def forward(
        self,
        weights: Weights,
        x: np.ndarray,
        initial: Mapping[str, np.ndarray] | None = None,
        *,
        lengths: Sequence[int] | np.ndarray | None = None,
        captured: Mapping[str, np.ndarray] | None = None,
        source_lengths: Sequence[int] | np.ndarray | None = None,
        training: bool = False,
        seed: int = 0,
        allocate: Allocate | None = None,
        outputs: Callable[..., Any] | None = None,
        threads: int | None = None,
        final: Collection[str] | None = None,
        lasting: Callable[..., Any] | None = None,
    ) -> Result:
        """Run the layers as `Scan.forward` runs a cell; `outputs`: memory of what is joined of two directions, if it is
        to last longer. Raises ShapeError. x must be zero beyond each row's length if the first layer has a delay."""
        allocate = allocate or Fresh(self.device.xp)
        captured, threads = captured or {}, threads or self.scans[0].threads
        check_names("LayeredScan", "captured arrays", captured, self.captured)
        steps = np.full(x.shape[1], len(x), np.int64) if lengths is None else np.asarray(lengths)
        tapes: list[list[Any]] = []
        ends: Arrays = {}
        for n, (scan, delay) in enumerate(zip(self.scans, self.delays, strict=True)):
            results = [
                scan.forward(
                    weights.view(name),
                    self._with_zeros(x, 0, delay, allocate, threads),
                    strip(initial or {}, name),
                    lengths=steps + delay if delay else steps,
                    captured={k: captured[k] for k in scan.captured},
                    source_lengths=source_lengths if scan.captured else None,
                    reverse=side > 0,
                    training=training,
                    seed=self._seed(seed, n, side),
                    allocate=allocate,
                    threads=threads,
                    final=_of_layer(final, name),
                    lasting=lasting,
                )
                for side, name in enumerate(self.names(n))
            ]
            tapes.append([result.tape for result in results])
            adds = n > 0 and self.residual
            y = self._joined([result.y[delay:] for result in results], outputs or allocate, threads, apart=adds)
            if adds:
                self.device.add(y, x, threads)
            x = y
            for name in results[0].final:
                parts = [result.final[name] for result in results]
                if len(parts) == 1 or parts[0].ndim == 2:
                    ends[f"{n}.{name}"] = self._joined(parts, outputs or allocate, threads)
        tape = LayeredTape(tapes, steps, allocate, threads) if training else None
        return Result(x, ends, tape, {}, steps, np.zeros(len(steps), bool))

    def backward(
        self,
        tape: LayeredTape | None,
        d_y: np.ndarray,
        d_final: Mapping[str, np.ndarray] | None = None,
        gradients: Arrays | None = None,
        *,
        initial: Collection[str] | None = None,
    ) -> Gradients:
        """Return gradients as `Scan.backward` does. Raises NMTError after a run that kept no tape."""
        if tape is None:
            raise NMTError("LayeredScan.backward: the tape must be of a run with training=True, got None; run it so")
        d: Any = d_y
        starts: Arrays = {}
        captured: Arrays = {}
        for n in reversed(range(len(self.scans))):
            delay, names, d_last = self.delays[n], self.names(n), strip(d_final or {}, str(n))
            above, d_x = self._with_zeros(d, delay, 0, tape.allocate, tape.threads), None
            for side, name in enumerate(names):
                own = {k: self._part(array, side, tape) for k, array in d_last.items()}
                d_side = self._part(above, side, tape)
                below = strip(gradients or {}, name)
                got = self.scans[n].backward(tape.layers[n][side], d_side, own, below, initial=_of_layer(initial, name))
                if got.x is None:
                    raise RuntimeError("a layer gave no gradient of its input")
                if d_x is None:
                    d_x = got.x
                else:
                    self.device.add(d_x, got.x, tape.threads)
                starts |= under(name, got.initial)
                for name, share in got.captured.items():
                    if captured.setdefault(name, share) is not share:
                        self.device.add(captured[name], share, tape.threads)
            if n and self.residual:
                self.device.add(d_x, d, tape.threads)
            d = d_x
            if delay:
                d = d[:-delay]
                self.device.clear_ended(d, tape.lengths, tape.threads)
        return Gradients(d, starts, captured)

    def _seed(self, seed: int, layer: int, side: int) -> int:
        """Return the dropout seed of a layer and direction, which no other pair has, for this seed or a later one."""
        group, place = divmod(layer * (2 if self.directions else 1) + side, 64)
        return (seed + group * _SEED_STEP) * 64 + place

    def _joined(self, parts: list[Any], allocate: Callable[..., Any], threads: int, *, apart: bool = False) -> Any:
        """Return the concatenated results of all directions, with `apart` in memory that nothing else reads."""
        if len(parts) == 1 and not apart:
            return parts[0]
        out = allocate((*parts[0].shape[:-1], sum(part.shape[-1] for part in parts)), self.dtype)
        self.device.join_columns(parts, out, threads)
        return out

    def _part(self, both: Any, side: int, tape: LayeredTape) -> Any:
        """Return the columns of a direction."""
        if len(self.directions) < 2:
            return both
        width = both.shape[-1] // 2
        out = tape.allocate((*both.shape[:-1], width), self.dtype)
        self.device.take_columns(both, side * width, out, tape.threads)
        return out

    def _with_zeros(self, x: Any, before: int, after: int, allocate: Allocate, threads: int) -> Any:
        """Return x [T, B, n] between so many steps of zeros."""
        if not before + after:
            return x
        end = before + len(x)
        longer = allocate((end + after, *x.shape[1:]), self.dtype)
        self.device.clear(longer[:before], threads)
        self.device.clear(longer[end:], threads)
        self.device.join_columns([x], longer[before:end], threads)
        return longer


def _of_layer(names: Collection[str] | None, layer: str) -> Collection[str] | None:
    """Return the names of a layer or one of its directions, without its prefix; None is all."""
    return None if names is None else strip(dict.fromkeys(names), layer)


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
    """Layers over T steps of B whole rows, in separate memory, with fixed weights. For one thread at a time. A call
    copies the numbers in, runs the launches of all layers in a fixed order, and copies the results out."""

    def __init__(
        self, layers: Sequence[Sequence[LayerSide]], joins: Sequence[Join], T: int, B: int, threads: int | None = None
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
        """Run the layers over x [T, B, D]; return y [T, B, directions * n] and the final states. given: of each state,
        the initial one of each layer and direction [B, n], checked already, or None for the cell's own."""
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
