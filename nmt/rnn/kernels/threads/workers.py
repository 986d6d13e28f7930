"""The thread pool in compiled code: its workers, how callers take them, and the parts of Python functions; see pool.py.

No wake-up is lost (Dekker's idea) in either of two handshakes. A worker stores that it is not awake and then reads
again whether a task was posted; a caller that posts a task stores it and then reads whether the worker is awake. A
caller stores that it waits and then reads again whether the task is finished; a worker stores that it is finished and
then exchanges the mark of a waiting caller. All these accesses are sequentially consistent, so at least one of the two
sees the other's store; with a release store, both could read the old number, and both would sleep for ever. The caller
stores its mark again each time it is woken: a worker may be late with the wake-up for the task before.

_POSTED also publishes the task (its function, part, parts and table, and the barrier's counters, which the caller has
reset), and _FINISHED its results. Everything else is guarded by the pool's lock, but for the first look at _HELPERS in
`close_job`, which is only a hint.
"""

from llvmlite import ir

from nmt.rnn.kernels.machine_code.jit import inner_kernel, instruction, native_function
from nmt.rnn.kernels.threads.atomics import (
    GROUP_COUNTER_BYTES,
    GROUPS_WORD,
    LINE,
    LOCK_BYTES,
    WORD,
    atomic_exchange,
    atomic_load,
    backoff,
    barrier_reset,
    lock,
    unlock,
    wait,
    wake,
)

SPINS_BEFORE_WAIT = 5000
"""Spins before a waiting thread sleeps on a condition variable: a tenth of a millisecond if its core is free. Most are
yields of the core, each of which counts as SPINS_PER_YIELD; the sleep of `backoff` comes later than this."""

# Layout of the pool, in bytes: its lock, the condition for waiting callers, and numbers that the lock guards.
POOL_LOCK, POOL_CHANGED = 0, LOCK_BYTES
# The first idle worker (each holds the address of the next); how many are idle, exist, and run Python; the most that
# compute for several callers together, which is one less than there are cores at the start; the ticket whose caller may
# take workers now, and the next ticket.
_IDLE, _IDLE_COUNT, _TOTAL, _HELPING, LIMIT, _NOW_SERVING, _NEXT_TICKET = range(
    2 * LOCK_BYTES, 2 * LOCK_BYTES + 7 * WORD, WORD
)
POOL_BYTES = 2 * LOCK_BYTES + LINE

# Layout of a worker, in bytes: a cache line that it reads, one that it writes (a waiting caller sets _WAITED_FOR), a
# lock, conditions for its own sleep and for that of a caller that waits for it, and counters for the barriers of a team
# of more than 8 threads whose first worker it is.
_POSTED, _FUNCTION, _PART, _PARTS, _TABLE, _NEXT = range(0, 6 * WORD, WORD)
_FINISHED, _AWAKE, _WAITED_FOR = range(LINE, LINE + 3 * WORD, WORD)
WORKER_LOCK, HAS_WORK, HAS_FINISHED = range(2 * LINE, 2 * LINE + 3 * LOCK_BYTES, LOCK_BYTES)
_GROUP_COUNTERS = 2 * LINE + 3 * LOCK_BYTES
WORKER_BYTES = _GROUP_COUNTERS + GROUP_COUNTER_BYTES

# The parts of a Python function: the next one, how many there are, and how many workers are at one.
_NEXT_PART, PART_COUNT, _HELPERS = range(0, 3 * WORD, WORD)

_INT64 = ir.IntType(64)


@instruction("int64", "int64", "int64", "int64")
def call_task(builder: ir.IRBuilder, function: ir.Value, part: ir.Value, parts: ir.Value, table: ir.Value) -> None:
    """Call a `jit.task` by its address."""
    table_type = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [_INT64, _INT64, table_type])
    callee = builder.inttoptr(function, kind.as_pointer())
    builder.call(callee, [part, parts, builder.inttoptr(table, table_type)])


# ---------------------------------------------------------------- a worker


@native_function()
def worker_loop(worker):  # type: ignore[no-untyped-def]
    """Run the compiled tasks that are posted to a worker, one after another; return when Python is to run."""
    atomic_exchange(worker + _AWAKE, 1)
    spins = 0
    while True:
        posted = atomic_load(worker + _POSTED)
        if posted != atomic_load(worker + _FINISHED):
            function = atomic_load(worker + _FUNCTION)
            if function == 0:
                return
            call_task(function, atomic_load(worker + _PART), atomic_load(worker + _PARTS), atomic_load(worker + _TABLE))
            atomic_exchange(worker + _FINISHED, posted)
            if atomic_exchange(worker + _WAITED_FOR, 0) == 1:
                lock(worker + WORKER_LOCK)
                wake(worker + HAS_FINISHED)
                unlock(worker + WORKER_LOCK)
            spins = 0
        elif spins < SPINS_BEFORE_WAIT:
            spins += backoff(spins)
        else:
            atomic_exchange(worker + _AWAKE, 0)
            lock(worker + WORKER_LOCK)
            while atomic_load(worker + _POSTED) == posted:
                wait(worker + HAS_WORK, worker + WORKER_LOCK)
            unlock(worker + WORKER_LOCK)
            atomic_exchange(worker + _AWAKE, 1)


