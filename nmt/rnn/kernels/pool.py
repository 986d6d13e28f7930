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
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Any

import numpy as np

from nmt.errors import NMTError
from nmt.interruption import forkable
from nmt.rnn.cores import default_threads
from nmt.rnn.kernels.atomics import LINE, WORD, make_condition, make_lock
from nmt.rnn.kernels.kernel import Kernel
from nmt.rnn.kernels.workers import (
    END,
    GUARD,
    LIMIT,
    NEWS,
    OWN_GUARD,
    PART_COUNT,
    POOL_BYTES,
    WORK,
    WORKER_BYTES,
    attend,
    call_helpers,
    close_job,
    end_part,
    enlist,
    next_part,
    put_number,
    rejoin,
    run_all,
    run_alone,
)


class _Job:
    """The parts of a call of a Python function."""

    def __init__(self, function: Callable[..., Any], parts: int, args: tuple[Any, ...]) -> None:
        self._function, self._parts, self._args = function, parts, args
        self._state = np.array([0, parts, 0], np.int64)
        self.address = self._state.ctypes.data
        self.errors: dict[int, BaseException] = {}

    def work(self, pool: int) -> None:
        """Do parts until none is left."""
        while (part := next_part.call(pool, self.address, 0)) >= 0:
            self._function(part, self._parts, *self._args)

    def help(self, pool: int) -> None:
        """The same on a worker; an error is kept for the caller, and no part is begun after it."""
        while (part := next_part.call(pool, self.address, 1)) >= 0:
            try:
                self._function(part, self._parts, *self._args)
            except BaseException as error:  # noqa: BLE001 - it is raised again where the work was asked for
                self.errors[part] = error
                self._state[PART_COUNT // WORD] = 0
            finally:
                end_part.call(pool, self.address)


class _Pool:
    """See above. Its memory is never freed: sleeping workers are in it until the process ends."""

    def __init__(self) -> None:
        self.address = _zeroed(POOL_BYTES)
        make_lock(self.address + GUARD)
        make_condition(self.address + NEWS)
        self._jobs: deque[_Job] = deque()
        self._making = forkable(Lock())
        put_number.call(self.address + LIMIT, default_threads() - 1)
        # To load them takes the interpreter, and so time to be interrupted, just where that must not be.
        for function in (run_all, attend, rejoin, next_part, end_part, close_job, call_helpers):
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
        worker = _zeroed(WORKER_BYTES)
        make_lock(worker + OWN_GUARD)
        make_condition(worker + WORK)
        make_condition(worker + END)
        enlist.call(self.address, worker)
        there.set()
        while True:
            attend.call(worker)
            try:
                self._jobs.popleft().help(self.address)
            except IndexError:
                pass  # the caller has done it all
            finally:
                rejoin.call(self.address, worker)

    def share(self, job: _Job, helpers: int) -> None:
        """Have up to so many workers help with a job."""
        self._jobs.extend([job] * helpers)
        missing = call_helpers.call(self.address, helpers, 1)
        if missing > 0:
            self.make_workers(missing)
            call_helpers.call(self.address, helpers, 0)

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
        run_alone.call(function, table)
        return
    pool = _pool()
    while missing := run_all.call(pool.address, function, parts, table):
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
        close_job.call(pool.address, job.address)
    pool.forget(job)
    for part in sorted(job.errors):
        raise job.errors[part]
