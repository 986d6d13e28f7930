"""The threads' pool in compiled code: workers, who takes them, and parts of Python functions; see pool.py.

Who goes to sleep says so first and then looks once more, who has news leaves it first and then looks whether the other
sleeps: one of the two always notices (Dekker's idea), for all these numbers change in one order for all.
"""

from typing import Any

from llvmlite import ir

from nmt.rnn.kernels.atomics import (
    LINE,
    LOCK_BYTES,
    WORD,
    exchange,
    lock,
    look,
    look_away,
    unlock,
    wait,
    wake,
)
from nmt.rnn.kernels.barrier import LINES_BYTES, LINES_WORD, begin_meetings
from nmt.rnn.kernels.jit import inner_kernel, intrinsic, native_function, numba_types

PATIENCE = 5000
"""Looks, of some 25 nanoseconds, before a worker, or who waits for one, goes to sleep: a tenth of a millisecond."""

# Of the pool, in bytes: its lock, the condition of those who wait for workers, and numbers that change under the lock.
GUARD, NEWS = 0, LOCK_BYTES
# The worker who was idle last (each has the address of the next), how many are idle, how many there are, how many of
# them run Python; the most that are made so that callers need not wait; who may take workers next, and the next number
# in the line.
_IDLE, _IDLE_COUNT, _TOTAL, _HELPING, LIMIT, _TURN, _NUMBER = range(2 * LOCK_BYTES, 2 * LOCK_BYTES + 7 * WORD, WORD)
POOL_BYTES = 2 * LOCK_BYTES + LINE

# Of a worker: a line that it reads, one that it writes, a lock, conditions for its sleep and for that of who waits for
# it, and lines for the meetings of a team whose first worker it is.
_POSTED, _FUNCTION, _PART, _PARTS, _TABLE, _NEXT = range(0, 6 * WORD, WORD)
_FINISHED, _AWAKE, _ASKED = range(LINE, LINE + 3 * WORD, WORD)
OWN_GUARD, WORK, END = range(2 * LINE, 2 * LINE + 3 * LOCK_BYTES, LOCK_BYTES)
_LINES = 2 * LINE + 3 * LOCK_BYTES
WORKER_BYTES = _LINES + LINES_BYTES

# Of a Python function's parts: the next one, how many there are, and how many workers are at one.
_NEXT_PART, PART_COUNT, _HELPERS = range(0, 3 * WORD, WORD)

_INT64 = ir.IntType(64)


@intrinsic
def call_task(typing_context: Any, function: Any, part: Any, parts: Any, table: Any) -> Any:
    """Call a `jit.task` by its address."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        table_type = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [_INT64, _INT64, table_type])
        callee = builder.inttoptr(args[0], kind.as_pointer())
        builder.call(callee, [args[1], args[2], builder.inttoptr(args[3], table_type)])
        return context.get_dummy_value()

    return numba_types.void(numba_types.int64, numba_types.int64, numba_types.int64, numba_types.int64), codegen


# ---------------------------------------------------------------- a worker


@native_function()
def attend(worker):  # type: ignore[no-untyped-def]
    """Do the compiled tasks that are posted, one after another; return when Python is wanted."""
    exchange(worker + _AWAKE, 1)
    looks = 0
    while True:
        posted = look(worker + _POSTED)
        if posted != look(worker + _FINISHED):
            function = look(worker + _FUNCTION)
            if function == 0:
                return
            call_task(function, look(worker + _PART), look(worker + _PARTS), look(worker + _TABLE))
            exchange(worker + _FINISHED, posted)
            if exchange(worker + _ASKED, 0) == 1:
                lock(worker + OWN_GUARD)
                wake(worker + END)
                unlock(worker + OWN_GUARD)
            looks = 0
        elif looks < PATIENCE:
            looks += look_away(looks)
        else:
            exchange(worker + _AWAKE, 0)
            lock(worker + OWN_GUARD)
            while look(worker + _POSTED) == posted:
                wait(worker + WORK, worker + OWN_GUARD)
            unlock(worker + OWN_GUARD)
            exchange(worker + _AWAKE, 1)


@inner_kernel
def _post(worker, function, part, parts, table):  # type: ignore[no-untyped-def]
    """Give a worker who was taken something to do; function 0: Python."""
    exchange(worker + _FUNCTION, function)
    exchange(worker + _PART, part)
    exchange(worker + _PARTS, parts)
    exchange(worker + _TABLE, table)
    exchange(worker + _POSTED, look(worker + _POSTED) + 1)
    if look(worker + _AWAKE) == 0:
        lock(worker + OWN_GUARD)
        wake(worker + WORK)
        unlock(worker + OWN_GUARD)


@inner_kernel
def _await_end(worker):  # type: ignore[no-untyped-def]
    """Wait until a worker has done what was posted."""
    looks = 0
    while look(worker + _FINISHED) != look(worker + _POSTED):
        looks += look_away(looks)
        if looks >= PATIENCE:
            exchange(worker + _ASKED, 1)
            lock(worker + OWN_GUARD)
            while look(worker + _FINISHED) != look(worker + _POSTED):
                wait(worker + END, worker + OWN_GUARD)
            unlock(worker + OWN_GUARD)
            exchange(worker + _ASKED, 0)


# ---------------------------------------------------------------- the pool


@inner_kernel
def _add(place, count):  # type: ignore[no-untyped-def]
    """To a number that changes under a lock."""
    exchange(place, look(place) + count)


@inner_kernel
def _take(pool, count):  # type: ignore[no-untyped-def]
    """So many idle workers, under the pool's lock: the first of them, 0 where it is for none."""
    taken = 0
    for _ in range(count):
        worker = look(pool + _IDLE)
        exchange(pool + _IDLE, look(worker + _NEXT))
        exchange(worker + _NEXT, taken)
        taken = worker
    _add(pool + _IDLE_COUNT, -count)
    return taken


