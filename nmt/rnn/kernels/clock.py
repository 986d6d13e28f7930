"""The system's clock, inside compiled code."""

import ctypes
import os
import sys
from typing import Any

from llvmlite import binding, ir

from nmt.rnn.kernels.jit import intrinsic, numba_types

_CLOCK = "nmt_clock"
_HAS_CLOCK = os.name == "posix"
_MONOTONIC = 6 if sys.platform == "darwin" else 1
if _HAS_CLOCK:
    binding.add_symbol(_CLOCK, ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value)


@intrinsic
def read_clock(typing_context: Any, target: Any) -> Any:
    """Seconds and nanoseconds into two int64; nothing where there is no such clock."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if _HAS_CLOCK:
            kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32), ir.IntType(8).as_pointer()])
            function = builder.module.globals.get(_CLOCK) or ir.Function(builder.module, kind, _CLOCK)
            builder.call(function, [ir.Constant(ir.IntType(32), _MONOTONIC), args[0]])
        return context.get_dummy_value()

    return numba_types.void(numba_types.voidptr), codegen
