"""Values of a step that are constant over time: computed once per sequence, and their gradients once as well."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nmt.rnn.arrays.array_names import ArrayKind, Arrays
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.arrays.workspace import Allocate
from nmt.rnn.compiler.program import Place
from nmt.rnn.device import Device, Executable
from nmt.rnn.division import split_rows
from nmt.rnn.profile import operation
from nmt.rnn.rows import Rows


class Invariants:
    """The small step of a trace (see `compiler.trace`), on one device; None if a cell has none."""

    def __init__(self, executable: Executable | None, device: Device, threads: int) -> None:
        self.executable, self.device, self.threads = executable, device, threads

    def forward(self, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate) -> Arrays:
        """Add the values to `arrays`, computed from the captured arrays in it; return what `backward` needs."""
        if self.executable is None:
            return {}
        plan = self.executable.plan
        own: Arrays = {name: arrays[name][None] for name in plan.trace.inputs}
        self.executable.forward(own, weights, self._rows(rows), allocate)
        for name, place in plan.outputs.items():
            arrays[name] = own[place.name][0]
        return own

    def backward(
        self,
        places: Mapping[str, Place],
        arrays: Arrays,
        own: Arrays,
        weights: Weights,
        rows: Rows,
        allocate: Allocate,
        gradients: Arrays,
    ) -> Arrays:
        """Return gradients of the captured arrays by the arrays' names; those of parameters are added to `gradients`.

        `places` locate the step's own contribution among `arrays`.
        """
        direct = {name: arrays[place.name] for name, place in places.items()}
        if self.executable is None or self.executable.plan.backward is None:
            return direct
        plan = self.executable.plan
        for name in plan.receives:
            share = direct.pop(name) if name in direct else self.device.xp.zeros_like(arrays[name])
            own[ArrayKind.GRADIENT.of(name)] = share[None]
        self.executable.backward(own, weights, self._rows(rows), allocate, gradients)
        for name, place in plan.d_inputs.items():
            with operation(rows.label, " gradients: joining those of captured arrays"):
                through = self._real(own[place.name][0], rows)
                if name in direct:
                    self.device.add(direct[name], through, rows.threads)
                else:
                    direct[name] = through
        return direct

    def weight_gradients(
        self, own: Arrays, weights: Weights, rows: Rows, allocate: Allocate, gradients: Arrays
    ) -> None:
        """Add to the parameters' `gradients` after a `backward` (see `Executable.weight_gradients`)."""
        if self.executable is not None and self.executable.plan.backward is not None:
            self.executable.weight_gradients(own, weights, self._rows(rows), allocate, gradients)

    def _rows(self, rows: Rows) -> Rows:
        """Return rows of one step, over the real source positions."""
        return Rows(
            1,
            rows.B,
            rows.S,
            np.ones(rows.B, np.int64),
            rows.source_lengths,
            rows.owner,
            split_rows(rows.source_lengths, self.threads),
            False,
            block_rows=rows.block_rows,
            label=f"{rows.label} constants",
        )

    def _real(self, array: np.ndarray, rows: Rows) -> np.ndarray:
        """Return a gradient [S, B, n], zeroed where a row has no source position."""
        if array.ndim == 3:
            self.device.clear_ended(array, rows.source_lengths, rows.threads)
        return array
