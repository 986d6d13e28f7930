"""The configuration of a scan: a cell, how and where its numbers are computed, what must be computed; and the plans
that are compiled for it, once in a process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, get_args

import numpy as np

from nmt.errors import NMTError
from nmt.rnn.arrays.array_names import Arrays
from nmt.rnn.arrays.weights import QUADS, Weights, check_device, packed_dtype
from nmt.rnn.cell import Cell
from nmt.rnn.compiler.identity import TracedStep, traced
from nmt.rnn.compiler.keep import Keep, Recompute
from nmt.rnn.compiler.plan import Plan, make_plan, with_operands
from nmt.rnn.compiler.wanted import Wanted, wanted
from nmt.rnn.cores import default_threads
from nmt.rnn.device import Device, Executable
from nmt.rnn.devices import cpu
from nmt.rnn.division import Division, split_rows
from nmt.rnn.kernels.memory.active_rows import identity
from nmt.rnn.rows import Rows
from nmt.rnn.scan.array_checks import ArrayChecks
from nmt.rnn.scan.invariants import Invariants


@dataclass
class CompiledScan:
    """A compiled plan, with the plan of the values that are constant over time."""

    step: Executable
    constant: Executable | None
    make: Callable[[Plan], Executable]

    @cached_property
    def keeping_operands(self) -> CompiledScan:
        """Return the same plan with the operands of weight gradients kept after the backward pass (see
        `Scan.backward_weights`)."""
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
    needs = None if want.needs is None else want.needs | through
    plan = make_plan(
        traced,
        training=training,
        needs=needs,
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
        alone = make_plan(small, training=training and bool(through), needs=want.needs, receives=through)
        constant = make(alone)
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
    ) -> None:
        """Check a cell and its options. How numbers are computed:

        `compute_dtype`: "bfloat16" rounds both factors of every product of float32 numbers, and sums in float32; "int8"
        rounds them to integers with a scale for each row and output channel, for inference on the processor only;
        parameters, states and everything else stay float32; None is `dtype`. `threads`: all cores where None.
        `division`: what threads share, `rows` of the batch or hidden `units`; None chooses by the sizes of batch and
        weights. The results are bit-identical. `device`: where all arrays are, None for the processor.

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
        cell does not have. A value of `keep` that cannot be recomputed is an NMTError of the first training run.
        """
        if recompute not in get_args(Recompute):
            kinds = " or ".join(get_args(Recompute))
            raise NMTError(f"{type(cell).__name__}: recompute must be {kinds}, got {recompute}")
        self.packed = packed_dtype(type(cell).__name__, dtype, compute_dtype)
        self.compute_dtype = compute_dtype
        self.recompute: Recompute = recompute
        self.keep: Keep = tuple(sorted((keep or {}).items()))
        self.traced = traced(cell)
        if self.keep:
            self.traced.trace(training=True, named=[name for name, _ in self.keep])  # raises an error for unknown names
        self.cell, self.dtype = cell, np.dtype(dtype)
        self.device = device or cpu()
        check_device(type(cell).__name__, self.packed, self.device.name)
        self._check_axes()
        self.threads, self.division = threads or default_threads(), division
        self.stop = stop
        shown = dict.fromkeys((*record, stop) if stop is not None else record)
        self.wanted = wanted(cell, needs, receives, shown)
        self.params = cell.params()
        self.states = cell.states()
        self.captured = cell.captured()
        self.checks = ArrayChecks(cell, self.dtype, self.device)

    def _check_axes(self) -> None:
        """Raise NMTError: the step has named axes, for which there is no code of a GPU."""
        if self.traced.has_named_axes and not self.device.is_cpu:
            cell: Any = self.cell
            while hasattr(cell, "cell"):  # those around it are not what a user has chosen
                cell = cell.cell
            raise NMTError(
                f"{type(cell).__name__}: device must be cpu for a step with named axes, got {self.device.name}; "
                "there are no kernels of a GPU for them, use --device cpu"
            )

    def __repr__(self) -> str:
        """Return the cell and its sizes, its types and its device."""
        sizes = f"{type(self.cell).__name__} {self.cell.input_size} -> {self.cell.output_size}"
        kind = self.compute_dtype or self.dtype
        return f"{type(self).__name__}({sizes}, {kind}, {self.device.name}, threads={self.threads})"

    def compiled(self, training: bool, single_step: bool = False) -> CompiledScan:
        """Return the plan for a kind of run; made at first use. Raises NMTError: training in int8."""
        if training and self.packed == QUADS:
            name = type(self.cell).__name__
            raise NMTError(f"{name}: compute_dtype must be float32 or bfloat16 to train, got int8; take another")
        kind = RunKind(
            self.device,
            self.dtype,
            self.packed,
            training=training,
            want=self.wanted,
            single_step=single_step and not training,
            recompute=self.recompute if training else "attention",
            keep=self.keep if training else (),
        )
        return compile_step(self.traced, kind)

    def plan(self, training: bool) -> Plan:
        """Return the programs of a kind of run, for inspection."""
        return self.compiled(training).step.plan

    def invariants(self, compiled: CompiledScan, threads: int) -> Invariants:
        """Return the part of the step that is constant over time."""
        return Invariants(compiled.constant, self.device, threads)

    def start(self, weights: Weights, given: Mapping[str, np.ndarray], B: int) -> Arrays:
        """Return the initial states of B rows, [B, n] by name; those that start at zero are missing. Raises
        ShapeError."""
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
        label: str = "scan",
        threads: int | None = None,
    ) -> Rows:
        """Return B rows of at most T steps, divided between threads; for the options see `Scan.forward`. Raises
        ShapeError."""
        steps = self.checks.lengths("lengths", lengths, B, T)
        S = self.checks.source_steps(captured or {})
        return Rows(
            T,
            B,
            S,
            lengths=steps,
            source_lengths=self.checks.lengths("source_lengths", source_lengths, B, S),
            owner=identity(B),
            bounds=split_rows(steps, threads or self.threads),
            reverse=reverse,
            division=self.division,
            block_rows=self.device.block_rows,
            label=label,
        )