@inner_kernel
def _post(worker, function, part, parts, table):  # type: ignore[no-untyped-def]
    """Post a task to a worker that was taken; function 0 makes `worker_loop` return, to run Python."""
    atomic_exchange(worker + _FUNCTION, function)
    atomic_exchange(worker + _PART, part)
    atomic_exchange(worker + _PARTS, parts)
    atomic_exchange(worker + _TABLE, table)
    atomic_exchange(worker + _POSTED, atomic_load(worker + _POSTED) + 1)
    if atomic_load(worker + _AWAKE) == 0:
        lock(worker + WORKER_LOCK)
        wake(worker + HAS_WORK)
        unlock(worker + WORKER_LOCK)


@inner_kernel
def _wait_for(worker):  # type: ignore[no-untyped-def]
    """Wait until a worker has finished what was posted."""
    spins = 0
    while atomic_load(worker + _FINISHED) != atomic_load(worker + _POSTED):
        spins += backoff(spins)
        if spins >= SPINS_BEFORE_WAIT:
            lock(worker + WORKER_LOCK)
            atomic_exchange(worker + _WAITED_FOR, 1)
            while atomic_load(worker + _FINISHED) != atomic_load(worker + _POSTED):
                wait(worker + HAS_FINISHED, worker + WORKER_LOCK)
                atomic_exchange(worker + _WAITED_FOR, 1)
            unlock(worker + WORKER_LOCK)
            atomic_exchange(worker + _WAITED_FOR, 0)


# ---------------------------------------------------------------- the pool


@inner_kernel
def _add_to(place, count):  # type: ignore[no-untyped-def]
    """Add `count` to the number at an address. The lock that guards it must be held."""
    atomic_exchange(place, atomic_load(place) + count)


@inner_kernel
def _take_workers(pool, count):  # type: ignore[no-untyped-def]
    """Take `count` workers from the idle list and return the first, 0 for none. The pool's lock must be held."""
    taken = 0
    for _ in range(count):
        worker = atomic_load(pool + _IDLE)
        atomic_exchange(pool + _IDLE, atomic_load(worker + _NEXT))
        atomic_exchange(worker + _NEXT, taken)
        taken = worker
    _add_to(pool + _IDLE_COUNT, -count)
    return taken


@inner_kernel
def _return_idle(pool, worker):  # type: ignore[no-untyped-def]
    """Put a worker on the idle list. The pool's lock must be held."""
    atomic_exchange(worker + _NEXT, atomic_load(pool + _IDLE))
    atomic_exchange(pool + _IDLE, worker)
    _add_to(pool + _IDLE_COUNT, 1)


@native_function()
def add_worker(pool, worker):  # type: ignore[no-untyped-def]
    """Add a new worker to the pool."""
    lock(pool + POOL_LOCK)
    _add_to(pool + _TOTAL, 1)
    _return_idle(pool, worker)
    wake(pool + POOL_CHANGED)
    unlock(pool + POOL_LOCK)


@native_function()
def return_worker(pool, worker):  # type: ignore[no-untyped-def]
    """Return a worker that has run Python to the pool."""
    atomic_exchange(worker + _FINISHED, atomic_load(worker + _POSTED))
    lock(pool + POOL_LOCK)
    _add_to(pool + _HELPING, -1)
    _return_idle(pool, worker)
    wake(pool + POOL_CHANGED)
    unlock(pool + POOL_LOCK)


@inner_kernel
def _fits(pool, needed):  # type: ignore[no-untyped-def]
    """Return whether `needed` more workers may compute. The pool's lock must be held. No more compute at a time than
    there are cores, unless one caller alone asks for more. Workers that run Python do not count: one whose Python
    function starts a compiled task would otherwise wait for itself to become free."""
    busy = atomic_load(pool + _TOTAL) - atomic_load(pool + _IDLE_COUNT) - atomic_load(pool + _HELPING)
    return busy + needed <= max(atomic_load(pool + LIMIT), needed)


