"""The system's clock, inside compiled code."""

import sys
from typing import Any

from llvmlite import ir

from nmt.rnn.kernels.machine_code.jit import intrinsic, numba_types
from nmt.rnn.kernels.machine_code.operating_system import ON_WINDOWS, call_system

_MONOTONIC = 6 if sys.platform == "darwin" else 1


@intrinsic
def read_clock(typing_context: Any, target: Any) -> Any:
    """Write seconds and nanoseconds to two int64 at an address; do nothing if the system has no such clock."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if not ON_WINDOWS:
            call_system(builder, "nmt_clock", ir.Constant(ir.IntType(32), _MONOTONIC), args[0])
        return context.get_dummy_value()

    return numba_types.void(numba_types.voidptr), codegen
