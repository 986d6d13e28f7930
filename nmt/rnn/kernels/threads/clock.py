"""The system's clock, inside compiled code."""

import sys

from llvmlite import ir

from nmt.rnn.kernels.machine_code.jit import instruction
from nmt.rnn.kernels.machine_code.operating_system import ON_WINDOWS, call_system

_MONOTONIC = 6 if sys.platform == "darwin" else 1


@instruction("voidptr")
def read_clock(builder: ir.IRBuilder, target: ir.Value) -> None:
    """Write seconds and nanoseconds to two int64 at an address; do nothing if the system has no such clock."""
    if not ON_WINDOWS:
        call_system(builder, "nmt_clock", ir.Constant(ir.IntType(32), _MONOTONIC), target)