@native_function("int64")
def run_all(pool, function, parts, table):  # type: ignore[no-untyped-def]
    """Run all parts at once, the last one in this thread, and wait for all. Return 0; or, if the pool does not have as
    many workers yet, do nothing and return how many the caller must make before it calls again."""
    needed = parts - 1
    lock(pool + POOL_LOCK)
    ticket = atomic_load(pool + _NEXT_TICKET)
    _add_to(pool + _NEXT_TICKET, 1)
    while atomic_load(pool + _NOW_SERVING) != ticket or not _fits(pool, needed):
        wait(pool + POOL_CHANGED, pool + POOL_LOCK)
    missing = needed - atomic_load(pool + _IDLE_COUNT)
    first = _take_workers(pool, needed) if missing <= 0 else 0
    _add_to(pool + _NOW_SERVING, 1)
    if atomic_load(pool + _NOW_SERVING) != atomic_load(pool + _NEXT_TICKET):
        wake(pool + POOL_CHANGED)
    unlock(pool + POOL_LOCK)
    if missing > 0:
        return missing
    atomic_exchange(table + GROUPS_WORD * WORD, first + _GROUP_COUNTERS)
    barrier_reset(table, parts)
    part, worker = 0, first
    while worker != 0:
        _post(worker, function, part, parts, table)
        part, worker = part + 1, atomic_load(worker + _NEXT)
    call_task(function, parts - 1, parts, table)
    worker = first
    while worker != 0:
        _wait_for(worker)
        worker = atomic_load(worker + _NEXT)
    lock(pool + POOL_LOCK)
    worker = first
    while worker != 0:
        following = atomic_load(worker + _NEXT)
        _return_idle(pool, worker)
        worker = following
    if atomic_load(pool + _NOW_SERVING) != atomic_load(pool + _NEXT_TICKET):
        wake(pool + POOL_CHANGED)
    unlock(pool + POOL_LOCK)
    return 0


@native_function()
def run_alone(function, table):  # type: ignore[no-untyped-def]
    """Run the only part in this thread."""
    atomic_exchange(table, 0)
    call_task(function, 0, 1, table)


_run_all, _run_alone = inner_kernel(run_all.function), inner_kernel(run_alone.function)


@native_function("int64")
def run_list(pool, calls, first, count):  # type: ignore[no-untyped-def]
    """Run the calls [first, count) of a list in order. A call has three int64: the address of its function, its parts,
    and the address of its table. Return `count`; or the number of a call that needs more workers than the pool has:
    this one and all after it have not run."""
    for n in range(first, count):
        call = calls + 3 * WORD * n
        function, parts, table = atomic_load(call), atomic_load(call + WORD), atomic_load(call + 2 * WORD)
        if parts == 1:
            _run_alone(function, table)
        elif _run_all(pool, function, parts, table) > 0:
            return n
    return count


@native_function("int64")
def wake_helpers(pool, wanted, make):  # type: ignore[no-untyped-def]
    """Let up to `wanted` idle workers help with Python functions. With `make`, do nothing if more workers could be made
    for it, and return how many."""
    lock(pool + POOL_LOCK)
    wanted = min(wanted, atomic_load(pool + LIMIT) - atomic_load(pool + _HELPING))
    missing = min(wanted - atomic_load(pool + _IDLE_COUNT), atomic_load(pool + LIMIT) - atomic_load(pool + _TOTAL))
    if make and missing > 0:
        unlock(pool + POOL_LOCK)
        return missing
    count = max(0, min(wanted, atomic_load(pool + _IDLE_COUNT)))
    worker = _take_workers(pool, count)
    _add_to(pool + _HELPING, count)
    unlock(pool + POOL_LOCK)
    while worker != 0:
        following = atomic_load(worker + _NEXT)
        _post(worker, 0, 0, 1, 0)
        worker = following
    return 0


# ---------------------------------------------------------------- parts of a Python function


@native_function("int64")
def claim_part(pool, state, helper):  # type: ignore[no-untyped-def]
    """Return the next part that no thread has begun, or -1; a helper is counted until `finish_part`."""
    lock(pool + POOL_LOCK)
    part = atomic_load(state + _NEXT_PART)
    if part < atomic_load(state + PART_COUNT):
        atomic_exchange(state + _NEXT_PART, part + 1)
        _add_to(state + _HELPERS, helper)
    else:
        part = -1
    unlock(pool + POOL_LOCK)
    return part


@native_function()
def finish_part(pool, state):  # type: ignore[no-untyped-def]
    """Note that a helper has finished a part."""
    lock(pool + POOL_LOCK)
    _add_to(state + _HELPERS, -1)
    wake(pool + POOL_CHANGED)
    unlock(pool + POOL_LOCK)


@native_function()
def close_job(pool, state):  # type: ignore[no-untyped-def]
    """Let no further part begin, and wait until no helper is at one."""
    atomic_exchange(state + PART_COUNT, 0)
    spins = 0
    while atomic_load(state + _HELPERS) != 0 and spins < SPINS_BEFORE_WAIT:
        spins += backoff(spins)
    lock(pool + POOL_LOCK)
    while atomic_load(state + _HELPERS) != 0:
        wait(pool + POOL_CHANGED, pool + POOL_LOCK)
    unlock(pool + POOL_LOCK)
