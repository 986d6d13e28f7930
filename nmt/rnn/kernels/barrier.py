"""Where threads that share one time loop wait for one another, inside compiled code.

A step of a recurrent layer takes a fraction of a millisecond and has a few meeting points, so a
thread that waits spins; after a while it lets others run, for there may be more threads than cores.
"""

import ctypes
import os
import platform
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils

from nmt.rnn.kernels.jit import external, intrinsic, numba_types

_INT64 = ir.IntType(64)
_POINTER, _SIZE = numba_types.voidptr, numba_types.int64
_YIELD = "nmt_yield_processor"
# Looks of a thread that waits before it lets others run between them: some microseconds. The one it waits for may have
# been woken on the very same core, and would otherwise not run until this one's share of time is over.
SELFISH_LOOKS = 200
# How many looks such a call of the system is worth.
YIELD_LOOKS = 20


def _find_yield() -> Any:
    if os.name == "nt":
        return ctypes.windll.kernel32.SwitchToThread  # type: ignore[attr-defined]
    return ctypes.CDLL(None).sched_yield


_yield = _find_yield()
binding.add_symbol(_YIELD, ctypes.cast(_yield, ctypes.c_void_p).value)


def _counter(builder: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    return builder.bitcast(pointer, _INT64.as_pointer())


@intrinsic
def _arrive(typing_context: Any, pointer: Any) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.atomic_rmw("add", _counter(builder, args[0]), ir.Constant(_INT64, 1), "acq_rel")

    return _SIZE(_POINTER), codegen


@intrinsic
def _arrived(typing_context: Any, pointer: Any) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.load_atomic(_counter(builder, args[0]), "acquire", 8)

    return _SIZE(_POINTER), codegen


@intrinsic
def pause(typing_context: Any) -> Any:
    """Tell the core that this is a spinning loop."""
    machine = platform.machine().lower()

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if machine in ("x86_64", "amd64"):
            name, kinds, operands = "llvm.x86.sse2.pause", [], []
        else:  # the hint "yield"
            name, kinds, operands = "llvm.aarch64.hint", [ir.IntType(32)], [ir.Constant(ir.IntType(32), 1)]
        if machine in ("x86_64", "amd64", "aarch64", "arm64"):
            kind = ir.FunctionType(ir.VoidType(), kinds)
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), operands)
        return context.get_dummy_value()

    return numba_types.void(), codegen


@intrinsic
def let_others_run(typing_context: Any) -> Any:
    """Leave the core to another thread that wants it; return at once where there is none."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        kind = ir.FunctionType(ir.IntType(32), [])
        function = builder.module.globals.get(_YIELD) or ir.Function(builder.module, kind, _YIELD)
        builder.call(function, [])
        return context.get_dummy_value()

    return numba_types.void(), codegen


def _meet(counter, goal):  # type: ignore[no-untyped-def]
    _arrive(counter)
    spins = 0
    while _arrived(counter) < goal:
        pause()
        spins += 1
        if spins > SELFISH_LOOKS:
            let_others_run()


# meet(counter, goal), inside compiled code: count this thread in and wait until `goal` have been
# counted. The counter is an int64 in memory, zero before the first meeting of a loop; the goal grows by
# the number of threads from one meeting to the next.
meet = external(_meet, (_POINTER, _SIZE))
