"""Scans in chunks of time, each passing its states to the next.

Decisions between two chunks are made here: to stop when every row has met its stop condition, and not to pass gradients
further back (truncated backpropagation: Williams and Peng 1990, section 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nmt.errors import ShapeError
from nmt.rnn.arguments import whole_number
from nmt.rnn.arrays.array_names import Arrays
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.arrays.workspace import zeros_of
from nmt.rnn.cell import axes_of
from nmt.rnn.scan.passes import Gradients, Tape
from nmt.rnn.scan.scan import Scan
from nmt.rnn.scan.scan_setup import by_name


@dataclass
class ChunkedResult:
    """A `tape.Result` over all chunks; `tapes` are those of the chunks by their first steps, as they ran."""

    y: np.ndarray
    final: Arrays
    tapes: dict[int, Tape]
    recorded: Arrays
    lengths: np.ndarray
    stopped: np.ndarray


class ChunkedScan:
    """A scan in chunks of `steps` steps, with the results of one long call, but each chunk has a dropout seed."""

    def __init__(self, scan: Scan, steps: int) -> None:
        if not isinstance(scan, Scan):
            raise ShapeError(f"ChunkedScan: scan must be a Scan, got {type(scan).__name__}; make one, Scan(cell)")
        self.scan, self.steps = scan, whole_number("ChunkedScan", "steps", steps)

    def forward(
        self,
        weights: Weights,
        x: np.ndarray,
        initial: Mapping[str, np.ndarray] | None = None,
        *,
        lengths: Any = None,
        mask: np.ndarray | None = None,
        sequences: Mapping[str, np.ndarray] | None = None,
        reverse: bool = False,
        seed: int = 0,
        **options: Any,
    ) -> ChunkedResult:
        """Run the cell as `Scan.forward` does, whose other `options` it takes. A row that meets the scan's stop
        condition leaves after that chunk; when no row is left, no further chunk is run. Raises ShapeError."""
        scan = self.scan
        T, B, _ = scan.checks.array("x", x, (None, None), scan.cell.input_size).shape
        there = scan.checks.steps_of(lengths, mask, T, B)
        sequences = by_name(scan.name, "sequences", sequences)
        y = self._zeros(T, B, scan.cell.output_size)
        result = ChunkedResult(y, {}, {}, {}, np.zeros(B, np.int64), np.zeros(B, bool))
        states = initial
        starts = range(0, max(1, T), self.steps)
        for n, start in enumerate(reversed(starts) if reverse else starts):
            span = slice(start, start + self.steps)
            if n and not there[span].any():
                continue
            parts = {name: array[span] for name, array in sequences.items()}
            one = scan.forward(
                weights, x[span], states, mask=there[span], sequences=parts, reverse=reverse, seed=seed + n, **options
            )
            there[span.stop :, one.stopped] = False
            result.stopped |= one.stopped
            states = result.final = one.final
            result.lengths += one.lengths
            result.y[span] = one.y
            for name, array in one.recorded.items():
                whole = result.recorded.setdefault(name, scan.device.xp.zeros((T, *array.shape[1:]), array.dtype))
                whole[span] = array
            if one.tape is not None:
                result.tapes[start] = one.tape
        return result

    def backward(
        self,
        result: ChunkedResult,
        d_y: np.ndarray | None,
        d_final: Mapping[str, np.ndarray] | None = None,
        gradients: Arrays | None = None,
        *,
        truncate: bool = False,
    ) -> Gradients:
        """Return gradients as `Scan.backward` does. truncate: no gradient passes from one chunk to the one that ran
        before it; that of the initial states is then of the first chunk only."""
        scan, (T, B) = self.scan, result.y.shape[:2]
        if not result.tapes:
            raise ShapeError(f"{scan.checks.name}: result must come from a forward with training=True, got no tapes")
        total = Gradients(None, dict(d_final or {}), {}, {})
        for start, tape in reversed(result.tapes.items()):
            span = slice(start, start + self.steps)
            found = scan.backward(tape, None if d_y is None else d_y[span], total.initial, gradients)
            total.initial = {} if truncate else found.initial
            if found.x is not None:
                total.x = self._zeros(T, B, scan.cell.input_size) if total.x is None else total.x
                total.x[span] = found.x
            for name, array in found.sequences.items():
                whole = total.sequences.setdefault(name, self._zeros(T, B, scan.checks.sequences[name]))
                whole[span] = array
            for name, array in found.captured.items():
                total.captured[name] = total.captured[name] + array if name in total.captured else array
        total.initial = found.initial
        return total

    def _zeros(self, T: int, B: int, width: int) -> Any:
        return zeros_of(self.scan.device.xp, (T, B, *axes_of(width)), self.scan.dtype)
