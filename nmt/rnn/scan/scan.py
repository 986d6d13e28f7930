"""The engine: any cell, over time, forward and backward, on rows of different lengths, in either direction.

`Scan(cell)` compiles the cell's step once (in memory for the process, its code on disk for the next); batch size and
lengths are free. Rows may come in any order; sorted by length, longest first, a step costs only its active rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from nmt.errors import NMTError
from nmt.rnn.arrays.array_names import ArrayKind, Arrays
from nmt.rnn.arrays.weights import Weights, check_gradients, check_params
from nmt.rnn.arrays.workspace import Allocate, Fresh
from nmt.rnn.cell import Cell
from nmt.rnn.scan.passes import BackwardPass, ForwardPass, Gradients, Prepared, Result, Tape, add_present
from nmt.rnn.scan.scan_setup import ScanSetup, by_name, pack_steps


class Scan(ScanSetup):
    """A cell over time, as it was when the scan was made: after a change make another scan. Options: `ScanSetup`."""

    def around(self, cell: Cell) -> Scan:
        """Return the same kind of scan of another cell, without `keep`, whose names belong to this cell."""
        return Scan(
            cell,
            dtype=self.dtype,
            compute_dtype=self.compute_dtype,
            recompute=self.recompute,
            threads=self.threads,
            division=self.division,
            device=self.device,
        )

    def forward(
        self,
        weights: Weights,
        x: np.ndarray,
        initial: Mapping[str, np.ndarray] | None = None,
        *,
        lengths: Sequence[int] | np.ndarray | None = None,
        mask: np.ndarray | None = None,
        sequences: Mapping[str, np.ndarray] | None = None,
        captured: Mapping[str, np.ndarray] | None = None,
        source_lengths: Sequence[int] | np.ndarray | None = None,
        reverse: bool = False,
        training: bool = False,
        seed: int = 0,
        allocate: Allocate | None = None,
        outputs: Any = None,
        single_step: bool = False,
        threads: int | None = None,
        final: Collection[str] | None = None,
        lasting: Any = None,
    ) -> Result:
        """Run the cell over x [T, B, D].

        initial: states [B, n] by name; missing ones start at the parameters the cell has for them, or at zero. lengths:
        steps of each row, all T where None; or mask, bool [T, B] of the host: the steps that exist, anywhere (see
        scan_setup.py). sequences: further inputs of each step, [T, B, n] by name. captured: arrays that are constant
        over time, [S, B, n] or [B, n]; source_lengths: real source positions of each row. reverse: from each row's last
        step to its first. training: dropout from `seed`, and a tape for `backward`. allocate: memory, new for every
        call where None. outputs: memory of y if it is to last longer. single_step: for inference with a T of 1, the
        program that does it in one call. threads: for this run and its backward pass, those of the scan where None.
        final: names of the final states to return, all where None. lasting: memory of them, and of the gradients of
        initial states; new where None. Raises ShapeError.

        Any number of threads may call at once, each with separate memory; they share the weights, which must not change
        meanwhile."""
        checks = self.checks
        x = checks.array("x", x, (None, None), self.cell.input_size)
        T, B, _ = x.shape
        others = checks.all_sequences(by_name(self.name, "sequences", sequences), T, B)
        captured = by_name(self.name, "captured arrays", captured)
        packing = None
        if mask is not None:
            lengths, packing = pack_steps(checks.steps_of(lengths, mask, T, B), self.device)
        if packing is not None:
            x, outputs = packing.pack(x), None
            others = {name: packing.pack(array) for name, array in others.items()}
        rows = self.rows(
            len(x),
            B,
            lengths=lengths,
            captured=captured,
            source_lengths=source_lengths,
            reverse=reverse,
            threads=threads,
        )
        check_params(checks.name, self.params, weights, self.dtype)
        with self.device.in_one_call():
            compiled, initial = self.compiled(training, single_step), {} if initial is None else initial
            run = ForwardPass(self, compiled, weights, rows, allocate or Fresh(self.device.xp))
            run.give_inputs(x, others)
            run.draw_masks(seed)
            run.give_captured(checks.all_captured(captured, rows.S, B))
            run.give_states(initial, outputs)
            compiled.step.forward(run.arrays, weights, rows, run.allocate)
            result = run.result(packing, final, lasting)
        if training:
            learned = {k: v for k, v in self.cell.learned().items() if k not in initial}
            given = run.arrays, run.constant_arrays, run.rows, weights, run.allocate
            result.tape = Tape(compiled, *given, packing, learned, lasting)
        return result

    def prepare(
        self, weights: Weights, x: np.ndarray, *, reverse: bool = False, threads: int | None = None
    ) -> Prepared:
        """Return a run for inference over whole rows of x [T, B, D], to be repeated with other numbers in the same
        arrays. For cells that read only their input and states, with fixed weights. The run must be used by one caller
        at a time. Raises ShapeError."""
        T, B, _ = x.shape
        rows = self.rows(T, B, reverse=reverse, threads=threads)
        check_params(self.checks.name, self.params, weights, self.dtype)
        self.checks.all_captured({}, rows.S, B)
        self.checks.all_sequences({}, T, B)
        compiled = self.compiled(training=False, single_step=T == 1)
        run = ForwardPass(self, compiled, weights, rows, Fresh())
        run.give_inputs(x, {})
        run.give_states({})
        launches = compiled.step.prepare(run.arrays, weights, rows, run.allocate)
        first, last = (T, 0) if reverse else (0, T)
        stacks = {name: run.arrays[ArrayKind.STATE.of(name)] for name in self.states}
        ends = {name: (0, T % 2) if name in run.plan.slots else (first, last) for name in stacks}
        initial, final = ({name: stack[ends[name][n]] for name, stack in stacks.items()} for n in (0, 1))
        return Prepared(launches, initial, final, run.output())

    def backward(
        self,
        tape: Tape | None,
        d_y: np.ndarray | None,
        d_final: Mapping[str, np.ndarray] | None = None,
        gradients: Arrays | None = None,
        *,
        d_recorded: Mapping[str, np.ndarray] | None = None,
        outputs: Any = None,
        weights_later: bool = False,
        initial: Collection[str] | None = None,
    ) -> Gradients:
        """Return gradients of sum(d_y * y) + sum(d_final * final) + sum(d_recorded * recorded).

        Those of the parameters are added to `gradients`, where present. d_recorded: by name, of values that `receives`
        names, in their shapes. outputs: zeroed memory of x's gradient, if that is to last longer than the tape.
        weights_later: keep in the tape the operands of the parameters' gradients, for `backward_weights`. initial:
        names of the initial states whose gradients are returned, all where None. Raises NMTError after a run that kept
        no tape, ShapeError."""
        if not isinstance(tape, Tape):
            got = "None; run it so" if tape is None else type(tape).__name__
            raise NMTError(f"{self.name}.backward: the tape must be of a run with training=True, got {got}")
        d_final = by_name(self.name, "d_final", d_final, self.states)
        gradients = by_name(self.name, "gradients", gradients)
        check_gradients(self.name, self.params, gradients, self.dtype)
        if weights_later:
            tape.compiled = tape.compiled.keeping_operands
        run = BackwardPass(self, tape)
        with self.device.in_one_call():
            run.give_outputs(d_y, d_recorded or {})
            run.give_states(d_final)
            run.take_memory(outputs)
            return run.run(gradients, initial)

    def backward_weights(self, tape: Tape, gradients: Arrays) -> None:
        """Add the gradients of the parameters to `gradients`, where present, after a `backward` with `weights_later`.

        It may be called repeatedly. The gradients are bit-identical to those of one `backward` for all, unless a step
        sums over units, as a layer normalisation does, or gates are recomputed: keeping the operands needs another
        program, whose sums may be grouped differently, and whose products may or may not be rounded before they are
        added."""
        check_gradients(self.name, self.params, gradients, self.dtype)
        invariants = self.invariants(tape.compiled, tape.rows.threads)
        tape.compiled.step.weight_gradients(tape.arrays, tape.weights, tape.rows, tape.allocate, gradients)
        invariants.weight_gradients(tape.constant_arrays, tape.weights, tape.rows, tape.allocate, gradients)
        add_present(tape.d_learned, gradients)
