"""One run of a scan's plan: the arrays that it reads and fills, and its result.

The caller gives inputs, masks, captured arrays and states, in this order, then runs; memory is allocated in that order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from nmt.errors import ShapeError
from nmt.rnn.arrays.array_names import ArrayKind, Arrays
from nmt.rnn.arrays.axes import shaped
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.arrays.workspace import Allocate
from nmt.rnn.compiler.program import PlaceKind
from nmt.rnn.kernels.memory.active_rows import identity
from nmt.rnn.profile import operation
from nmt.rnn.rows import Rows
from nmt.rnn.scan.array_checks import Packing
from nmt.rnn.scan.scan_setup import CompiledScan, ScanSetup
from nmt.rnn.scan.tape import Result


class ForwardPass:
    """The arrays of one run over `rows`."""

    def __init__(
        self, setup: ScanSetup, compiled: CompiledScan, weights: Weights, rows: Rows, allocate: Allocate
    ) -> None:
        self.setup, self.compiled, self.weights, self.rows, self.allocate = setup, compiled, weights, rows, allocate
        self.plan = compiled.step.plan
        self.arrays: Arrays = {}
        self.constant_arrays: Arrays = {}
        self._start: Arrays = {}

    # ------------------------------------------------------------ inputs

    def give_inputs(self, x: np.ndarray, sequences: Arrays) -> None:
        """Take x [T, B, D], and further sequences by name."""
        self.arrays["x"] = x
        self.arrays |= {ArrayKind.SEQUENCE.of(name): array for name, array in sequences.items()}

    def draw_masks(self, seed: int) -> None:
        """Draw the plan's dropout masks, each from a separate range of counters."""
        rows, device = self.rows, self.setup.device
        for n, mask in enumerate(self.plan.trace.masks):
            shape = (rows.B, mask.width) if mask.variational else (rows.T, rows.B, mask.width)
            array = self.allocate(shape, self.setup.dtype)
            with operation(rows.label, ": dropout masks"):
                device.dropout_mask(array.reshape(-1), 1.0 - mask.rate, seed, n << 40, rows.threads)
            self.arrays[mask.array] = array

    def give_captured(self, captured: Arrays) -> None:
        """Take captured arrays by name, and compute what the step needs of them alone."""
        self.arrays |= {ArrayKind.CAPTURED.of(name): array for name, array in captured.items()}
        invariants = self.setup.invariants(self.compiled, self.rows.threads)
        self.constant_arrays = invariants.forward(self.arrays, self.weights, self.rows, self.allocate)

    def give_states(self, initial: Mapping[str, np.ndarray], outputs: Any = None) -> None:
        """Allocate stacks of states that begin with `initial`; outputs: memory of y, which may be one of them.

        Raises ShapeError.
        """
        rows, y = self.rows, self.plan.outputs["y"]
        self._start = self.setup.start(self.weights, initial, rows.B)
        for name, width in self.setup.states.items():
            stack = ArrayKind.STATE.of(name)
            memory = outputs if outputs is not None and stack == y.name else self.allocate
            self.arrays[stack] = self._stack(name, width, memory)
        if outputs is not None and y.kind is PlaceKind.SEQUENCE:
            self.arrays[y.name] = outputs((rows.T, rows.B, self.setup.cell.output_size), self.setup.dtype)

    def _stack(self, name: str, width: int, allocate: Allocate) -> np.ndarray:
        """Return the stack of a state [T + 1, B, n], with the initial states; zero where no step writes.

        A row that runs forward has its initial state in slot 0 and writes the slots 1 to length. A reversed row has it
        in slot `length` and writes the slots length - 1 down to 0. A state of `plan.slots` has two slots, which are
        read and written in turn.
        """
        rows, device = self.rows, self.setup.device
        if name in self.plan.slots:  # a row that starts late finds its initial state in either slot
            slots = allocate((2, rows.B, width), self.setup.dtype)
            device.fill_slots(slots, self._start.get(name), rows.threads)
            return slots
        stack = allocate((rows.T + 1, rows.B, width), self.setup.dtype)
        ends = rows.lengths if rows.reverse else rows.lengths + 1
        first = rows.lengths if rows.reverse else np.zeros(rows.B, np.int64)
        device.begin_stack(stack, first, ends, self._start.get(name), rows.threads)
        return stack

    # ------------------------------------------------------------ the run

    def run(self) -> None:
        """Run the plan."""
        self.compiled.step.forward(self.arrays, self.weights, self.rows, self.allocate)

    # ------------------------------------------------------------ results

    def result(self, packing: Packing | None, wanted: Collection[str] | None = None) -> Result:
        """Return the caller's result, without a tape; `packing`: how steps were packed before; `wanted`: the names of
        the final states in it, None for all.

        Rows that met the stop condition are shorter from here on. Raises ShapeError: an invalid stop condition.
        """
        setup, stopped = self.setup, np.zeros(self.rows.B, bool)
        if setup.stop is not None:
            stopped = self._stop_rows(setup.stop)
        y, rows = self.output(), self.rows
        at = np.zeros(rows.B, np.int64) if rows.reverse else rows.lengths
        final = {}
        for name, width in setup.states.items():
            if wanted is not None and name not in wanted:
                continue
            slot = (np.full_like(at, rows.T) if rows.reverse else at) % 2 if name in self.plan.slots else at
            final[name] = shaped(pick(setup, self.arrays[ArrayKind.STATE.of(name)], slot), width)
        recorded = {name: self._recorded(name) for name in setup.wanted.record}
        if packing is not None:
            y, recorded = packing.unpack(y), {name: packing.unpack(a) for name, a in recorded.items()}
        return Result(shaped(y, setup.cell.output_size), final, None, recorded, rows.lengths, stopped)

    def output(self) -> np.ndarray:
        """Return y [T, B, n], zero where a row takes no step."""
        rows, device, place = self.rows, self.setup.device, self.plan.outputs["y"]
        array = self.arrays[place.name]
        if place.kind is not PlaceKind.AFTER:
            if not rows.whole:
                device.clear_ended(array, rows.lengths, rows.threads)
            return array
        y = array[: rows.T] if rows.reverse else array[1:]
        begins = any(place.name == ArrayKind.STATE.of(name) for name in self._start)
        if self.setup.stop is not None or (rows.reverse and begins and (rows.lengths < rows.T).any()):
            # Slot `length` of a shorter reversed row has its initial state, where y must be zero.
            y = device.host(y).copy()
            device.clear_ended(y, rows.lengths, rows.threads)
        return y

    def _of_steps(self, name: str) -> Any:
        """Return a noted value of all steps, [T, (S,) B, (n)]; entries where a row takes no step are arbitrary."""
        place = self.plan.outputs[ArrayKind.NOTED.of(name)]
        array = self.arrays[place.name]
        if place.kind is PlaceKind.AFTER:
            array = array[: self.rows.T] if self.rows.reverse else array[1:]
        return array

    def _recorded(self, name: str) -> Any:
        """Return a noted value for the caller: a copy, with an axis for its features, zero where a row takes no step or
        has no source position."""
        rows, xp, place = self.rows, self.setup.device.xp, self.plan.outputs[ArrayKind.NOTED.of(name)]
        array = self.setup.device.host(self._of_steps(name)).copy()
        there = np.arange(rows.T)[:, None] < rows.lengths
        if place.source_axis:
            real = np.arange(rows.S)[:, None] < rows.source_lengths
            there = there[:, None] & real
        array[xp.asarray(~there)] = 0
        return array[..., None] if place.width is None else array

    def _stop_rows(self, name: str) -> np.ndarray:
        """Shorten rows to the step at which they met their stop condition; return which rows met it, bool [B]."""
        rows, checks = self.rows, self.setup.checks
        if rows.reverse:
            raise ShapeError(f"{checks.name}: reverse must be False with a stop condition, got True")
        ended = self.setup.device.download(self._of_steps(name)).reshape(rows.T, -1) > 0
        if ended.shape[1] != rows.B:
            raise ShapeError(f"{checks.name}: stop must name a value of width 1, got {name} of another")
        ended &= np.arange(rows.T)[:, None] < rows.lengths
        stopped = np.asarray(ended.any(axis=0))
        taken = np.where(stopped, ended.argmax(axis=0) + 1, rows.lengths) if rows.T else rows.lengths
        self.rows = rows.of_lengths(taken)
        return stopped


def pick(setup: ScanSetup, slots: Any, at: np.ndarray) -> Any:
    """Return, for each row of [slots, B, n], its slot at[row]."""
    device, B = setup.device, len(at)
    return device.take_rows(slots.reshape(-1, slots.shape[-1]), device.index(at * B + identity(B)))
