"""The threads of the process: one pool, for compiled tasks and for Python functions, whoever asks.

A worker looks at its mailbox, in compiled code and without the interpreter's lock, for some tens of microseconds after
a part before it goes to sleep: calls in a row find the workers awake. A task whose parts meet (`run_team`) needs all
its threads at once; it takes workers who have nothing to do, and waits in line where others have them. So two callers
never share a worker, and nobody waits for a thread that is not there. Parts of a Python function (`run_parallel`) need
not run at once: the caller does them one after another, and workers who have nothing to do help. A worker who runs
Python may ask for threads as well; it is then not counted among those that others may have to wait for.

Taking workers, waiting for them and giving them back is one call of compiled code: an exception that interrupts a
caller (Ctrl-C) comes before it or after it, never while a worker writes to its arrays. A forked child has none of its
parent's threads and begins with a pool of its own.

Who goes to sleep says so first and then looks once more, who has news leaves it first and then looks whether the other
sleeps: one of the two always notices (Dekker's idea), for all these numbers change in one order for all.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Any

import numpy as np
from llvmlite import ir

from nmt.errors import NMTError
from nmt.interruption import forkable
from nmt.rnn.cores import default_threads
from nmt.rnn.kernels.atomics import (
    LINE,
    LOCK_BYTES,
    WORD,
    exchange,
    lock,
    look,
    look_away,
    make_condition,
    make_lock,
    unlock,
    wait,
    wake,
)
from nmt.rnn.kernels.barrier import LINES_BYTES, LINES_WORD, begin_meetings
from nmt.rnn.kernels.jit import inner_kernel, intrinsic, native_function, numba_types
from nmt.rnn.kernels.kernel import Kernel

PATIENCE = 5000
"""Looks, of some 25 nanoseconds, before a worker, or who waits for one, goes to sleep: a tenth of a millisecond."""

# Of the pool, in bytes: its lock, the condition of those who wait for workers, and numbers that change under the lock.
_GUARD, _NEWS = 0, LOCK_BYTES
# The worker who was idle last (each has the address of the next), how many are idle, how many there are, how many of
# them run Python; the most that are made so that callers need not wait; who may take workers next, and the next number
# in the line.
_IDLE, _IDLE_COUNT, _TOTAL, _HELPING, _LIMIT, _TURN, _NUMBER = range(2 * LOCK_BYTES, 2 * LOCK_BYTES + 7 * WORD, WORD)
_POOL_BYTES = 2 * LOCK_BYTES + LINE

# Of a worker: a line that it reads, one that it writes, a lock, conditions for its sleep and for that of who waits for
# it, and lines for the meetings of a team whose first worker it is.
_POSTED, _FUNCTION, _PART, _PARTS, _TABLE, _NEXT = range(0, 6 * WORD, WORD)
_FINISHED, _AWAKE, _ASKED = range(LINE, LINE + 3 * WORD, WORD)
_OWN_GUARD, _WORK, _END = range(2 * LINE, 2 * LINE + 3 * LOCK_BYTES, LOCK_BYTES)
_LINES = 2 * LINE + 3 * LOCK_BYTES
_WORKER_BYTES = _LINES + LINES_BYTES

# Of a Python function's parts: the next one, how many there are, and how many workers are at one.
_NEXT_PART, _PART_COUNT, _HELPERS = range(0, 3 * WORD, WORD)

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
def _attend(worker):  # type: ignore[no-untyped-def]
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
                lock(worker + _OWN_GUARD)
                wake(worker + _END)
                unlock(worker + _OWN_GUARD)
            looks = 0
        elif looks < PATIENCE:
            looks += look_away(looks)
        else:
            exchange(worker + _AWAKE, 0)
            lock(worker + _OWN_GUARD)
            while look(worker + _POSTED) == posted:
                wait(worker + _WORK, worker + _OWN_GUARD)
            unlock(worker + _OWN_GUARD)
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
        lock(worker + _OWN_GUARD)
        wake(worker + _WORK)
        unlock(worker + _OWN_GUARD)


@inner_kernel
def _await_end(worker):  # type: ignore[no-untyped-def]
    """Wait until a worker has done what was posted."""
    looks = 0
    while look(worker + _FINISHED) != look(worker + _POSTED):
        looks += look_away(looks)
        if looks >= PATIENCE:
            exchange(worker + _ASKED, 1)
            lock(worker + _OWN_GUARD)
            while look(worker + _FINISHED) != look(worker + _POSTED):
                wait(worker + _END, worker + _OWN_GUARD)
            unlock(worker + _OWN_GUARD)
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
def _set(place, value):  # type: ignore[no-untyped-def]
    exchange(place, value)


@native_function()
def _enlist(pool, worker):  # type: ignore[no-untyped-def]
    """A new worker is there."""
    lock(pool + _GUARD)
    _add(pool + _TOTAL, 1)
    _put_back(pool, worker)
    wake(pool + _NEWS)
    unlock(pool + _GUARD)


@native_function()
def _return(pool, worker):  # type: ignore[no-untyped-def]
    """A worker has run Python."""
    exchange(worker + _FINISHED, look(worker + _POSTED))
    lock(pool + _GUARD)
    _add(pool + _HELPING, -1)
    _put_back(pool, worker)
    wake(pool + _NEWS)
    unlock(pool + _GUARD)


@inner_kernel
def _fits(pool, needed):  # type: ignore[no-untyped-def]
    """Whether so many more workers may compute, under the pool's lock: not more at a time than there are cores for,
    unless one caller alone wants them. Those who run Python do not count, or they might wait for themselves."""
    busy = look(pool + _TOTAL) - look(pool + _IDLE_COUNT) - look(pool + _HELPING)
    return busy + needed <= max(look(pool + _LIMIT), needed)


@native_function("int64")
def _run(pool, function, parts, table):  # type: ignore[no-untyped-def]
    """Run all parts at once, the last one here, and wait for all. Where that takes more workers than there are nothing
    is done: returns how many are to be made first, else 0."""
    needed = parts - 1
    lock(pool + _GUARD)
    number = look(pool + _NUMBER)
    _add(pool + _NUMBER, 1)
    while look(pool + _TURN) != number or not _fits(pool, needed):
        wait(pool + _NEWS, pool + _GUARD)
    missing = needed - look(pool + _IDLE_COUNT)
    first = _take(pool, needed) if missing <= 0 else 0
    _add(pool + _TURN, 1)
    if look(pool + _TURN) != look(pool + _NUMBER):
        wake(pool + _NEWS)
    unlock(pool + _GUARD)
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
    lock(pool + _GUARD)
    worker = first
    while worker != 0:
        following = look(worker + _NEXT)
        _put_back(pool, worker)
        worker = following
    if look(pool + _TURN) != look(pool + _NUMBER):
        wake(pool + _NEWS)
    unlock(pool + _GUARD)
    return 0


@native_function()
def _alone(function, table):  # type: ignore[no-untyped-def]
    exchange(table, 0)
    call_task(function, 0, 1, table)


@native_function("int64")
def _call_helpers(pool, wanted, make):  # type: ignore[no-untyped-def]
    """Have up to so many idle workers look for parts of Python functions; with `make`, first say how many workers could
    be made for that, and do nothing where it is not 0."""
    lock(pool + _GUARD)
    wanted = min(wanted, look(pool + _LIMIT) - look(pool + _HELPING))
    missing = min(wanted - look(pool + _IDLE_COUNT), look(pool + _LIMIT) - look(pool + _TOTAL))
    if make and missing > 0:
        unlock(pool + _GUARD)
        return missing
    count = max(0, min(wanted, look(pool + _IDLE_COUNT)))
    worker = _take(pool, count)
    _add(pool + _HELPING, count)
    unlock(pool + _GUARD)
    while worker != 0:
        following = look(worker + _NEXT)
        _post(worker, 0, 0, 1, 0)
        worker = following
    return 0


# ---------------------------------------------------------------- parts of a Python function


@native_function("int64")
def _next_part(pool, state, helper):  # type: ignore[no-untyped-def]
    """The next part that nobody has begun, -1 where there is none; a helper is counted until `_end_part`."""
    lock(pool + _GUARD)
    part = look(state + _NEXT_PART)
    if part < look(state + _PART_COUNT):
        exchange(state + _NEXT_PART, part + 1)
        _add(state + _HELPERS, helper)
    else:
        part = -1
    unlock(pool + _GUARD)
    return part


@native_function()
def _end_part(pool, state):  # type: ignore[no-untyped-def]
    """A helper has done one."""
    lock(pool + _GUARD)
    _add(state + _HELPERS, -1)
    wake(pool + _NEWS)
    unlock(pool + _GUARD)


@native_function()
def _close(pool, state):  # type: ignore[no-untyped-def]
    """No part is begun any more; wait until no helper is at one."""
    exchange(state + _PART_COUNT, 0)
    looks = 0
    while look(state + _HELPERS) != 0 and looks < PATIENCE:
        looks += look_away(looks)
    lock(pool + _GUARD)
    while look(state + _HELPERS) != 0:
        wait(pool + _NEWS, pool + _GUARD)
    unlock(pool + _GUARD)


class _Job:
    """The parts of a call of a Python function."""

    def __init__(self, function: Callable[..., Any], parts: int, args: tuple[Any, ...]) -> None:
        self._function, self._parts, self._args = function, parts, args
        self._state = np.array([0, parts, 0], np.int64)
        self.address = self._state.ctypes.data
        self.errors: dict[int, BaseException] = {}

    def work(self, pool: int) -> None:
        """Do parts until none is left."""
        while (part := _next_part.call(pool, self.address, 0)) >= 0:
            self._function(part, self._parts, *self._args)

    def help(self, pool: int) -> None:
        """The same on a worker; an error is kept for the caller, and no part is begun after it."""
        while (part := _next_part.call(pool, self.address, 1)) >= 0:
            try:
                self._function(part, self._parts, *self._args)
            except BaseException as error:  # noqa: BLE001 - it is raised again where the work was asked for
                self.errors[part] = error
                self._state[_PART_COUNT // WORD] = 0
            finally:
                _end_part.call(pool, self.address)


class _Pool:
    """See above. Its memory is never freed: sleeping workers are in it until the process ends."""

    def __init__(self) -> None:
        self.address = _zeroed(_POOL_BYTES)
        make_lock(self.address + _GUARD)
        make_condition(self.address + _NEWS)
        self._jobs: deque[_Job] = deque()
        self._making = forkable(Lock())
        _set.call(self.address + _LIMIT, default_threads() - 1)
        # To load them takes the interpreter, and so time to be interrupted, just where that must not be.
        for function in (_run, _attend, _return, _next_part, _end_part, _close, _call_helpers):
            _ = function.call

    def make_workers(self, count: int) -> None:
        """So many more; they are there when this returns. Raises NMTError: the system gives none."""
        with self._making:
            for _ in range(count):
                there = Event()
                try:
                    Thread(target=self._serve, args=(there,), name="nmt-worker", daemon=True).start()
                except RuntimeError as error:
                    raise NMTError(
                        f"threads: the system must give {count} more, got '{error}'; ask for fewer threads"
                    ) from None
                there.wait()

    def _serve(self, there: Event) -> None:
        """A worker's life."""
        worker = _zeroed(_WORKER_BYTES)
        make_lock(worker + _OWN_GUARD)
        make_condition(worker + _WORK)
        make_condition(worker + _END)
        _enlist.call(self.address, worker)
        there.set()
        while True:
            _attend.call(worker)
            try:
                self._jobs.popleft().help(self.address)
            except IndexError:
                pass  # the caller has done it all
            finally:
                _return.call(self.address, worker)

    def share(self, job: _Job, helpers: int) -> None:
        """Have up to so many workers help with a job."""
        self._jobs.extend([job] * helpers)
        missing = _call_helpers.call(self.address, helpers, 1)
        if missing > 0:
            self.make_workers(missing)
            _call_helpers.call(self.address, helpers, 0)

    def forget(self, job: _Job) -> None:
        """Whoever has not begun to help with it need not."""
        for _ in range(self._jobs.count(job)):
            try:
                self._jobs.remove(job)
            except ValueError:
                return


