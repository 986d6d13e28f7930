"""What threads tell one another by, inside compiled code: numbers in memory, changed in one order for all, and locks.

Addresses are int64. The locks and conditions are those of the system's own threads, so that whoever sleeps needs
neither the interpreter nor its lock.
"""

import ctypes
import platform
from typing import Any

from llvmlite import ir

from nmt.rnn.kernels.jit import cgutils, inner_kernel, intrinsic, numba_types
from nmt.rnn.kernels.kernel import LINE_BYTES
from nmt.rnn.kernels.system import ON_WINDOWS, call_system, system_function

WORD, LINE = 8, LINE_BYTES
"""Bytes of a number, and of a cache line: what different threads write is kept on different lines."""

LOCK_BYTES = 128
"""Room for a lock or a condition of any system."""

# Looks of a thread that waits before it lets others run between them: some microseconds. The one it waits for may have
# been woken on the very same core, and would otherwise not run until this one's share of time is over.
SELFISH_LOOKS = 200
# How many looks such a call of the system is worth.
YIELD_LOOKS = 20
# Looks after which it leaves its core altogether between them: about a millisecond. Whoever is waited for has no core
# then, for other work is running, and letting others run on this one does not bring it here; an idle core does.
PATIENT_LOOKS = 40_000
NAP_MICROSECONDS = 50

_INT64 = ir.IntType(64)


def _word(builder: ir.IRBuilder, place: ir.Value) -> ir.Value:
    return builder.inttoptr(place, _INT64.as_pointer())


@intrinsic
def exchange(typing_context: Any, place: Any, value: Any) -> Any:
    """Put a number at an address; the one that was there."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.atomic_rmw("xchg", _word(builder, args[0]), args[1], "seq_cst")

    return numba_types.int64(numba_types.int64, numba_types.int64), codegen


@intrinsic
def look(typing_context: Any, place: Any) -> Any:
    """The number at an address."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.load_atomic(_word(builder, args[0]), "seq_cst", WORD)

    return numba_types.int64(numba_types.int64), codegen


@intrinsic
def arrive(typing_context: Any, place: Any) -> Any:
    """Count one more at an address; how many that makes. What was written before can be read by whoever sees it."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        one = ir.Constant(_INT64, 1)
        return builder.add(builder.atomic_rmw("add", _word(builder, args[0]), one, "acq_rel"), one)

    return numba_types.int64(numba_types.int64), codegen


@intrinsic
def arrived(typing_context: Any, place: Any) -> Any:
    """How many were counted at an address."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.load_atomic(_word(builder, args[0]), "acquire", WORD)

    return numba_types.int64(numba_types.int64), codegen


@intrinsic
def address_in(typing_context: Any, pointer: Any) -> Any:
    """A pointer as an address."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.ptrtoint(args[0], _INT64)

    return numba_types.int64(numba_types.voidptr), codegen


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


# ---------------------------------------------------------------- what the system does


def make_lock(place: int) -> None:
    """A lock, open, in zeroed memory at an address."""
    if not ON_WINDOWS and system_function("pthread_mutex_init")(ctypes.c_void_p(place), None):
        raise OSError("pthread_mutex_init failed")


def make_condition(place: int) -> None:
    """A condition in zeroed memory at an address."""
    if not ON_WINDOWS and system_function("pthread_cond_init")(ctypes.c_void_p(place), None):
        raise OSError("pthread_cond_init failed")


@intrinsic
def let_others_run(typing_context: Any) -> Any:
    """Leave the core to another thread that wants it; return at once where there is none."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        call_system(builder, "nmt_yield_processor")
        return context.get_dummy_value()

    return numba_types.void(), codegen


@intrinsic
def _nap(typing_context: Any) -> Any:
    """Leave the core for a moment, even where no other thread wants it."""
    length = 1 if ON_WINDOWS else NAP_MICROSECONDS  # milliseconds there

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        call_system(builder, "nmt_sleep", ir.Constant(ir.IntType(32), length))
        return context.get_dummy_value()

    return numba_types.void(), codegen


@intrinsic
def lock(typing_context: Any, place: Any) -> Any:
    """Take the lock at an address; nobody may have it for longer than some dozen instructions."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        call_system(builder, "nmt_lock", args[0])
        return context.get_dummy_value()

    return numba_types.void(numba_types.int64), codegen


@intrinsic
def unlock(typing_context: Any, place: Any) -> Any:
    """Give it back."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        call_system(builder, "nmt_unlock", args[0])
        return context.get_dummy_value()

    return numba_types.void(numba_types.int64), codegen


@intrinsic
def wait(typing_context: Any, condition: Any, lock: Any) -> Any:
    """Give the lock back, sleep until somebody wakes the condition, or for no reason, and take the lock again."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        forever = [ir.Constant(ir.IntType(32), -1), ir.Constant(ir.IntType(32), 0)] if ON_WINDOWS else []
        call_system(builder, "nmt_wait", args[0], args[1], *forever)
        return context.get_dummy_value()

    return numba_types.void(numba_types.int64, numba_types.int64), codegen


@intrinsic
def wake(typing_context: Any, condition: Any) -> Any:
    """Wake all who sleep at a condition."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        call_system(builder, "nmt_wake", args[0])
        return context.get_dummy_value()

    return numba_types.void(numba_types.int64), codegen


@inner_kernel
def look_away(looks):  # type: ignore[no-untyped-def]
    """What a thread that waits does between two looks, after so many: how many looks it was worth."""
    pause()
    if looks < SELFISH_LOOKS:
        return 1
    if looks < PATIENT_LOOKS:
        let_others_run()
    else:
        _nap()
    return YIELD_LOOKS
