"""The engine: any cell, over time, forward and back, on rows of different lengths, in either direction.

`Scan(cell)` compiles the cell's step once (in memory for the process, its code on disk for the next); batch size and
lengths are free. Rows may come in any order; sorted by length, longest first, a step costs only its active rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from nmt.errors import NMTError, ShapeError
from nmt.rnn.cell import Cell
from nmt.rnn.compiler.keep import Recompute
from nmt.rnn.compiler.plan import Plan, make_plan
from nmt.rnn.compiler.trace import Mask, Trace, trace
from nmt.rnn.device import Device, Executable, cpu
from nmt.rnn.drop_connect import connections, disconnected, joined
from nmt.rnn.kernels import run_cpu
from nmt.rnn.kernels.run_cpu import Division, Launch, Rows, identity, split_rows
from nmt.rnn.kernels.threads import default_threads
from nmt.rnn.profile import operation
from nmt.rnn.weights import QUADS, Weights, check_device, check_params, packed_dtype
from nmt.rnn.workspace import Allocate, Fresh

Arrays = dict[str, np.ndarray]


@dataclass
class Compiled:
    """A plan ready to run, with the plan of what is constant over time."""

    step: Executable
    constant: Executable | None


@lru_cache(maxsize=256)
def _compile(
    signature: Any,
    device: Device,
    dtype: np.dtype,
    packed: np.dtype,
    training: bool,
    want_inputs: bool,
    single_step: bool,
    recompute: Recompute,
) -> Compiled:
    traced = trace(_CELLS[signature], training=training)
    plan = make_plan(traced, training=training, want_inputs=want_inputs, single_step=single_step, recompute=recompute)
    step = device.executable(plan, dtype, packed)
    constant = None
    if traced.invariants is not None:
        constant = device.executable(make_plan(traced.invariants, training=training), dtype, packed)
    return Compiled(step, constant)


_CELLS: dict[Any, Cell] = {}  # what the keys of the plan cache stand for


@dataclass
class Gradients:
    """Gradients of a scan: of the input [T, B, D], of the initial states and of the captured arrays, by name."""

    x: np.ndarray | None
    initial: Arrays
    captured: Arrays


@dataclass
class Result:
    """Outputs of a scan. `y` [T, B, n] is zero beyond each row's length; `final` holds each row's state after its
    last step."""

    y: np.ndarray
    final: Arrays
    tape: Tape | None


@dataclass
class Tape:
    """What the backward pass needs from the forward pass."""

    compiled: Compiled
    arrays: Arrays
    constant_arrays: Arrays
    rows: Rows
    weights: Weights
    allocate: Allocate
    connections: Arrays  # see drop_connect.py


@dataclass(frozen=True)
class Prepared:
    """A run in memory of its own, see `Scan.prepare`: write x and `initial` [B, n] by name, call the launches in turn,
    read `y` and `final`."""

    launches: list[Launch]
    initial: Arrays
    final: Arrays
    y: np.ndarray


class Scan:
    """A cell over time."""

    def __init__(
        self,
        cell: Cell,
        *,
        dtype: Any = np.float32,
        compute_dtype: str | None = None,
        threads: int | None = None,
        want_inputs: bool = True,
        division: Division | None = None,
        recompute: Recompute = "attention",
        device: Device | None = None,
    ) -> None:
        """`division`: what threads share, `rows` of the batch or hidden `units`; None chooses by the sizes of batch
        and weights. The results are the same bits. `recompute` in the backward pass: what is large in `attention`
        alone, or `gates` as well, so that nothing but the states is stored for each step. `compute_dtype`: "bfloat16"
        rounds both sides of every product of float32 numbers, and adds up in float32; "int8" rounds them to whole
        numbers with a scale for each row and output channel, for inference on the processor alone; parameters, states
        and all else stay float32; None is `dtype`. `device`: where all arrays lie, None for the processor. Raises
        NMTError where the two types do not go together."""
        self.packed = packed_dtype(type(cell).__name__, dtype, compute_dtype)
        self.compute_dtype = compute_dtype
        self.recompute: Recompute = recompute
        self.cell, self.dtype = cell, np.dtype(dtype)
        self.device = device or cpu()
        check_device(type(cell).__name__, self.packed, self.device.name)
        self.threads, self.division = threads or default_threads(), division
        self.want_inputs = want_inputs
        self.params = cell.params()
        self.states = cell.states()
        self.captured = cell.captured()
        self._signature = (cell.signature(),)
        _CELLS.setdefault(self._signature, cell)

    def around(self, cell: Cell) -> Scan:
        """The same kind of scan of another cell."""
        kinds = {"dtype": self.dtype, "compute_dtype": self.compute_dtype}
        return Scan(cell, **kinds, threads=self.threads, division=self.division)

    def compiled(self, training: bool, single_step: bool = False) -> Compiled:
        """The plan for a kind of run; made at first use. Raises NMTError: training in int8."""
        if training and self.packed == QUADS:
            name = type(self.cell).__name__
            raise NMTError(
                f"{name}: compute_dtype must be float32 or bfloat16 for training, got int8; train in another"
            )
        single_step, recompute = single_step and not training, self.recompute if training else "attention"
        kinds = self.device, self.dtype, self.packed
        return _compile(self._signature, *kinds, training, self.want_inputs, single_step, recompute)

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
        captured: Mapping[str, np.ndarray] | None = None,
        source_lengths: Sequence[int] | np.ndarray | None = None,
        reverse: bool = False,
        training: bool = False,
        seed: int = 0,
        allocate: Allocate | None = None,
        outputs: Any = None,
        single_step: bool = False,
        label: str = "scan",
    ) -> Result:
        """Run the cell over x [T, B, D].

        initial: states [B, n] by name; missing ones are zero. lengths: steps of each row, all T where None.
        captured: arrays that
        stay the same, [S, B, n] or [B, n]; source_lengths: real source positions of each row. reverse: from each
        row's last step to its first. training: dropout from `seed`, and a tape for `backward`. allocate: memory, of
        its own for every call where None. outputs: memory of y where it is to last longer. single_step: for
        inference with a T of 1, the program that does it in one call. label: what a profile calls this run and its
        way back. Raises ShapeError.
        """
        rows = self._rows(x, lengths, captured or {}, source_lengths, reverse, label)
        check_params(type(self.cell).__name__, self.params, weights, self.dtype)
        kept = connections(self.params, seed, self.dtype, self.device, self.threads) if training else {}
        weights = disconnected(weights, self.params, kept)
        compiled, allocate = self.compiled(training, single_step), allocate or Fresh(self.device.xp)
        traced = compiled.step.plan.trace
        arrays: Arrays = {"x": x}
        for name, mask in self._masks(traced, rows, seed, allocate).items():
            arrays[name] = mask
        for name, array in self._check_captured(captured or {}, rows).items():
            arrays[f"C_{name}"] = array
        constant_arrays = self._constant(compiled, arrays, weights, rows, allocate)
        for name, width in self.states.items():
            is_output = f"S_{name}" == compiled.step.plan.outputs["y"].name
            memory = outputs if outputs is not None and is_output else allocate
            arrays[f"S_{name}"] = self._stack(name, width, initial or {}, rows, memory)
        if outputs is not None and compiled.step.plan.outputs["y"].kind == "seq":
            arrays[compiled.step.plan.outputs["y"].name] = outputs((rows.T, rows.B, self.cell.output_size), self.dtype)
        compiled.step.forward(arrays, weights, rows, allocate)
        y = self._output(compiled, arrays, rows, initial or {})
        at = np.zeros(rows.B, np.int64) if reverse else rows.lengths
        final = {name: self._pick(arrays[f"S_{name}"], at) for name in self.states}
        tape = Tape(compiled, arrays, constant_arrays, rows, weights, allocate, kept) if training else None
        return Result(y, final, tape)

    def prepare(self, weights: Weights, x: np.ndarray, *, reverse: bool = False) -> Prepared:
        """A run for inference over whole rows of x [T, B, D], to be repeated with other numbers in the same arrays.

        For cells without captured arrays, and weights that stay as they are. Raises ShapeError.
        """
        rows = self._rows(x, None, {}, None, reverse)
        check_params(type(self.cell).__name__, self.params, weights, self.dtype)
        self._check_captured({}, rows)
        compiled = self.compiled(training=False, single_step=rows.T == 1)
        if not isinstance(compiled.step, run_cpu.Executable):
            raise RuntimeError(f"runs are prepared for the processor only, got {self.device.name}")
        arrays: Arrays = {"x": x}
        allocate = Fresh()
        for name, width in self.states.items():
            arrays[f"S_{name}"] = self._stack(name, width, {}, rows, allocate)
        launches = compiled.step.prepare(arrays, weights, rows, allocate)
        first, last = (rows.T, 0) if reverse else (0, rows.T)
        initial, final = ({name: arrays[f"S_{name}"][slot] for name in self.states} for slot in (first, last))
        return Prepared(launches, initial, final, self._output(compiled, arrays, rows, {}))

    def backward(
        self,
        tape: Tape,
        d_y: np.ndarray | None,
        d_final: Mapping[str, np.ndarray] | None = None,
        gradients: Arrays | None = None,
        *,
        outputs: Any = None,
    ) -> Gradients:
        """Gradients of sum(d_y * y) + sum(d_final * final). Those of the parameters are added to `gradients`, where
        present. outputs: zeroed memory of x's, where that is to last longer than the tape."""
        rows, arrays, allocate = tape.rows, tape.arrays, tape.allocate
        plan = tape.compiled.step.plan
        shape = (rows.T, rows.B, self.cell.output_size)
        zeros = self.device.xp.zeros
        arrays["d_y"] = self._check_array("d_y", d_y, shape) if d_y is not None else zeros(shape, self.dtype)
        for name, width in self.states.items():
            carry = allocate((2, rows.B, width), self.dtype)
            given = (d_final or {}).get(name)
            carry[:] = 0 if given is None else self._check_array(f"d_final {name}", given, (rows.B, width))
            arrays[f"D_{name}"] = carry
        for name, place in plan.d_captured.items():
            arrays[place.name] = allocate(arrays[f"C_{name}"].shape, self.dtype)
            with operation(rows.label, " gradients: zeroing"):
                arrays[place.name][:] = 0
        if outputs is not None and "x" in plan.d_inputs:
            arrays[plan.d_inputs["x"].name] = outputs((rows.T, rows.B, self.cell.input_size), self.dtype)
        with joined({} if gradients is None else gradients, tape.connections) as shares:
            tape.compiled.step.backward(arrays, tape.weights, rows, allocate, shares)
            captured = self._constant_backward(tape, shares)
        # The slot written last: every row steps as often as it is long, the first step of the loop being step T -
        # length.
        slot = (rows.lengths if rows.reverse else np.where(rows.lengths > 0, rows.T, 0)) % 2
        initial = {name: self._pick(arrays[f"D_{name}"], slot) for name in self.states}
        d_x = arrays[plan.d_inputs["x"].name] if "x" in plan.d_inputs else None
        return Gradients(d_x, initial, captured)

    # ------------------------------------------------------------ the door: shapes are checked once, here

    def _check_array(self, what: str, array: np.ndarray, shape: tuple[int | None, ...]) -> np.ndarray:
        is_array = isinstance(array, self.device.xp.ndarray)
        fits = (
            is_array
            and array.ndim == len(shape)
            and all(n is None or n == m for n, m in zip(shape, array.shape, strict=True))
        )
        if not fits or array.dtype != self.dtype:
            promise = f"{self.dtype} [{', '.join('any' if n is None else str(n) for n in shape)}] on {self.device.name}"
            got = f"{array.dtype} {list(array.shape)}" if is_array else type(array).__name__
            raise ShapeError(f"{type(self.cell).__name__}: {what} must be {promise}, got {got}")
        return self.device.xp.ascontiguousarray(array)

    def _rows(
        self,
        x: np.ndarray,
        lengths: Any,
        captured: Mapping[str, np.ndarray],
        source_lengths: Any,
        reverse: bool,
        label: str = "scan",
    ) -> Rows:
        self._check_array("x", x, (None, None, self.cell.input_size))
        T, B, _ = x.shape
        steps = self._lengths("lengths", lengths, B, T)
        wide = [captured[k] for k, c in self.captured.items() if c.source_axis and k in captured]
        S = wide[0].shape[0] if wide else 1
        sources = self._lengths("source_lengths", source_lengths, B, S)
        bounds = split_rows(steps, self.threads)
        return Rows(
            T, B, S, steps, sources, identity(B), bounds, reverse, self.division, self.device.block_rows, label=label
        )

    def _lengths(self, what: str, lengths: Any, B: int, limit: int) -> np.ndarray:
        if lengths is None:
            return np.full(B, limit, np.int64)
        array = np.asarray(lengths)
        whole = array.dtype.kind in "iu" or not array.size
        if array.shape != (B,) or not whole or (B and (array.min() < 0 or array.max() > limit)):
            raise ShapeError(
                f"{type(self.cell).__name__}: {what} must be {B} integers from 0 to {limit}, got {array.tolist()}"
            )
        return array.astype(np.int64)

    def _check_captured(self, captured: Mapping[str, np.ndarray], rows: Rows) -> Arrays:
        if set(captured) != set(self.captured):
            expected = sorted(self.captured) or "none"
            raise ShapeError(
                f"{type(self.cell).__name__}: captured arrays must be {expected}, got {sorted(captured) or 'none'}"
            )
        source = {True: (rows.S,), False: ()}
        return {
            k: self._check_array(k, captured[k], (*source[c.source_axis], rows.B, c.width))
            for k, c in self.captured.items()
        }

    # ------------------------------------------------------------ memory of a run

    def _masks(self, traced: Trace, rows: Rows, seed: int, allocate: Allocate) -> Arrays:
        masks: Arrays = {}
        for n, mask in enumerate(traced.masks):
            shape = (rows.B, mask.width) if mask.variational else (rows.T, rows.B, mask.width)
            array = allocate(shape, self.dtype)
            with operation(rows.label, ": dropout masks"):
                self._draw(array, mask, seed, n)
            masks[f"C_{mask.name}" if mask.variational else mask.name] = array
        return masks

    def _draw(self, array: np.ndarray, mask: Mask, seed: int, n: int) -> None:
        self.device.dropout_mask(array.reshape(-1), 1.0 - mask.rate, seed, n << 40, self.threads)

    def _stack(
        self, name: str, width: int, initial: Mapping[str, np.ndarray], rows: Rows, allocate: Allocate
    ) -> np.ndarray:
        """The state stack [T + 1, B, n]: zero where no step writes, the initial state in each row's first slot."""
        stack = allocate((rows.T + 1, rows.B, width), self.dtype)
        ends = rows.lengths if rows.reverse else rows.lengths + 1
        self.device.clear_ended(stack, ends, rows.threads)
        first: Any = tuple(map(self.device.index, (rows.lengths, identity(rows.B)))) if rows.reverse else 0
        given = initial.get(name)
        stack[first] = 0 if given is None else self._check_array(f"initial {name}", given, (rows.B, width))
        return stack

    def _pick(self, slots: Any, at: np.ndarray) -> Any:
        """Of [slots, B, n] each row's slot at[row]."""
        return slots[self.device.index(at), self.device.index(identity(len(at)))]

    def _output(self, compiled: Compiled, arrays: Arrays, rows: Rows, initial: Mapping[str, np.ndarray]) -> np.ndarray:
        place = compiled.step.plan.outputs["y"]
        array = arrays[place.name]
        if place.kind != "after":
            self.device.clear_ended(array, rows.lengths, rows.threads)
            return array
        y = array[: rows.T] if rows.reverse else array[1:]
        if rows.reverse and place.name[2:] in initial and (rows.lengths < rows.T).any():
            y = y.copy()  # the initial state lies where a shorter row's output must be zero
            self.device.clear_ended(y, rows.lengths, rows.threads)
        return y

    # ------------------------------------------------------------ what is constant over time

    def _constant_rows(self, rows: Rows) -> Rows:
        ones = np.ones(rows.B, np.int64)
        return Rows(
            1,
            rows.B,
            rows.S,
            ones,
            rows.source_lengths,
            rows.owner,
            split_rows(rows.source_lengths, self.threads),
            False,
            block_rows=rows.block_rows,
            label=f"{rows.label} constants",
        )

    def _constant(self, compiled: Compiled, arrays: Arrays, weights: Weights, rows: Rows, allocate: Allocate) -> Arrays:
        if compiled.constant is None:
            return {}
        plan = compiled.constant.plan
        constant: Arrays = {name: arrays[f"C_{name}"][None] for name in plan.trace.inputs}
        compiled.constant.forward(constant, weights, self._constant_rows(rows), allocate)
        for name, place in plan.outputs.items():
            arrays[f"C_{name}"] = constant[place.name][0]
        return constant

    def _constant_backward(self, tape: Tape, gradients: Arrays) -> Arrays:
        plan, arrays = tape.compiled.step.plan, tape.arrays
        direct = {name: arrays[place.name] for name, place in plan.d_captured.items()}
        if tape.compiled.constant is None:
            return direct
        constant = tape.compiled.constant
        for name in constant.plan.trace.outputs:
            tape.constant_arrays[f"d_{name}"] = direct.pop(name)[None]
        constant.backward(tape.constant_arrays, tape.weights, self._constant_rows(tape.rows), tape.allocate, gradients)
        for name, place in constant.plan.d_inputs.items():
            with operation(tape.rows.label, " gradients: joining those of captured arrays"):
                through = self._real(tape.constant_arrays[place.name][0], tape.rows)
                direct[name] = direct[name] + through if name in direct else through
        return direct

    def _real(self, array: np.ndarray, rows: Rows) -> np.ndarray:
        if array.ndim == 3:
            self.device.clear_ended(array, rows.source_lengths, rows.threads)
        return array
