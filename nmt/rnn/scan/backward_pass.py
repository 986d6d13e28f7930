"""The backward pass of one run: it takes gradients of the outputs and computes gradients of the inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from nmt.errors import ShapeError
from nmt.rnn.arrays.array_names import ArrayKind, Arrays, output
from nmt.rnn.arrays.axes import shaped
from nmt.rnn.arrays.workspace import zeros_of
from nmt.rnn.profile import operation
from nmt.rnn.scan.forward_pass import pick
from nmt.rnn.scan.scan_setup import ScanSetup
from nmt.rnn.scan.tape import Gradients, Tape


class BackwardPass:
    """The backward pass of the run that made this tape; the caller calls its `give_` and `take_` methods in this order,
    then `run`."""

    def __init__(self, setup: ScanSetup, tape: Tape) -> None:
        self.setup, self.tape = setup, tape
        self.plan, self.rows, self.arrays = tape.compiled.step.plan, tape.rows, tape.arrays

    # ------------------------------------------------------------ inputs

    def give_outputs(self, d_y: Any, d_recorded: Mapping[str, Any]) -> None:
        """Take the gradients of the outputs. Raises ShapeError: one that `receives` does not name, or a wrong shape."""
        checks, receives = self.setup.checks, self.setup.wanted.receives
        extra = sorted({*d_recorded, *(("y",) if d_y is not None else ())} - receives)
        if extra:
            raise ShapeError(
                f"{checks.name}: receives must name every output that has a gradient, got none for "
                f"{', '.join(extra)}; add it to Scan's receives"
            )
        found = {}
        for name in receives:
            given = d_y if name == "y" else d_recorded.get(name)
            found[ArrayKind.GRADIENT.of(output(name))] = self._of_output(name, given)
        self.arrays |= found

    def _of_output(self, name: str, given: Any) -> np.ndarray:
        """Return the gradient of one output as the plan reads it, zero if it is None; its steps are packed like those
        of the run."""
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
        """Allocate the memory that the plan adds to: of captured arrays; and of x's gradient, from `outputs` if
        given."""
        rows, setup, plan = self.rows, self.setup, self.plan
        for name, place in plan.d_captured.items():
            shape = self.arrays[name].shape
            self.arrays[place.name] = self.tape.allocate(shape, setup.dtype)
            with operation(rows.label, " gradients: zeroing"):
                setup.device.clear(self.arrays[place.name], rows.threads)
        if outputs is not None and self.tape.packing is None and "x" in plan.d_inputs:
            x = outputs((rows.T, rows.B, setup.cell.input_size), setup.dtype)
            self.arrays[plan.d_inputs["x"].name] = x

    # ------------------------------------------------------------ the run and its results

    def run(self, gradients: Arrays, wanted: Collection[str] | None = None) -> Gradients:
        """Run the plan and return gradients. `wanted`: names of initial states, None for all. Those of parameters are
        added to `gradients`, where present."""
        tape, rows, arrays, plan = self.tape, self.rows, self.arrays, self.plan
        invariants = self.setup.invariants(tape.compiled, rows.threads)
        tape.compiled.step.backward(arrays, tape.weights, rows, tape.allocate, gradients)
        captured = invariants.backward(
            plan.d_captured, arrays, tape.constant_arrays, tape.weights, rows, tape.allocate, gradients
        )
        names = self.setup.states if wanted is None else [n for n in self.setup.states if n in wanted]
        initial = self._of_initial(dict.fromkeys([*names, *tape.learned]))
        host = self.setup.device.host
        tape.d_learned = {param: host(initial[name]).sum(axis=0) for name, param in tape.learned.items()}
        add_present(tape.d_learned, gradients)
        return self._shaped({name: initial[name] for name in names}, captured)

    def _of_initial(self, names: Collection[str]) -> Arrays:
        """Return gradients of these initial states [B, n], from the slot written last.

        Two slots take turns, and every row has as many steps as its length. A row that runs forward in time has the
        last steps of the backward loop, T - length to T - 1, so the slot written last is T % 2. A reversed row has the
        first steps, 0 to length - 1, so it is length % 2.
        """
        rows = self.rows
        slot = (rows.lengths if rows.reverse else np.where(rows.lengths > 0, rows.T, 0)) % 2
        carried = ((name, self.arrays[ArrayKind.STATE_GRADIENT.of(name)]) for name in names)
        return {name: pick(self.setup, carry, slot) for name, carry in carried}

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
        """Return the needed gradients by the author's names (`names` has those of their arrays), zero where nothing
        depends on them."""
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
