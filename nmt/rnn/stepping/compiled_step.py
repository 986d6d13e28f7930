"""One step of a cell in parts: what is shared by rows with the same input or the same parent, and the rest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from nmt.rnn.compiler.identity import TracedStep
from nmt.rnn.compiler.plan import make_plan
from nmt.rnn.compiler.share import Shared, cut_shared
from nmt.rnn.compiler.trace import Trace
from nmt.rnn.device import Device, Executable


@dataclass
class CompiledStep:
    """A compiled step and the parts of it that rows share (see `compiler.share`); a part that does not exist is
    None."""

    shared: Shared
    step: Executable
    of_inputs: Executable | None
    of_states: Executable | None


@lru_cache(maxsize=64)
def compile_step(step: TracedStep, device: Device, dtype: np.dtype, packed: np.dtype) -> CompiledStep:
    """Return the compiled parts of a step, cached by what the step computes."""
    shared = cut_shared(step.trace(training=False))

    def executable(part: Trace) -> Executable:
        return device.executable(make_plan(part, training=False, single_step=True), dtype, packed)

    def of(part: Trace | None) -> Executable | None:
        return None if part is None else executable(part)

    return CompiledStep(shared, executable(shared.step), of(shared.of_inputs), of(shared.of_states))
