"""The engine: any cell, over time, forward and back, on rows of different lengths, in either direction.

`Scan(cell)` compiles the cell's step once (in memory for the process, its code on disk for the next); batch size and
lengths are free. Rows may come in any order; sorted by length, longest first, a step costs only its active rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from nmt.errors import NMTError, ShapeError
from nmt.rnn.cell import Cell
from nmt.rnn.compiled import Compiled, compile_step
from nmt.rnn.compiler.identity import traced
from nmt.rnn.compiler.keep import Keep, Recompute
from nmt.rnn.compiler.plan import Plan
from nmt.rnn.compiler.trace import NOTED, SEQUENCE, Mask, Trace
from nmt.rnn.compiler.wanted import wanted
from nmt.rnn.cores import default_threads
from nmt.rnn.device import Device, cpu
from nmt.rnn.door import Door, shaped
from nmt.rnn.drop_connect import connections, disconnected, joined
from nmt.rnn.invariants import Invariants
from nmt.rnn.kernels import run_cpu
from nmt.rnn.kernels.run_cpu import Division, Rows, split_rows
from nmt.rnn.kernels.runs import identity
from nmt.rnn.masks import Packing, pack_steps
from nmt.rnn.profile import operation
from nmt.rnn.tape import Gradients, Prepared, Result, Tape
from nmt.rnn.weights import QUADS, Weights, check_device, check_params, packed_dtype
from nmt.rnn.workspace import Allocate, Fresh

Arrays = dict[str, np.ndarray]


class Scan:
    """A cell over time, as the cell was when the scan was made: one that is edited is another for the next scan."""

    def __init__(
        self,
        cell: Cell,
        *,
        dtype: Any = np.float32,
        compute_dtype: str | None = None,
        threads: int | None = None,
        needs: Collection[str] | None = None,
        receives: Collection[str] | None = None,
        record: Sequence[str] = (),
        stop: str | None = None,
        division: Division | None = None,
        recompute: Recompute = "attention",
        keep: Mapping[str, bool] | None = None,
        device: Device | None = None,
    ) -> None:
        """`division`: what threads share, `rows` of the batch or hidden `units`; None chooses by the sizes of batch
        and weights. The results are the same bits. `recompute` in the backward pass: what is large in `attention`
        alone, or `gates` as well, so that nothing but the states is stored for each step. `keep`: values that the cell
        notes, by name, that are an exception to it: stored for the way back, or with False computed again there,
        together with what they are computed from where that is not stored. `compute_dtype`: "bfloat16"
        rounds both sides of every product of float32 numbers, and adds up in float32; "int8" rounds them to whole
        numbers with a scale for each row and output channel, for inference on the processor alone; parameters, states
        and all else stay float32; None is `dtype`. `device`: where all arrays lie, None for the processor.

        What is asked for beyond y and the final states; what is not is never computed. `needs`: names of what gradients
        are computed of: `x`, further sequences, captured arrays, parameters; None is all. `receives`: the outputs that
        have a gradient, `y` where None, of `y` and recorded values. `record`: names of values that the cell notes
        (`Scope.note`), to be kept for every step. `stop`: the name of one of width 1: a row whose value is positive
        after a step has taken its last one.

        Raises NMTError where the types do not go together and for another `recompute`, ShapeError for names that the
        cell does not have. A value of `keep` that cannot be computed again is an NMTError of the first training run."""
        if recompute not in get_args(Recompute):
            kinds = " or ".join(get_args(Recompute))
            raise NMTError(f"{type(cell).__name__}: recompute must be {kinds}, got {recompute}")
        self.packed = packed_dtype(type(cell).__name__, dtype, compute_dtype)
        self.compute_dtype = compute_dtype
        self.recompute: Recompute = recompute
        self.keep: Keep = tuple(sorted((keep or {}).items()))
        self.traced = traced(cell)
        if self.keep:
            self.traced.trace(training=True, named=[name for name, _ in self.keep])  # says which names there are
        self.cell, self.dtype = cell, np.dtype(dtype)
        self.device = device or cpu()
        check_device(type(cell).__name__, self.packed, self.device.name)
        self.threads, self.division = threads or default_threads(), division
        self.stop = stop
        shown = dict.fromkeys((*record, stop) if stop is not None else record)
        self.wanted = wanted(cell, needs, receives, shown)
        self.params = cell.params()
        self.states = cell.states()
        self.captured = cell.captured()
        self.door = Door(cell, self.dtype, self.device)

    def __repr__(self) -> str:
        """The cell and its sizes, and how and where it computes."""
        sizes = f"{type(self.cell).__name__} {self.cell.input_size} -> {self.cell.output_size}"
        return f"Scan({sizes}, {self.compute_dtype or self.dtype}, {self.device.name}, threads={self.threads})"

    def around(self, cell: Cell) -> Scan:
        """The same kind of scan of another cell; `keep` speaks of names of this one alone."""
        kinds = {"dtype": self.dtype, "compute_dtype": self.compute_dtype, "recompute": self.recompute}
        return Scan(cell, **kinds, threads=self.threads, division=self.division, device=self.device)

    def runs(self, T: int) -> Iterator[tuple[str, Scan, int, int]]:
        """Of a sequence of T steps: a name, the scan, its steps, and 0 that are added; as `LayeredScan` has one for
        each layer."""
        yield "", self, T, 0

    def compiled(self, training: bool, single_step: bool = False) -> Compiled:
        """The plan for a kind of run; made at first use. Raises NMTError: training in int8."""
        if training and self.packed == QUADS:
            name = type(self.cell).__name__
            raise NMTError(f"{name}: compute_dtype must be float32 or bfloat16 to train, got int8; take another")
        single_step = single_step and not training
        kept: tuple[Recompute, Keep] = (self.recompute, self.keep) if training else ("attention", ())
        kinds = self.device, self.dtype, self.packed
        return compile_step(self.traced, *kinds, training, self.wanted, single_step, *kept)

    def plan(self, training: bool) -> Plan:
        """The programs of a kind of run, to look at."""
        return self.compiled(training).step.plan

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
        label: str = "scan",
        threads: int | None = None,
    ) -> Result:
        """Run the cell over x [T, B, D].

        initial: states [B, n] by name; missing ones start at the parameters the cell has for them, or at zero.
        lengths: steps of each row, all T where None; or mask, bool [T, B] of the host: the steps that exist, anywhere
        (see masks.py). sequences: what else is read at every step, [T, B, n] by name. captured: arrays that
        stay the same, [S, B, n] or [B, n]; source_lengths: real source positions of each row. reverse: from each
        row's last step to its first. training: dropout from `seed`, and a tape for `backward`. allocate: memory, of
        its own for every call where None. outputs: memory of y where it is to last longer. single_step: for
        inference with a T of 1, the program that does it in one call. label: what a profile calls this run and its
        way back. threads: for this run and its way back, those of the scan where None. Raises ShapeError.

        Any number of threads may call at once, each with memory of its own; they share the weights, which must stay
        as they are meanwhile.
        """
        x = self.door.array("x", x, (None, None), self.cell.input_size)
        T, B, _ = x.shape
        others = self.door.all_sequences(sequences or {}, T, B)
        packing: Packing | None = None
        if mask is not None:
            lengths, packing = pack_steps(self.door.steps_of(lengths, mask, T, B), self.device)
        if packing is not None:
            x, outputs = packing.pack(x), None
            others = {name: packing.pack(array) for name, array in others.items()}
        rows = self._rows(x, lengths, captured or {}, source_lengths, reverse, label, threads)
        check_params(self.door.name, self.params, weights, self.dtype)
        kept = connections(self.params, seed, self.dtype, self.device, rows.threads) if training else {}
        weights = disconnected(weights, self.params, kept)
        compiled, allocate = self.compiled(training, single_step), allocate or Fresh(self.device.xp)
        plan = compiled.step.plan
        arrays: Arrays = {"x": x, **{f"{SEQUENCE}{name}": array for name, array in others.items()}}
        for name, dropped in self._masks(plan.trace, rows, seed, allocate).items():
            arrays[name] = dropped
        for name, array in self.door.all_captured(captured or {}, rows.S, B).items():
            arrays[f"C_{name}"] = array
        constant_arrays = self.invariants(compiled, rows.threads).forward(arrays, weights, rows, allocate)
        given = initial or {}
        first = self.start(weights, given, B)
        for name, width in self.states.items():
            is_output = f"S_{name}" == plan.outputs["y"].name
            memory = outputs if outputs is not None and is_output else allocate
            arrays[f"S_{name}"] = self._stack(name, width, first, rows, memory)
        if outputs is not None and plan.outputs["y"].kind == "seq":
            arrays[plan.outputs["y"].name] = outputs((rows.T, B, self.cell.output_size), self.dtype)
        compiled.step.forward(arrays, weights, rows, allocate)
        stopped = np.zeros(B, bool)
        if self.stop is not None:
            rows, stopped = self._stopped(plan, arrays, rows)
        y = self._output(plan, arrays, rows, first)
        at = np.zeros(B, np.int64) if reverse else rows.lengths
        final = {name: shaped(self._pick(arrays[f"S_{name}"], at), width) for name, width in self.states.items()}
        recorded = {name: self._recorded(plan, arrays, rows, name) for name in self.wanted.record}
        if packing is not None:
            y, recorded = packing.unpack(y), {name: packing.unpack(a) for name, a in recorded.items()}
        learned = {k: v for k, v in self.cell.learned().items() if k not in given}
        tape = None
        if training:
            tape = Tape(compiled, arrays, constant_arrays, rows, weights, allocate, kept, packing, learned)
        return Result(shaped(y, self.cell.output_size), final, tape, recorded, rows.lengths, stopped)

    def prepare(
        self, weights: Weights, x: np.ndarray, *, reverse: bool = False, threads: int | None = None
    ) -> Prepared:
        """A run for inference over whole rows of x [T, B, D], to be repeated with other numbers in the same arrays.

        For cells that read nothing but their input and states, and weights that stay as they are. The run is one
        caller's at a time. Raises ShapeError.
        """
        rows = self._rows(x, None, {}, None, reverse, threads=threads)
        check_params(self.door.name, self.params, weights, self.dtype)
        self.door.all_captured({}, rows.S, rows.B)
        self.door.all_sequences({}, rows.T, rows.B)
        compiled = self.compiled(training=False, single_step=rows.T == 1)
        if not isinstance(compiled.step, run_cpu.Executable):
            raise RuntimeError(f"runs are prepared for the processor only, got {self.device.name}")
        arrays: Arrays = {"x": x}
        allocate = Fresh()
        start = self.start(weights, {}, rows.B)
        for name, width in self.states.items():
            arrays[f"S_{name}"] = self._stack(name, width, start, rows, allocate)
        launches = compiled.step.prepare(arrays, weights, rows, allocate)
        first, last = (rows.T, 0) if reverse else (0, rows.T)
        initial, final = ({name: arrays[f"S_{name}"][slot] for name in self.states} for slot in (first, last))
        return Prepared(launches, initial, final, self._output(compiled.step.plan, arrays, rows, {}))

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
    ) -> Gradients:
        """Gradients of sum(d_y * y) + sum(d_final * final) + sum(d_recorded * recorded). Those of the parameters are
        added to `gradients`, where present. d_recorded: by name, of values that `receives` names; shaped as they are.
        outputs: zeroed memory of x's, where that is to last longer than the tape. weights_later: keep in the tape what
        those of the parameters are summed from, for `backward_weights`. Raises NMTError after a run that kept no tape,
        ShapeError."""
        if tape is None:
            name = type(self.cell).__name__
            raise NMTError(f"{name}.backward: the tape must be of a run with training=True, got None; run it so")
        if weights_later:
            tape.compiled = tape.compiled.apart
        rows, arrays, allocate, packing = tape.rows, tape.arrays, tape.allocate, tape.packing
        plan = tape.compiled.step.plan
        arrays |= self._cotangents(tape, d_y, d_recorded or {})
        for name, width in self.states.items():
            carry = allocate((2, rows.B, width), self.dtype)
            given = (d_final or {}).get(name)
            carry[:] = 0 if given is None else self.door.array(f"d_final {name}", given, (rows.B,), width)
            arrays[f"D_{name}"] = carry
        for name, place in plan.d_captured.items():
            arrays[place.name] = allocate(arrays[f"C_{name}"].shape, self.dtype)
            with operation(rows.label, " gradients: zeroing"):
                arrays[place.name][:] = 0
        if outputs is not None and packing is None and "x" in plan.d_inputs:
            arrays[plan.d_inputs["x"].name] = outputs((rows.T, rows.B, self.cell.input_size), self.dtype)
        with joined({} if gradients is None else gradients, tape.connections) as shares:
            tape.compiled.step.backward(arrays, tape.weights, rows, allocate, shares)
            captured = self.invariants(tape.compiled, rows.threads).backward(
                plan.d_captured, arrays, tape.constant_arrays, tape.weights, rows, allocate, shares
            )
        # The slot written last: every row steps as often as it is long, the first step of the loop being step T -
        # length.
        slot = (rows.lengths if rows.reverse else np.where(rows.lengths > 0, rows.T, 0)) % 2
        initial = {name: self._pick(arrays[f"D_{name}"], slot) for name in self.states}
        tape.d_learned = {param: initial[name].sum(axis=0) for name, param in tape.learned.items()}
        _add_there(tape.d_learned, gradients or {})
        of = {name: arrays[place.name] for name, place in plan.d_inputs.items()}
        if packing is not None:
            of = {name: packing.unpack(array) for name, array in of.items()}
        of = {name.removeprefix(SEQUENCE): array for name, array in of.items()}
        of = {name: shaped(array, self.door.inputs[name]) for name, array in of.items()}
        return Gradients(
            of.pop("x", None),
            {name: shaped(array, self.states[name]) for name, array in initial.items()},
            {name: shaped(array, self.captured[name].width) for name, array in captured.items()},
            of,
        )

    def backward_weights(self, tape: Tape, gradients: Arrays) -> None:
        """Add the gradients of the parameters to `gradients`, where present, after a `backward` with `weights_later`;
        as often as is asked. They have the bits that one `backward` for all gives, unless a step sums over units, as a
        layer normalisation does, or gates are computed again: what keeps its operands is another program, whose sums
        may be grouped otherwise, and whose products be rounded or not before they are added."""
        with joined(gradients, tape.connections) as shares:
            tape.compiled.step.weight_gradients(tape.arrays, tape.weights, tape.rows, tape.allocate, shares)
            self.invariants(tape.compiled, tape.rows.threads).weight_gradients(
                tape.constant_arrays, tape.weights, tape.rows, tape.allocate, shares
            )
        _add_there(tape.d_learned, gradients)

    def start(self, weights: Weights, given: Mapping[str, np.ndarray], B: int) -> Arrays:
        """The states of B rows before their first step, [B, n] by name; those that start at zero are missing.
        Raises ShapeError."""
        found = {name: given[name] for name in self.states if given.get(name) is not None}
        found = {k: self.door.array(f"initial {k}", a, (B,), self.states[k]) for k, a in found.items()}
        for name, param in self.cell.learned().items():
            if name not in found:
                found[name] = self.device.xp.broadcast_to(weights[param], (B, self.states[name]))
        return found

    def invariants(self, compiled: Compiled, threads: int) -> Invariants:
        """What of the step is constant over time."""
        return Invariants(compiled.constant, self.device, threads)

    def _rows(
        self,
        x: np.ndarray,
        lengths: Any,
        captured: Mapping[str, np.ndarray],
        source_lengths: Any,
        reverse: bool,
        label: str = "scan",
        threads: int | None = None,
    ) -> Rows:
        T, B, _ = x.shape
        steps = self.door.lengths("lengths", lengths, B, T)
        S = self.door.source_steps(captured)
        sources = self.door.lengths("source_lengths", source_lengths, B, S)
        bounds = split_rows(steps, threads or self.threads)
        return Rows(
            T, B, S, steps, sources, identity(B), bounds, reverse, self.division, self.device.block_rows, label=label
        )

    # ------------------------------------------------------------ memory of a run

    def _masks(self, traced: Trace, rows: Rows, seed: int, allocate: Allocate) -> Arrays:
        masks: Arrays = {}
        for n, mask in enumerate(traced.masks):
            shape = (rows.B, mask.width) if mask.variational else (rows.T, rows.B, mask.width)
            array = allocate(shape, self.dtype)
            with operation(rows.label, ": dropout masks"):
                self._draw(array, mask, seed, n, rows.threads)
            masks[f"C_{mask.name}" if mask.variational else mask.name] = array
        return masks

    def _draw(self, array: np.ndarray, mask: Mask, seed: int, n: int, threads: int) -> None:
        self.device.dropout_mask(array.reshape(-1), 1.0 - mask.rate, seed, n << 40, threads)

    def _stack(self, name: str, width: int, start: Arrays, rows: Rows, allocate: Allocate) -> np.ndarray:
        """The state stack [T + 1, B, n]: zero where no step writes, the initial state in each row's first slot."""
        stack = allocate((rows.T + 1, rows.B, width), self.dtype)
        ends = rows.lengths if rows.reverse else rows.lengths + 1
        self.device.clear_ended(stack, ends, rows.threads)
        first: Any = tuple(map(self.device.index, (rows.lengths, identity(rows.B)))) if rows.reverse else 0
        stack[first] = start.get(name, 0)
        return stack

    def _pick(self, slots: Any, at: np.ndarray) -> Any:
        """Of [slots, B, n] each row's slot at[row]."""
        return slots[self.device.index(at), self.device.index(identity(len(at)))]

    def _output(self, plan: Plan, arrays: Arrays, rows: Rows, start: Arrays) -> np.ndarray:
        place = plan.outputs["y"]
        array = arrays[place.name]
        if place.kind != "after":
            self.device.clear_ended(array, rows.lengths, rows.threads)
            return array
        y = array[: rows.T] if rows.reverse else array[1:]
        if self.stop is not None or (rows.reverse and place.name[2:] in start and (rows.lengths < rows.T).any()):
            y = y.copy()  # a state lies where a shorter row's output must be zero
            self.device.clear_ended(y, rows.lengths, rows.threads)
        return y

    def _of_steps(self, plan: Plan, arrays: Arrays, rows: Rows, name: str) -> Any:
        """A noted value of all steps, [T, (S,) B, (n)]; what lies where a row takes no step is arbitrary."""
        place = plan.outputs[NOTED + name]
        array = arrays[place.name]
        if place.kind == "after":
            array = array[: rows.T] if rows.reverse else array[1:]
        return array

    def _recorded(self, plan: Plan, arrays: Arrays, rows: Rows, name: str) -> Any:
        array, xp = self._of_steps(plan, arrays, rows, name).copy(), self.device.xp
        there = np.arange(rows.T)[:, None] < rows.lengths
        if plan.outputs[NOTED + name].source_axis:
            real = np.arange(rows.S)[:, None] < rows.source_lengths
            there = there[:, None] & real
        array[xp.asarray(~there)] = 0
        return array[..., None] if plan.outputs[NOTED + name].width is None else array

    def _stopped(self, plan: Plan, arrays: Arrays, rows: Rows) -> tuple[Rows, np.ndarray]:
        """The rows as long as their stop condition has let them become, and which have met it."""
        if rows.reverse:
            raise ShapeError(f"{self.door.name}: reverse must be False with a stop condition, got True")
        name = self.stop or ""
        ended = self.device.download(self._of_steps(plan, arrays, rows, name)).reshape(rows.T, -1) > 0
        if ended.shape[1] != rows.B:
            raise ShapeError(f"{self.door.name}: stop must name a value of width 1, got {name} of another")
        ended &= np.arange(rows.T)[:, None] < rows.lengths
        stopped = np.asarray(ended.any(axis=0))
        taken = np.where(stopped, ended.argmax(axis=0) + 1, rows.lengths) if rows.T else rows.lengths
        return replace(rows, lengths=taken, _segments={}), stopped

    def _cotangents(self, tape: Tape, d_y: Any, d_recorded: Mapping[str, Any]) -> Arrays:
        """Gradients of the outputs that have one, under the names the plan reads them by."""
        rows, plan, receives = tape.rows, tape.compiled.step.plan, self.wanted.receives
        extra = sorted({*d_recorded, *(("y",) if d_y is not None else ())} - receives)
        if extra:
            raise ShapeError(
                f"{self.door.name}: receives must name every output that has a gradient, got none for "
                f"{', '.join(extra)}; add it to Scan's receives"
            )
        T = rows.T if tape.packing is None else tape.packing.steps
        found: Arrays = {}
        for name in receives:
            place = plan.outputs["y" if name == "y" else NOTED + name]
            lead = (T, rows.S, rows.B) if place.source_axis else (T, rows.B)
            width = self.cell.output_size if name == "y" else place.width or 1
            given = d_y if name == "y" else d_recorded.get(name)
            if given is None:
                lead = (rows.T, *lead[1:])
                array = self.device.xp.zeros((*lead, width), self.dtype)
            else:
                array = self.door.array(f"d_{name}", given, lead, width)
                array = array if tape.packing is None else tape.packing.pack(array)
            key = "d_y" if name == "y" else f"d_{NOTED}{name}"
            found[key] = array if place.width is not None else array[..., 0]
        return found


def _add_there(shares: Arrays, gradients: Arrays) -> None:
    """Add to those that are there."""
    for name in shares.keys() & gradients.keys():
        gradients[name] += shares[name]
