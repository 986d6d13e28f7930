"""The configuration of a scan: a cell, how and where its numbers are computed, what must be computed; and the plans
that are compiled for it, once in a process.

Shapes, dtypes, lengths and masks are checked once, here; values constant over time are computed once per sequence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, get_args

import numpy as np

from nmt.errors import NMTError, ShapeError
from nmt.rnn.arguments import MOST_THREADS, expect, lengths_of, shown, whole_number
from nmt.rnn.arrays.array_names import ArrayKind, Arrays, flat
from nmt.rnn.arrays.weights import QUADS, Weights, check_device, packed_dtype
from nmt.rnn.arrays.workspace import Allocate
from nmt.rnn.cell import Cell, axes_of, check_is_cell
from nmt.rnn.compiler.identity import TracedStep, traced
from nmt.rnn.compiler.keep import Keep, Recompute
from nmt.rnn.compiler.plan import Plan, make_plan, with_operands
from nmt.rnn.compiler.program import Place
from nmt.rnn.compiler.trace import Wanted, wanted
from nmt.rnn.cores import default_threads
from nmt.rnn.device import Device, Executable
from nmt.rnn.devices import cpu
from nmt.rnn.kernels.memory.arrays import identity
from nmt.rnn.rows import Division, Rows, split_rows

Lead = tuple[int | None, ...]
"""Sizes of the axes before the features; None is any."""


class ArrayChecks:
    """Checks of a cell's arrays, which have one dtype and device. All errors are ShapeErrors."""

    def __init__(self, name: str, cell: Cell, dtype: np.dtype, device: Device) -> None:
        self.name, self.dtype, self.device = name, dtype, device
        self.captured, self.sequences = cell.captured(), cell.sequences()
        self.inputs = {"x": cell.input_size, **self.sequences}

    def array(self, what: str, array: Any, lead: Lead, width: int) -> Any:
        """Return `array`, contiguous, with one axis for its features."""
        shape = (*lead, *axes_of(width))
        expect(self.name, what, array, self.device.xp.ndarray, self.dtype, shape, f" on {self.device.name}")
        return flat(self.device.contiguous(array), len(lead), width)

    def lengths(self, what: str, lengths: Any, B: int, limit: int) -> np.ndarray:
        """Return lengths of B rows as int64; None is `limit` for each."""
        if lengths is None:
            return np.full(B, limit, np.int64)
        array = lengths_of(self.name, lengths, B, limit, what)
        return array.astype(np.int64, copy=array.flags.writeable)  # others stay what they are, also by address

    def steps_of(self, lengths: Any, mask: Any, T: int, B: int) -> np.ndarray:
        """Return the steps of each row, bool [T, B], from lengths, a mask, or neither for all steps."""
        if mask is None:
            return np.asarray(np.arange(T)[:, None] < self.lengths("lengths", lengths, B, T))
        mask = np.array(mask)
        if lengths is not None:
            raise ShapeError(f"{self.name}: lengths must be None with a mask, got both")
        return np.asarray(expect(self.name, "mask", mask, np.ndarray, np.dtype(bool), (T, B)))

    def all_captured(self, captured: Mapping[str, Any], S: int, B: int) -> Arrays:
        """Return the captured arrays after checking that exactly the cell's are given."""
        check_names(self.name, "captured arrays", captured, self.captured)
        source = {True: (S,), False: ()}
        return {k: self.array(k, captured[k], (*source[c.source_axis], B), c.width) for k, c in self.captured.items()}

    def all_sequences(self, sequences: Mapping[str, Any], *lead: int) -> Arrays:
        """Return the further sequences, checked to be exactly the cell's, with these sizes before the features."""
        check_names(self.name, "sequences", sequences, self.sequences)
        return {k: self.array(k, sequences[k], lead, n) for k, n in self.sequences.items()}


