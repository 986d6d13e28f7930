"""Running the engine one step at a time for fixed rows: for search on a GPU, where arrays must not move.

N sentences have K rows each. In contrast to `stepper.Stepper`, no row comes or goes and nothing is shared, so every
step is the same sequence of launches on the same arrays, without decisions by the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nmt.rnn.arrays.array_names import ArrayKind
from nmt.rnn.arrays.weights import Weights, check_params
from nmt.rnn.arrays.workspace import Fresh, Workspace
from nmt.rnn.compiler.program import PlaceKind
from nmt.rnn.division import split_rows
from nmt.rnn.rows import Rows
from nmt.rnn.scan.scan import Scan

Arrays = dict[str, Any]


class FixedStepper:
    """A cell run without a tape; the caller writes its next input into `x` [N * K, D]."""

    def __init__(
        self,
        scan: Scan,
        weights: Weights,
        captured: Mapping[str, Any],
        source_lengths: np.ndarray,
        states: Mapping[str, Any],
        K: int,
    ) -> None:
        """Allocate arrays for N sentences of K rows.

        captured [S, N, n] or [N, n] and states [N, n] by name, on the device; missing states are zero. source_lengths
        [N], of the host. Every row of a sentence starts with its states. Raises ShapeError.
        """
        check_params(type(scan.cell).__name__, scan.params, weights, scan.dtype)
        self.scan, self.weights, xp = scan, weights, scan.device.xp
        self._compiled = scan.compiled(training=False, single_step=True)
        N, D = len(source_lengths), scan.cell.input_size
        one = scan.rows(1, N, captured=captured, source_lengths=source_lengths)
        self._arrays: Arrays = {
            ArrayKind.CAPTURED.of(k): a for k, a in scan.checks.all_captured(captured, one.S, N).items()
        }
        scan.invariants(self._compiled, scan.threads).forward(self._arrays, weights, one, Fresh(xp))
        R = N * K
        ones, owner = np.ones(R, np.int64), np.repeat(np.arange(N), K)
        bounds = split_rows(ones, scan.threads)
        self._rows = Rows(1, R, one.S, ones, one.source_lengths, owner, bounds, False, scan.division)
        self.x = xp.zeros((R, D), scan.dtype)
        first = scan.device.index(owner)
        start = scan.start(weights, states, N)
        for name, width in scan.states.items():
            stack = self._arrays[ArrayKind.STATE.of(name)] = xp.zeros((2, R, width), scan.dtype)
            if name in start:
                stack[0] = scan.device.take_rows(start[name], first)
        self._memory = Workspace(xp)

    def step(self) -> Any:
        """Return the output [N * K, n] for the input `x`. It is overwritten by the next step."""
        arrays = {**self._arrays, "x": self.x[None]}
        self._memory.reset()  # the same addresses in every step
        self._compiled.step.forward(arrays, self.weights, self._rows, self._memory)
        place = self._compiled.step.plan.outputs["y"]
        return arrays[place.name][1 if place.kind is PlaceKind.AFTER else 0]

    def state(self, name: str) -> Any:
        """Return a state [N * K, n] after the last step, until `follow`."""
        return self._arrays[ArrayKind.STATE.of(name)][1]

    def follow(self, parents: Any) -> None:
        """Continue row r from the state of row parents[r] after the last step (int64 [N * K], of the device)."""
        for name in self.scan.states:
            stack = self._arrays[ArrayKind.STATE.of(name)]
            self.scan.device.take_rows(stack[1], parents, stack[0])
