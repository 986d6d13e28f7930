"""The configuration of a scan: a cell, how and where its numbers are computed, and what must be computed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from nmt.errors import NMTError
from nmt.rnn.arrays.array_names import Arrays
from nmt.rnn.arrays.weights import QUADS, Weights, check_device, packed_dtype
from nmt.rnn.cell import Cell
from nmt.rnn.compiler.identity import traced
from nmt.rnn.compiler.keep import Keep, Recompute
from nmt.rnn.compiler.plan import Plan
from nmt.rnn.compiler.wanted import wanted
from nmt.rnn.cores import default_threads
from nmt.rnn.device import Device
from nmt.rnn.devices import cpu
from nmt.rnn.division import Division, split_rows
from nmt.rnn.kernels.memory.runs import identity
from nmt.rnn.rows import Rows
from nmt.rnn.scan.array_checks import ArrayChecks
from nmt.rnn.scan.invariants import Invariants
from nmt.rnn.scan.plan_cache import CompiledScan, RunKind, compile_step


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