def _zeroed(size: int) -> int:
    """The address of so many bytes of zero at the begin of a cache line, for as long as the process lives."""
    give = ctypes.CDLL(None if os.name != "nt" else "msvcrt").calloc
    give.restype, give.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]
    place = give(1, size + LINE)
    if not place:
        raise MemoryError(f"no memory for {size} bytes")
    return -(-int(place) // LINE) * LINE


_pools: list[_Pool] = []  # none or one
_making_pool = forkable(Lock())


def _pool() -> _Pool:
    if not _pools:
        with _making_pool:
            if not _pools:
                _pools.append(_Pool())
    return _pools[0]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


def run_team(function: int, parts: int, table: int, keep: Any) -> None:
    """Run a `jit.task` for every part below `parts`, all at once, and wait for all; the last runs on this thread.

    Args:
        function: Address of the task.
        parts: Number of parts.
        table: Address of its table of int64. It begins with the cache line of the parts' meetings, made ready here.
        keep: What the table and its addresses are of; held until the end.
    """
    if parts == 1:
        _alone.call(function, table)
        return
    pool = _pool()
    while missing := _run.call(pool.address, function, parts, table):
        pool.make_workers(missing)


def run_parallel(function: Callable[..., Any], parts: int, *args: Any) -> None:
    """Call `function(part, parts, *args)` for every part below `parts` and wait for all; the parts of a kernel run at
    once, as in `run_team`.

    The calling thread takes one part after another, and so do workers who have nothing to do: parts must not wait for
    one another. After an error, in whichever part, no further one is begun; it is raised here once nobody is at work
    any more, so that no thread still writes to the arrays when the caller continues.
    """
    if isinstance(function, Kernel):
        call = function.with_arguments(args)
        run_team(call.native.address, max(1, parts), call.table, call.keep)
        return
    if parts <= 1:
        function(0, 1, *args)
        return
    pool, job = _pool(), _Job(function, parts, args)
    try:
        pool.share(job, parts - 1)
        job.work(pool.address)
    finally:
        # One call, and the first thing that is done: an interruption cannot come between.
        _close.call(pool.address, job.address)
    pool.forget(job)
    for part in sorted(job.errors):
        raise job.errors[part]
