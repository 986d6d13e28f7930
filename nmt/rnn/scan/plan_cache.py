"""The cache of plans: a cell's step, compiled once for each kind of run.

The key is what the step computes (see `compiler.identity`), device, dtype, dtype of packed weights, and what a run must
compute, but never a batch's sizes or lengths. The least recently used plans are evicted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from nmt.rnn.compiler.identity import TracedStep
from nmt.rnn.compiler.keep import Keep, Recompute
from nmt.rnn.compiler.plan import Plan, make_plan, with_operands
from nmt.rnn.compiler.wanted import Wanted
from nmt.rnn.device import Device, Executable


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