@inner_kernel
def _put_back(pool, worker):  # type: ignore[no-untyped-def]
    """It is idle, under the pool's lock."""
    exchange(worker + _NEXT, look(pool + _IDLE))
    exchange(pool + _IDLE, worker)
    _add(pool + _IDLE_COUNT, 1)


@native_function()
def put_number(place, value):  # type: ignore[no-untyped-def]
    """A number to an address."""
    exchange(place, value)


@native_function()
def enlist(pool, worker):  # type: ignore[no-untyped-def]
    """A new worker is there."""
    lock(pool + GUARD)
    _add(pool + _TOTAL, 1)
    _put_back(pool, worker)
    wake(pool + NEWS)
    unlock(pool + GUARD)


@native_function()
def rejoin(pool, worker):  # type: ignore[no-untyped-def]
    """A worker has run Python."""
    exchange(worker + _FINISHED, look(worker + _POSTED))
    lock(pool + GUARD)
    _add(pool + _HELPING, -1)
    _put_back(pool, worker)
    wake(pool + NEWS)
    unlock(pool + GUARD)


@inner_kernel
def _fits(pool, needed):  # type: ignore[no-untyped-def]
    """Whether so many more workers may compute, under the pool's lock: not more at a time than there are cores for,
    unless one caller alone wants them. Those who run Python do not count, or they might wait for themselves."""
    busy = look(pool + _TOTAL) - look(pool + _IDLE_COUNT) - look(pool + _HELPING)
    return busy + needed <= max(look(pool + LIMIT), needed)


@native_function("int64")
def run_all(pool, function, parts, table):  # type: ignore[no-untyped-def]
    """Run all parts at once, the last one here, and wait for all. Where that takes more workers than there are nothing
    is done: returns how many are to be made first, else 0."""
    needed = parts - 1
    lock(pool + GUARD)
    number = look(pool + _NUMBER)
    _add(pool + _NUMBER, 1)
    while look(pool + _TURN) != number or not _fits(pool, needed):
        wait(pool + NEWS, pool + GUARD)
    missing = needed - look(pool + _IDLE_COUNT)
    first = _take(pool, needed) if missing <= 0 else 0
    _add(pool + _TURN, 1)
    if look(pool + _TURN) != look(pool + _NUMBER):
        wake(pool + NEWS)
    unlock(pool + GUARD)
    if missing > 0:
        return missing
    exchange(table + LINES_WORD * WORD, first + _LINES)
    begin_meetings(table, parts)
    part, worker = 0, first
    while worker != 0:
        _post(worker, function, part, parts, table)
        part, worker = part + 1, look(worker + _NEXT)
    call_task(function, parts - 1, parts, table)
    worker = first
    while worker != 0:
        _await_end(worker)
        worker = look(worker + _NEXT)
    lock(pool + GUARD)
    worker = first
    while worker != 0:
        following = look(worker + _NEXT)
        _put_back(pool, worker)
        worker = following
    if look(pool + _TURN) != look(pool + _NUMBER):
        wake(pool + NEWS)
    unlock(pool + GUARD)
    return 0


@native_function()
def run_alone(function, table):  # type: ignore[no-untyped-def]
    """The only part, here."""
    exchange(table, 0)
    call_task(function, 0, 1, table)


@native_function("int64")
def call_helpers(pool, wanted, make):  # type: ignore[no-untyped-def]
    """Have up to so many idle workers look for parts of Python functions; with `make`, first say how many workers could
    be made for that, and do nothing where it is not 0."""
    lock(pool + GUARD)
    wanted = min(wanted, look(pool + LIMIT) - look(pool + _HELPING))
    missing = min(wanted - look(pool + _IDLE_COUNT), look(pool + LIMIT) - look(pool + _TOTAL))
    if make and missing > 0:
        unlock(pool + GUARD)
        return missing
    count = max(0, min(wanted, look(pool + _IDLE_COUNT)))
    worker = _take(pool, count)
    _add(pool + _HELPING, count)
    unlock(pool + GUARD)
    while worker != 0:
        following = look(worker + _NEXT)
        _post(worker, 0, 0, 1, 0)
        worker = following
    return 0


# ---------------------------------------------------------------- parts of a Python function


@native_function("int64")
def next_part(pool, state, helper):  # type: ignore[no-untyped-def]
    """The next part that nobody has begun, -1 where there is none; a helper is counted until `end_part`."""
    lock(pool + GUARD)
    part = look(state + _NEXT_PART)
    if part < look(state + PART_COUNT):
        exchange(state + _NEXT_PART, part + 1)
        _add(state + _HELPERS, helper)
    else:
        part = -1
    unlock(pool + GUARD)
    return part


@native_function()
def end_part(pool, state):  # type: ignore[no-untyped-def]
    """A helper has done one."""
    lock(pool + GUARD)
    _add(state + _HELPERS, -1)
    wake(pool + NEWS)
    unlock(pool + GUARD)


@native_function()
def close_job(pool, state):  # type: ignore[no-untyped-def]
    """No part is begun any more; wait until no helper is at one."""
    exchange(state + PART_COUNT, 0)
    looks = 0
    while look(state + _HELPERS) != 0 and looks < PATIENCE:
        looks += look_away(looks)
    lock(pool + GUARD)
    while look(state + _HELPERS) != 0:
        wait(pool + NEWS, pool + GUARD)
    unlock(pool + GUARD)
