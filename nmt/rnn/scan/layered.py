"""A stack of cells over finished sequences, one layer after another.

A stack is one step of all its layers. Over a known sequence, if no layer feeds a lower one, every layer can run to the
end before the next begins. A product that waits for a state of a lower layer, inside the loop of the whole step, then
reads a finished sequence: it leaves the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nmt.errors import ShapeError
from nmt.rnn.arrays.array_names import Arrays
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.arrays.workspace import Allocate, Fresh
from nmt.rnn.cell import Cell, strip, under
from nmt.rnn.cells import StackCell
from nmt.rnn.devices import cpu
from nmt.rnn.scan.scan import Scan
from nmt.rnn.scan.tape import Gradients, Result, Tape


@dataclass
class LayeredTape:
    """Tapes of all layers, each row's length, and the threads of their runs."""

    layers: list[Tape]
    lengths: np.ndarray
    allocate: Allocate
    threads: int


class LayeredScan:
    """The computation of `Scan(StackCell(cells))`, with the same parameters, layer by layer.

    delays: the number of steps by which each layer's output is late. Such a layer is given as many zeros after every
    row, and its first outputs are dropped, so layer n's output t may depend on its inputs up to t + delays[n].
    """

    def __init__(self, cells: Sequence[Cell], *, delays: Sequence[int] | None = None, **options: Any) -> None:
        """Make scans of all cells. `options` are those of `Scan`; `keep` has names of the stack, `0.o`."""
        self.cell = StackCell(list(cells))
        keep = options.pop("keep", None) or {}
        Scan(self.cell, keep=keep)  # raises an error for unknown names
        self.scans = [Scan(cell, keep=strip(keep, str(n)), **options) for n, cell in enumerate(cells)]
        self.delays = [0] * len(self.scans) if delays is None else list(delays)
        self.device = options.get("device") or cpu()
        self.dtype, self.packed = self.scans[0].dtype, self.scans[0].packed
        self.params, self.states, self.captured = self.cell.params(), self.cell.states(), self.cell.captured()

    def runs(self, T: int) -> Iterator[tuple[str, Scan, int, int]]:
        """Yield, for every layer and sequences of T steps, a name, the scan, its steps, and how many of them its delay
        adds."""
        for n, (scan, delay) in enumerate(zip(self.scans, self.delays, strict=True)):
            yield str(n), scan, T + delay, delay

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
        label: str = "scan",
        threads: int | None = None,
        final: Collection[str] | None = None,
    ) -> Result:
        """Run the layers as `Scan.forward` runs a cell. Raises ShapeError.

        x must be zero beyond each row's length if the first layer has a delay.
        """
        allocate = allocate or Fresh(self.device.xp)
        captured = captured or {}
        if set(captured) != set(self.captured):
            promise, got = sorted(self.captured) or "none", sorted(captured) or "none"
            raise ShapeError(f"LayeredScan: captured arrays must be {promise}, got {got}")
        steps = np.full(x.shape[1], len(x), np.int64) if lengths is None else np.asarray(lengths)
        tapes: list[Any] = []
        ends: Arrays = {}
        for n, (scan, delay) in enumerate(zip(self.scans, self.delays, strict=True)):
            result = scan.forward(
                weights.view(str(n)),
                self._with_zeros(x, 0, delay, allocate, threads),
                strip(initial or {}, str(n)),
                lengths=steps + delay,
                captured={name: captured[name] for name in scan.captured},
                source_lengths=source_lengths if scan.captured else None,
                training=training,
                seed=seed * 64 + n,
                allocate=allocate,
                label=f"{label}.{n}",
                threads=threads,
                final=_of_layer(final, n),
            )
            x = result.y[delay:]
            tapes.append(result.tape)
            ends |= under(str(n), result.final)
        tape = LayeredTape(tapes, steps, allocate, threads or self.scans[0].threads) if training else None
        return Result(x, ends, tape, {}, steps, np.zeros(len(steps), bool))

    def backward(
        self,
        tape: LayeredTape,
        d_y: np.ndarray,
        d_final: Mapping[str, np.ndarray] | None = None,
        gradients: Arrays | None = None,
        *,
        initial: Collection[str] | None = None,
    ) -> Gradients:
        """Return gradients as `Scan.backward` does."""
        d: Any = d_y
        starts: Arrays = {}
        captured: Arrays = {}
        for n in reversed(range(len(self.scans))):
            delay, below = self.delays[n], strip(gradients or {}, str(n))
            d = self._with_zeros(d, delay, 0, tape.allocate, tape.threads)
            d_last, names = strip(d_final or {}, str(n)), _of_layer(initial, n)
            got = self.scans[n].backward(tape.layers[n], d, d_last, below, initial=names)
            if got.x is None:
                raise RuntimeError("a layer gave no gradient of its input")
            d = got.x
            if delay:
                d = d[:-delay]
                self.device.clear_ended(d, tape.lengths, tape.threads)
            starts |= under(str(n), got.initial)
            for name, share in got.captured.items():
                if captured.setdefault(name, share) is not share:
                    self.device.add(captured[name], share, tape.threads)
        return Gradients(d, starts, captured)

    def _with_zeros(self, x: Any, before: int, after: int, allocate: Allocate, threads: int | None) -> Any:
        """Return x [T, B, n] between so many steps of zeros."""
        if not before + after:
            return x
        threads, end = threads or self.scans[0].threads, before + len(x)
        longer = allocate((end + after, *x.shape[1:]), self.dtype)
        self.device.clear(longer[:before], threads)
        self.device.clear(longer[end:], threads)
        self.device.join_columns([x], longer[before:end], threads)
        return longer


def _of_layer(names: Collection[str] | None, n: int) -> Collection[str] | None:
    """Return the names of layer n, without the layer's prefix; None is all."""
    return None if names is None else strip(dict.fromkeys(names), str(n))
