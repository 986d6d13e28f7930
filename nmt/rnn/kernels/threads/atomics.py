"""Synchronize threads inside compiled code: atomic 64-bit numbers, locks and condition variables.

Addresses are int64. `atomic_exchange` is also what stores a number: the two handshakes of workers.py need a store that
no later load overtakes, which an exchange is on every processor; numbers that a lock guards use it for simplicity.
Locks and conditions are those of the system's own threads, so a sleeping thread needs neither the interpreter nor its
lock.

The threads of one task wait for one another at a barrier. A step of a recurrent layer takes a fraction of a millisecond
and has a few barriers, so a waiting thread spins; it yields its core in time, since there may be more threads than
cores (`atomics.backoff`).

A task's table begins with the cache line of its barrier: the count of arrivals, and the address of more counters. Up to
FLAT_BARRIER_THREADS threads count in one place. With more, each increment would take the line away from all the others,
which read it: they count in groups, each with a line of its own; the last thread of a group counts for it, and the last
of all releases all threads by one write (a combining tree; Mellor-Crummey and Scott 1991, Algorithms for scalable
synchronization, section 3).

An arrival is an increment (acquire and release) of a counter that only grows, and a waiting thread loads it (acquire)
until it has reached the goal. All increments of a counter are one release sequence, so a thread that leaves the barrier
sees what every thread wrote before it arrived. No thread arrives at the next barrier before it has left this one, so
the goal is reached by exactly the arrivals of all threads; a fast thread may already have arrived at the next, hence
`<`. In the tree, the acquire of an increment gives the last thread of a group what the others wrote, and the exchange
releases it to all; a flat barrier would do with a release. With a relaxed arrival a thread could leave and still read
old numbers: x86 would hide this, since its increments are ordered anyway, and Arm would not.
"""

import ctypes
import platform

from llvmlite import ir

from nmt.rnn.arrays.workspace import LINE_BYTES
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import cgutils, external, inner_kernel, instruction
from nmt.rnn.kernels.machine_code.objects import ON_WINDOWS, call_system, system_function

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


GROUPS_WORD = 1
"""The index of the word with the address of the groups' counters."""

FLAT_BARRIER_THREADS = 8
"""The largest number of threads that count in one place. It is an estimate, not measured, for lack of a machine with
more cores."""

_MOST_GROUPS = 64
GROUP_COUNTER_BYTES = (_MOST_GROUPS + 1) * LINE
"""Bytes of the groups' counters, a cache line each; the first line counts the groups."""


@inner_kernel
def _group_size(parts):  # type: ignore[no-untyped-def]
    return max(FLAT_BARRIER_THREADS, (parts + _MOST_GROUPS - 1) // _MOST_GROUPS)


@inner_kernel
def barrier_reset(table, parts):  # type: ignore[no-untyped-def]
    """Reset the barrier of the table at this address for `parts` threads. No thread may be waiting at it."""
    atomic_exchange(table, 0)
    if parts > FLAT_BARRIER_THREADS:
        size, counters = _group_size(parts), atomic_load(table + GROUPS_WORD * WORD)
        for line in range((parts + size - 1) // size + 1):
            atomic_exchange(counters + line * LINE, 0)


def _barrier_wait(table, part, parts, goal):  # type: ignore[no-untyped-def]
    place = address_in(table)
    if parts <= FLAT_BARRIER_THREADS:
        atomic_increment(place)
    else:
        size, counters = _group_size(parts), atomic_load(place + GROUPS_WORD * WORD)
        groups, group, count = (parts + size - 1) // size, part // size, goal // parts
        members = min(size, parts - group * size)
        if (
            atomic_increment(counters + (1 + group) * LINE) == count * members
            and atomic_increment(counters) == count * groups
        ):
            atomic_exchange(place, goal)
    spins = 0
    while atomic_load_acquire(place) < goal:
        spins += backoff(spins)


# barrier_wait(table, part, parts, goal): wait until all `parts` threads are here. The goal counts the arrivals at all
# barriers of a task up to this one: `parts` at the first, and `parts` more from one to the next.
barrier_wait = external(_barrier_wait, ("voidptr", "int64", "int64", "int64"))
