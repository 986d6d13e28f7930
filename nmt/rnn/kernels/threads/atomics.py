"""Synchronize threads inside compiled code: atomic 64-bit numbers, locks and condition variables.

Addresses are int64. `atomic_exchange` is also what stores a number: the two handshakes of workers.py need a store that
no later load overtakes, which an exchange is on every processor; numbers that a lock guards use it for simplicity.
Locks and conditions are those of the system's own threads, so a sleeping thread needs neither the interpreter nor its
lock.
"""

import ctypes
import platform

from llvmlite import ir

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import cgutils, inner_kernel, instruction
from nmt.rnn.kernels.machine_code.native import LINE_BYTES
from nmt.rnn.kernels.machine_code.operating_system import ON_WINDOWS, call_system, system_function

WORD, LINE = 8, LINE_BYTES
"""Bytes of a number and of a cache line. Numbers that different threads write lie on different lines."""

LOCK_BYTES = 128
"""Bytes that suffice for a lock or a condition of any system."""

# Spins before a waiting thread yields its core between spins: some microseconds. The thread that it waits for may have
# been woken on this core and would otherwise not run until this time slice is over.
SPINS_BEFORE_YIELD = 200
# The number of spins for which such a system call counts.
SPINS_PER_YIELD = 20
# Spins before a waiting thread sleeps between spins: about a millisecond. The thread that it waits for has no core then
# because other work is running; yielding this core does not give it one, an idle core does.
SPINS_BEFORE_SLEEP = 40_000
SLEEP_MICROSECONDS = 50

_INT64 = ir.IntType(64)


def _word(builder: ir.IRBuilder, place: ir.Value) -> ir.Value:
    return builder.inttoptr(place, _INT64.as_pointer())


@instruction("int64", "int64", result="int64")
def atomic_exchange(builder: ir.IRBuilder, place: ir.Value, value: ir.Value) -> ir.Value:
    """Store a number at an address and return the former one (sequentially consistent)."""
    return builder.atomic_rmw("xchg", _word(builder, place), value, "seq_cst")


@instruction("int64", result="int64")
def atomic_load(builder: ir.IRBuilder, place: ir.Value) -> ir.Value:
    """Return the number at an address (sequentially consistent)."""
    return builder.load_atomic(_word(builder, place), "seq_cst", WORD)


@instruction("int64", result="int64")
def atomic_increment(builder: ir.IRBuilder, place: ir.Value) -> ir.Value:
    """Add 1 to the number at an address and return the new one (acquire and release)."""
    one = ir.Constant(_INT64, 1)
    return builder.add(builder.atomic_rmw("add", _word(builder, place), one, "acq_rel"), one)


@instruction("int64", result="int64")
def atomic_load_acquire(builder: ir.IRBuilder, place: ir.Value) -> ir.Value:
    """Return the number at an address (acquire): what was written before its release can be read."""
    return builder.load_atomic(_word(builder, place), "acquire", WORD)


@instruction("voidptr", result="int64")
def address_in(builder: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    """Return a pointer as an address."""
    return builder.ptrtoint(pointer, _INT64)


@instruction()
def pause(builder: ir.IRBuilder) -> None:
    """Tell the core that this is a spin loop."""
    machine = TARGET.triple or platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        name, kinds, operands = "llvm.x86.sse2.pause", [], []
    else:  # the hint "yield"
        name, kinds, operands = "llvm.aarch64.hint", [ir.IntType(32)], [ir.Constant(ir.IntType(32), 1)]
    if machine in ("x86_64", "amd64", "aarch64", "arm64"):
        kind = ir.FunctionType(ir.VoidType(), kinds)
        builder.call(cgutils.get_or_insert_function(builder.module, kind, name), operands)


# ---------------------------------------------------------------- what the system does


def make_lock(place: int) -> None:
    """Make an open lock in zeroed memory at an address."""
    if not ON_WINDOWS and system_function("pthread_mutex_init")(ctypes.c_void_p(place), None):
        raise OSError("pthread_mutex_init failed")


def make_condition(place: int) -> None:
    """Make a condition variable in zeroed memory at an address."""
    if not ON_WINDOWS and system_function("pthread_cond_init")(ctypes.c_void_p(place), None):
        raise OSError("pthread_cond_init failed")


@instruction()
def yield_core(builder: ir.IRBuilder) -> None:
    """Let another thread run on this core; return at once if none is waiting for it."""
    call_system(builder, "nmt_yield_processor")


@instruction()
def sleep_briefly(builder: ir.IRBuilder) -> None:
    """Leave the core for a moment, even if no other thread is waiting for it."""
    length = 1 if ON_WINDOWS else SLEEP_MICROSECONDS  # milliseconds there
    call_system(builder, "nmt_sleep", ir.Constant(ir.IntType(32), length))


@instruction("int64")
def lock(builder: ir.IRBuilder, place: ir.Value) -> None:
    """Take the lock at an address. Hold it for a few dozen instructions at most."""
    call_system(builder, "nmt_lock", place)


@instruction("int64")
def unlock(builder: ir.IRBuilder, place: ir.Value) -> None:
    """Release the lock at an address."""
    call_system(builder, "nmt_unlock", place)


@instruction("int64", "int64")
def wait(builder: ir.IRBuilder, condition: ir.Value, lock: ir.Value) -> None:
    """Release the lock, sleep until the condition is signalled (or spuriously), and take the lock again."""
    forever = [ir.Constant(ir.IntType(32), -1), ir.Constant(ir.IntType(32), 0)] if ON_WINDOWS else []
    call_system(builder, "nmt_wait", condition, lock, *forever)


@instruction("int64")
def wake(builder: ir.IRBuilder, condition: ir.Value) -> None:
    """Wake all threads that wait for a condition."""
    call_system(builder, "nmt_wake", condition)


@inner_kernel
def backoff(spins):  # type: ignore[no-untyped-def]
    """Wait a little in a spin loop after `spins` spins; return the number of spins that this counts for."""
    pause()
    if spins < SPINS_BEFORE_YIELD:
        return 1
    if spins < SPINS_BEFORE_SLEEP:
        yield_core()
    else:
        sleep_briefly()
    return SPINS_PER_YIELD


_MONOTONIC = 6 if TARGET.machine[1] == "darwin" else 1


@instruction("voidptr")
def read_clock(builder: ir.IRBuilder, target: ir.Value) -> None:
    """Write seconds and nanoseconds to two int64 at an address; do nothing if the system has no such clock."""
    if not ON_WINDOWS:
        call_system(builder, "nmt_clock", ir.Constant(ir.IntType(32), _MONOTONIC), target)