def by_name(where: str, what: str, given: Any, known: Mapping[str, Any] | None = None) -> Any:
    """Return arrays given by name, none where None, after checking that they are among the known names, if any."""
    given = {} if given is None else given
    if not isinstance(given, Mapping) or (known is not None and not given.keys() <= known.keys()):
        promise = "a dict" if known is None else f"a dict with names among {', '.join(known) or 'none'}"
        got = ", ".join(map(str, given)) if isinstance(given, Mapping) else shown(given)
        raise ShapeError(f"{where}: {what} must be {promise}, got {got}")
    return given


def check_names(where: str, what: str, got: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raise ShapeError unless arrays of exactly these names are given."""
    if set(got) != set(expected):
        raise ShapeError(f"{where}: {what} must be {sorted(expected) or 'none'}, got {sorted(got) or 'none'}")


class Packing:
    """Moves arrays between the `steps` of a mask and packed rows, of `T` steps at most. A step that is masked out does
    not exist: the state before it is the state after it, its output is zero, and its input is never read. A row with
    holes is packed into a row of its other steps, so a masked step costs nothing."""

    def __init__(self, mask: np.ndarray, device: Device) -> None:
        """Prepare the indices of a mask, bool [T, B], True where a step exists."""
        self.steps, B = mask.shape
        self.T = int(mask.sum(axis=0).max(initial=0))
        order = np.argsort(~mask, axis=0, kind="stable")[: self.T]  # the steps that exist first, in their order
        self._device, self._xp = device, device.xp
        self._rows = device.index(np.arange(B, dtype=np.int64))
        self._from = device.index(order.astype(np.int64))
        self._to = device.index(np.maximum(np.cumsum(mask, axis=0) - 1, 0).astype(np.int64))
        self._holes = device.xp.asarray(~mask)

    def pack(self, array: Any) -> Any:
        """Return [steps, B, n] or [steps, S, B, n] without the steps that do not exist; padding is arbitrary."""
        return self._take(array, self._from)

    def unpack(self, array: Any) -> Any:
        """Return an array at the mask's steps again, zero where no step exists."""
        if not self.T:
            return self._xp.zeros((self.steps, *array.shape[1:]), array.dtype)
        spread = self._take(array, self._to)
        moved = spread.swapaxes(1, 2) if spread.ndim == 4 else spread
        moved[self._holes] = 0
        return spread

    def _take(self, array: Any, steps: Any) -> Any:
        """Return the given steps [T, B] of each row."""
        array = self._device.host(array)
        if array.ndim == 4:  # the rows are the third axis
            return self._xp.ascontiguousarray(array.swapaxes(1, 2)[steps, self._rows].swapaxes(1, 2))
        return array[steps, self._rows]


def pack_steps(mask: np.ndarray, device: Device) -> tuple[np.ndarray, Packing | None]:
    """Return the lengths of rows under a mask, bool [T, B] of the host, and their packing; None if nothing moves."""
    lengths = mask.sum(axis=0).astype(np.int64)
    first = np.arange(len(mask))[:, None] < lengths
    return lengths, None if (mask == first).all() else Packing(mask, device)


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
        `places` locate the step's own contribution among `arrays`."""
        direct = {name: arrays[place.name] for name, place in places.items()}
        if self.executable is None or self.executable.plan.backward is None:
            return direct
        plan = self.executable.plan
        for name in plan.receives:
            share = direct.pop(name) if name in direct else self.device.xp.zeros_like(arrays[name])
            own[ArrayKind.GRADIENT.of(name)] = share[None]
        self.executable.backward(own, weights, self._rows(rows), allocate, gradients)
        for name, place in plan.d_inputs.items():
            through = own[place.name][0]
            if through.ndim == 3:  # nothing flows to what is no source position of a row
                self.device.clear_ended(through, rows.source_lengths, rows.threads)
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
        bounds, sources = split_rows(rows.source_lengths, self.threads), rows.source_lengths
        more = {"S": rows.S, "source_lengths": sources, "bounds": bounds, "block_rows": rows.block_rows}
        return Rows.of_one_step(rows.owner, self.threads, **more)


@dataclass
class CompiledScan:
    """A compiled plan, with the plan of the values that are constant over time."""

    step: Executable
    constant: Executable | None
    make: Callable[[Plan], Executable]

    @cached_property
    def keeping_operands(self) -> CompiledScan:
        """Return the same plan, keeping the operands of weight gradients (see `Scan.backward_weights`)."""
        constant = self.constant and self.make(with_operands(self.constant.plan))
        return CompiledScan(self.make(with_operands(self.step.plan)), constant, self.make)


class RunKind(NamedTuple):
    """A kind of run: device, types, and what it must compute. single_step: inference with a T of 1."""

    device: Device
    dtype: np.dtype
    packed: np.dtype
    training: bool
    want: Wanted
    single_step: bool
    recompute: Recompute
    keep: Keep


@lru_cache(maxsize=256)
def compile_step(step: TracedStep, kind: RunKind) -> CompiledScan:
    """Return the compiled plans of a step and of its invariants for a kind of run."""
    want, training = kind.want, kind.training
    traced = step.trace(training=training, record=want.record, named=[name for name, _ in kind.keep])
    small = traced.invariants
    through = want.through(small) if small else frozenset[str]()
    plan = make_plan(
        traced,
        training=training,
        needs=None if want.needs is None else want.needs | through,
        receives=want.cotangents,
        single_step=kind.single_step,
        recompute=kind.recompute,
        keep=kind.keep,
        loops_apart=kind.device.is_cpu,  # a GPU runs all steps outside the loop at once
    )

    def make(plan: Plan) -> Executable:
        return kind.device.executable(plan, kind.dtype, kind.packed)

    constant = None
    if small is not None:
        constant = make(make_plan(small, training=training and bool(through), needs=want.needs, receives=through))
    return CompiledScan(make(plan), constant, make)


class ScanSetup:
    """A cell with its options checked; provides plans, initial states and rows for runs."""

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
        name: str | None = None,
    ) -> None:
        """Check a cell and its options. How numbers are computed:

        `compute_dtype`: "bfloat16" rounds both factors of every product of float32 numbers, and sums in float32; "int8"
        rounds them to integers with a scale for each row and output channel, for inference on the processor only;
        parameters, states and everything else stay float32; None is `dtype`. `threads`: all cores where None.
        `division`: what threads share, `rows` of the batch or hidden `units`; None chooses by the sizes of batch and
        weights. The results are bit-identical. `device`: where all arrays are, None for the processor. `name`: of the
        layer in errors, None for the cell's class.

        What a training run stores: `recompute` selects what the backward pass recomputes, only the large values of
        `attention`, or `gates` as well, so that only the states are stored for each step. `keep`: exceptions, by the
        names of values that the cell notes: stored for the backward pass, or with False recomputed there, together with
        the values they need that are not stored.

        What is computed besides y and the final states; the rest is not computed. `needs`: names of the gradients to
        compute: `x`, further sequences, captured arrays, parameters; None is all. `receives`: the outputs that have an
        incoming gradient, `y` where None, of `y` and recorded values. `record`: names of values that the cell notes
        (`Scope.note`), to be returned for every step. `stop`: the name of one of width 1: a row stops after the first
        step at which its value is positive.

        Raises NMTError for types that do not go together and for an unknown `recompute`, ShapeError for names that the
        cell does not have. A value of `keep` that cannot be recomputed is an NMTError of the first training run."""
        check_is_cell("Scan", cell)
        self.name = name or type(cell).__name__
        self._check_options(recompute, division, device)
        self.packed = packed_dtype(self.name, dtype, compute_dtype)
        self.compute_dtype, self.division, self.stop = compute_dtype, division, stop
        self.recompute: Recompute = recompute
        self.keep: Keep = tuple(sorted((keep or {}).items()))
        self.traced = traced(cell)
        if self.keep:
            self.traced.trace(training=True, named=[name for name, _ in self.keep])  # raises an error for unknown names
        self.cell, self.dtype = cell, np.dtype(dtype)
        self.device = device or cpu()
        check_device(self.name, self.packed, self.device.name)
        self._check_axes()
        threads = default_threads() if threads is None else threads
        self.threads = whole_number(self.name, "threads", threads, MOST_THREADS)
        self.wanted = wanted(cell, needs, receives, dict.fromkeys((*record, stop) if stop is not None else record))
        self.params, self.states, self.captured = cell.params(), cell.states(), cell.captured()
        self.checks = ArrayChecks(self.name, cell, self.dtype, self.device)

    def _check_options(self, recompute: str, division: str | None, device: Any) -> None:
        choices = ("recompute", recompute, get_args(Recompute)), ("division", division, (None, *get_args(Division)))
        for option, value, known in choices:
            if value not in known:
                raise NMTError(f"{self.name}: {option} must be {' or '.join(map(str, known))}, got {value}")
        if device is not None and not isinstance(device, Device):
            raise NMTError(f"{self.name}: device must be a Device, got {device!r}; see nmt.rnn.devices.choose_device")

    def _check_axes(self) -> None:
        """Raise NMTError: the step has named axes, for which there is no code of a GPU."""
        if self.traced.has_named_axes and not self.device.is_cpu:
            cell: Any = self.cell
            while hasattr(cell, "cell"):  # those around it are not what a user has chosen
                cell = cell.cell
            got = f"{self.device.name}; there are no kernels of a GPU for them, use --device cpu"
            raise NMTError(f"{type(cell).__name__}: device must be cpu for a step with named axes, got {got}")

    def __repr__(self) -> str:
        sizes = f"{type(self.cell).__name__} {self.cell.input_size} -> {self.cell.output_size}"
        kind = self.compute_dtype or self.dtype
        return f"{type(self).__name__}({sizes}, {kind}, {self.device.name}, threads={self.threads})"

    def compiled(self, training: bool, single_step: bool = False) -> CompiledScan:
        """Return the plan for a kind of run; made at first use. Raises NMTError: training in int8."""
        if training and self.packed == QUADS:
            raise NMTError(f"{self.name}: compute_dtype must be float32 or bfloat16 to train, got int8; take another")
        types = self.device, self.dtype, self.packed
        if training:
            kind = RunKind(*types, True, self.wanted, False, self.recompute, self.keep)
        else:
            kind = RunKind(*types, False, self.wanted, single_step, "attention", ())
        return compile_step(self.traced, kind)

    def plan(self, training: bool) -> Plan:
        """Return the programs of a kind of run, for inspection."""
        return self.compiled(training).step.plan

    def invariants(self, compiled: CompiledScan, threads: int) -> Invariants:
        """Return the part of the step that is constant over time."""
        return Invariants(compiled.constant, self.device, threads)

    def start(self, weights: Weights, given: Mapping[str, np.ndarray], B: int) -> Arrays:
        """Return the initial states [B, n] by name; those that start at zero are missing. Raises ShapeError."""
        given = by_name(self.name, "initial states", given, self.states)
        found = {name: given[name] for name in self.states if given.get(name) is not None}
        found = {k: self.checks.array(f"initial {k}", a, (B,), self.states[k]) for k, a in found.items()}
        for name, param in self.cell.learned().items():
            if name not in found:
                start = self.device.xp.broadcast_to(weights[param], (B, self.states[name]))
                found[name] = self.device.xp.ascontiguousarray(start)
        return found

    def rows(
        self,
        T: int,
        B: int,
        *,
        lengths: Any = None,
        captured: Mapping[str, np.ndarray] | None = None,
        source_lengths: Any = None,
        reverse: bool = False,
        threads: int | None = None,
    ) -> Rows:
        """Return B rows of at most T steps, divided between threads; options: `Scan.forward`. Raises ShapeError."""
        steps = self.checks.lengths("lengths", lengths, B, T)
        given = captured or {}  # one position where no array has any
        S = next((given[k].shape[0] for k, one in self.captured.items() if one.source_axis and k in given), 1)
        return Rows(
            *(T, B, S),
            lengths=steps,
            source_lengths=self.checks.lengths("source_lengths", source_lengths, B, S),
            owner=identity(B),
            bounds=split_rows(steps, threads or self.threads),
            reverse=reverse,
            division=self.division,
            block_rows=self.device.block_rows,
        )
