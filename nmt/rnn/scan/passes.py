"""The forward and the backward pass of one run, and what they exchange: results, tapes, gradients.

The caller gives inputs, masks, captured arrays and states, in this order, then runs; memory is allocated in that
order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nmt.errors import ShapeError
from nmt.rnn.arrays.array_names import ArrayKind, Arrays, output, shaped
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.arrays.workspace import Allocate, zeros_of
from nmt.rnn.compiler.program import PlaceKind
from nmt.rnn.device import Slot
from nmt.rnn.rows import Rows
from nmt.rnn.scan.scan_setup import CompiledScan, Packing, ScanSetup


@dataclass
class Gradients:
    """Gradients of a scan: of the input [T, B, D], of the initial states, of the captured arrays and of the further
    sequences, by name; those that are not needed are missing."""

    x: np.ndarray | None
    initial: Arrays
    captured: Arrays
    sequences: Arrays = field(default_factory=dict)


@dataclass
class Result:
    """Outputs of a scan. `y` [T, B, n] is zero where a row takes no step; `final` holds each row's state after its last
    step; `tape`, after training, is the input of the backward pass: a `Tape`, or that of several layers; `recorded` are
    the recorded values, [T, B, n] or [T, S, B, n]; lengths, int64 [B], the number of steps of each row; stopped, bool
    [B], whether its stop condition was met."""

    y: np.ndarray
    final: Arrays
    tape: Any
    recorded: Arrays
    lengths: np.ndarray
    stopped: np.ndarray


@dataclass
class Tape:
    """The data that the backward pass needs from the forward pass."""

    compiled: CompiledScan
    arrays: Arrays
    constant_arrays: Arrays
    rows: Rows
    weights: Weights
    allocate: Allocate
    packing: Packing | None
    learned: Mapping[str, str]  # states that started at parameters
    outputs: Any = None  # memory of gradients of states, new where None
    d_learned: Arrays = field(default_factory=dict)  # of those parameters, after `backward`


@dataclass(frozen=True)
class Prepared:
    """A run in separate memory, see `Scan.prepare`: write x and `initial` [B, n] by name, call the launches in order,
    read `y` and `final`."""

    launches: list[Callable[[], None]]
    initial: Arrays
    final: Arrays
    y: np.ndarray


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
            device.dropout_mask(array.reshape(-1), 1.0 - mask.rate, seed, n << 40, rows.threads)
            self.arrays[mask.array] = array

    def give_captured(self, captured: Arrays) -> None:
        """Take captured arrays by name, and compute what the step needs of them alone."""
        self.arrays |= {ArrayKind.CAPTURED.of(name): array for name, array in captured.items()}
        invariants = self.setup.invariants(self.compiled, self.rows.threads)
        self.constant_arrays = invariants.forward(self.arrays, self.weights, self.rows, self.allocate)

    def give_states(self, initial: Mapping[str, np.ndarray], outputs: Any = None) -> None:
        """Allocate stacks of states from `initial`; outputs: memory of y, perhaps a stack. Raises ShapeError."""
        rows, y = self.rows, self.plan.outputs["y"]
        self._start = self.setup.start(self.weights, initial, rows.B)
        for name, width in self.setup.states.items():
            stack = ArrayKind.STATE.of(name)
            memory = outputs if outputs is not None and stack == y.name else self.allocate
            self.arrays[stack] = self._stack(name, width, memory)
        if outputs is not None and y.kind is PlaceKind.SEQUENCE:
            self.arrays[y.name] = outputs((rows.T, rows.B, self.setup.cell.output_size), self.setup.dtype)

    def _stack(self, name: str, width: int, allocate: Allocate) -> np.ndarray:
        """Return the stack of a state [T + 1, B, n], with the initial states; zero where no step writes. A row that
        runs forward has its initial state in slot 0 and writes the slots 1 to length. A reversed row has it in slot
        `length` and writes the slots length - 1 down to 0. A state of `plan.slots` has two slots, which are read and
        written in turn."""
        rows, device = self.rows, self.setup.device
        if name in self.plan.slots:  # a row that starts late finds its initial state in either slot
            slots = allocate((2, rows.B, width), self.setup.dtype)
            device.fill_slots(slots, self._start.get(name), rows.threads)
            return slots
        stack = allocate((rows.T + 1, rows.B, width), self.setup.dtype)
        device.begin_stack(stack, rows.lengths, rows.reverse, self._start.get(name), rows.threads)
        return stack

    # ------------------------------------------------------------ results

    def result(self, packing: Packing | None, wanted: Collection[str] | None = None, outputs: Any = None) -> Result:
        """Return the caller's result, without a tape; `packing`: how steps were packed before; `wanted`: the names of
        the final states in it, None for all; `outputs`: their memory, new where None. Rows that met the stop
        condition are shorter from here on. Raises ShapeError: an invalid stop condition."""
        setup, stopped = self.setup, np.zeros(self.rows.B, bool)
        if setup.stop is not None:
            stopped = self._stop_rows(setup.stop)
        y, rows = self.output(), self.rows
        final = {}
        for name, width in setup.states.items():
            if wanted is not None and name not in wanted:
                continue
            first = rows.T if rows.reverse and name in self.plan.slots else 0
            slot = first, int(not rows.reverse), rows.T + 1
            final[name] = shaped(pick(setup, self.arrays[ArrayKind.STATE.of(name)], rows, slot, outputs), width)
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
        """Return a copy of a noted value, with a feature axis, zero where a row has no step or source position."""
        rows, xp, place = self.rows, self.setup.device.xp, self.plan.outputs[ArrayKind.NOTED.of(name)]
        array = self.setup.device.host(self._of_steps(name)).copy()
        there = np.arange(rows.T)[:, None] < rows.lengths
        if place.source_axis:
            there = there[:, None] & (np.arange(rows.S)[:, None] < rows.source_lengths)
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


def pick(setup: ScanSetup, slots: Any, rows: Rows, slot: Slot, outputs: Any = None) -> Any:
    """Return a slot of each row of [slots, B, n], in new memory or from `outputs`."""
    out = None if outputs is None else outputs(slots.shape[1:], slots.dtype)
    return setup.device.take_slots(slots, rows.lengths, slot, out)


class BackwardPass:
    """The backward pass of this tape's run; call the `give_` and `take_` methods in this order, then `run`."""

    def __init__(self, setup: ScanSetup, tape: Tape) -> None:
        self.setup, self.tape = setup, tape
        self.plan, self.rows, self.arrays = tape.compiled.step.plan, tape.rows, tape.arrays

    # ------------------------------------------------------------ inputs

    def give_outputs(self, d_y: Any, d_recorded: Mapping[str, Any]) -> None:
        """Take the gradients of the outputs. Raises ShapeError: one that `receives` does not name, or a wrong shape."""
        checks, receives = self.setup.checks, self.setup.wanted.receives
        extra = sorted({*d_recorded, *(("y",) if d_y is not None else ())} - receives)
        if extra:
            got = f"none for {', '.join(extra)}; add it to Scan's receives"
            raise ShapeError(f"{checks.name}: receives must name every output that has a gradient, got {got}")
        found = {}
        for name in receives:
            given = d_y if name == "y" else d_recorded.get(name)
            found[ArrayKind.GRADIENT.of(output(name))] = self._of_output(name, given)
        self.arrays |= found

    def _of_output(self, name: str, given: Any) -> np.ndarray:
        """Return an output's gradient as the plan reads it, zero if it is None, packed like the run's steps."""
        rows, setup, packing = self.rows, self.setup, self.tape.packing
        place = self.plan.outputs[output(name)]
        axes = (rows.S, rows.B) if place.source_axis else (rows.B,)
        width = setup.cell.output_size if name == "y" else place.width or 1
        if given is None:
            array = zeros_of(setup.device.xp, (rows.T, *axes, width), setup.dtype)
        else:
            T = rows.T if packing is None else packing.steps
            array = setup.checks.array(f"d_{name}", given, (T, *axes), width)
            if packing is not None:
                array = packing.pack(array)
        return array if place.width is not None else array[..., 0]

    def give_states(self, d_final: Mapping[str, np.ndarray]) -> None:
        """Take the gradients of the final states [B, n] by name; missing ones are zero. Raises ShapeError."""
        rows, setup = self.rows, self.setup
        for name, width in setup.states.items():
            carry = self.tape.allocate((2, rows.B, width), setup.dtype)
            given = d_final.get(name)
            start = None if given is None else setup.checks.array(f"d_final {name}", given, (rows.B,), width)
            setup.device.fill_slots(carry, start, rows.threads)
            self.arrays[ArrayKind.STATE_GRADIENT.of(name)] = carry

    def take_memory(self, outputs: Any) -> None:
        """Allocate memory the plan adds to: of captured arrays; and of x's gradient, from `outputs` if given."""
        rows, setup, plan = self.rows, self.setup, self.plan
        for name, place in plan.d_captured.items():
            self.arrays[place.name] = self.tape.allocate(self.arrays[name].shape, setup.dtype)
            setup.device.clear(self.arrays[place.name], rows.threads)
        if outputs is not None and self.tape.packing is None and "x" in plan.d_inputs:
            self.arrays[plan.d_inputs["x"].name] = outputs((rows.T, rows.B, setup.cell.input_size), setup.dtype)

    # ------------------------------------------------------------ the run and its results

    def run(self, gradients: Arrays, wanted: Collection[str] | None = None) -> Gradients:
        """Run the plan and return gradients. `wanted`: names of initial states, None for all. Those of parameters are
        added to `gradients`, where present."""
        tape, rows, arrays, plan = self.tape, self.rows, self.arrays, self.plan
        invariants = self.setup.invariants(tape.compiled, rows.threads)
        rest = tape.weights, rows, tape.allocate, gradients
        tape.compiled.step.backward(arrays, *rest)
        captured = invariants.backward(plan.d_captured, arrays, tape.constant_arrays, *rest)
        names = self.setup.states if wanted is None else [n for n in self.setup.states if n in wanted]
        initial = self._of_initial(dict.fromkeys([*names, *tape.learned]))
        host = self.setup.device.host
        tape.d_learned = {param: host(initial[name]).sum(axis=0) for name, param in tape.learned.items()}
        add_present(tape.d_learned, gradients)
        return self._shaped({name: initial[name] for name in names}, captured)

    def _of_initial(self, names: Collection[str]) -> Arrays:
        """Return gradients of these initial states [B, n], from the slot written last. Two slots take turns, and every
        row has as many steps as its length. A row that runs forward in time has the last steps of the backward loop, T
        - length to T - 1, so the slot written last is T % 2. A reversed row has the first steps, 0 to length - 1, so it
        is length % 2."""
        rows = self.rows
        slot = (0, 1, rows.T + 1) if rows.reverse else (0, rows.T % 2, 1)
        carried = ((name, self.arrays[ArrayKind.STATE_GRADIENT.of(name)]) for name in names)
        return {name: pick(self.setup, carry, rows, slot, self.tape.outputs) for name, carry in carried}

    def _shaped(self, initial: Arrays, captured: Arrays) -> Gradients:
        """Return all gradients in the caller's shapes."""
        setup, packing = self.setup, self.tape.packing
        of = {name: self.arrays[place.name] for name, place in self.plan.d_inputs.items()}
        if packing is not None:
            of = {name: packing.unpack(array) for name, array in of.items()}
        inputs = {name: ArrayKind.SEQUENCE.of(name) for name in setup.checks.sequences} | {"x": "x"}
        constant = {name: ArrayKind.CAPTURED.of(name) for name in setup.captured}
        T = self.rows.T if packing is None else packing.steps
        widths = {name: (T, self.rows.B, int(setup.checks.inputs[name])) for name in inputs}
        of = self._needed(of, inputs, widths)
        captured = self._needed(captured, constant, {name: self.arrays[constant[name]].shape for name in constant})
        of = {name: shaped(array, setup.checks.inputs[name]) for name, array in of.items()}
        return Gradients(
            of.pop("x", None),
            {name: shaped(array, setup.states[name]) for name, array in initial.items()},
            {name: shaped(array, setup.captured[name].width) for name, array in captured.items()},
            of,
        )

    def _needed(self, found: Arrays, names: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> Arrays:
        """Return the needed gradients by the author's names, zero for unused ones; `names`: those of their arrays."""
        needs, xp, dtype = self.setup.wanted.needs, self.setup.device.xp, self.setup.dtype
        return {
            name: found[array] if array in found else zeros_of(xp, shapes[name], dtype)
            for name, array in names.items()
            if array in found or needs is None or array in needs
        }


def add_present(shares: Arrays, gradients: Arrays) -> None:
    """Add shares to the gradients that are present."""
    for name in shares.keys() & gradients.keys():
        gradients[name] += shares[name]
