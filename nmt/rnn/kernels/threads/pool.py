"""The threads of the process: one pool, for compiled tasks and for Python functions, shared by all callers.

After a task, a worker polls its word POSTED for a tenth of a millisecond, in compiled code and without the
interpreter's lock, before it goes to sleep: calls in a row find the workers awake. The parts of a task with barriers
(`run_team`) must all run at once: the call takes idle workers, and queues if others hold them. So two callers never
share a worker, and no part waits for a thread that is not running. The parts of a Python function (`run_parallel`) need
not run at once: the caller does them one after another, and idle workers help. A worker that runs Python may itself use
the pool; it is then not counted among the workers that others may have to wait for.

One call of compiled code takes workers, waits for them and gives them back: an exception that interrupts a caller
(Ctrl-C) comes before or after it, never while a worker writes to its arrays. A forked child has none of its parent's
threads and starts with a pool of its own.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from ctypes import c_int64
from threading import Event, Lock, Thread, local
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir

from nmt.errors import NMTError
from nmt.rnn import tuning
from nmt.rnn.arrays.workspace import aligned
from nmt.rnn.cores import default_threads
from nmt.rnn.kernels.machine_code.jit import inner_kernel, instruction, task
from nmt.rnn.kernels.machine_code.native import Kernel, KernelCall, Words, address_of, start_of
from nmt.rnn.kernels.machine_code.objects import spare_memory
from nmt.rnn.kernels.memory.arrays import number_in
from nmt.rnn.kernels.memory.moves import advance
from nmt.rnn.kernels.memory.table_layout import COUNTER_WORDS
from nmt.rnn.kernels.threads import atomics, workers
from nmt.rnn.kernels.threads.atomics import WORD, barrier_reset, barrier_wait
from nmt.rnn.kernels.threads.workers import call_task
from nmt.system.interruption import forkable

T = TypeVar("T")


class _SharedCall:
    """The parts of a call of a Python function."""

    def __init__(self, function: Callable[..., Any], parts: int, args: tuple[Any, ...]) -> None:
        self._function, self._parts, self._args = function, parts, args
        self._state = np.array([0, parts, 0], np.int64)
        self.address = self._state.ctypes.data
        self.errors: dict[int, BaseException] = {}

    def work(self, pool: int) -> None:
        """Do parts until none is left."""
        while (part := workers.claim_part.call(pool, self.address, 0)) >= 0:
            self._function(part, self._parts, *self._args)

    def help(self, pool: int) -> None:
        """Do parts on a worker. Keep an error for the caller, and let no part begin after it."""
        while (part := workers.claim_part.call(pool, self.address, 1)) >= 0:
            try:
                self._function(part, self._parts, *self._args)
            except BaseException as error:  # noqa: BLE001 - it is raised again where the work was asked for
                self.errors[part] = error
                self._state[workers.PART_COUNT // WORD] = 0
            finally:
                workers.finish_part.call(pool, self.address)


class _Pool:
    """The pool. Its memory is never freed: workers sleep in it until the process ends."""

    def __init__(self) -> None:
        self.address = _zeroed(workers.POOL_BYTES)
        atomics.make_lock(self.address + workers.POOL_LOCK)
        atomics.make_condition(self.address + workers.POOL_CHANGED)
        self._jobs: deque[_SharedCall] = deque()
        self._making = forkable(Lock())
        c_int64.from_address(self.address + workers.LIMIT).value = default_threads() - 1
        # Load them now: loading runs Python code, which an exception could interrupt where that must not happen.
        used = workers.run_all, workers.run_list, workers.worker_loop, workers.return_worker, workers.claim_part
        for function in (*used, workers.finish_part, workers.close_job, workers.wake_helpers):
            _ = function.call

    def make_workers(self, count: int) -> None:
        """Start `count` more workers and wait until they run. Raises NMTError: The system refuses."""
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
        """Run a worker until the process ends."""
        worker = _zeroed(workers.WORKER_BYTES)
        atomics.make_lock(worker + workers.WORKER_LOCK)
        atomics.make_condition(worker + workers.HAS_WORK)
        atomics.make_condition(worker + workers.HAS_FINISHED)
        workers.add_worker.call(self.address, worker)
        there.set()
        while True:
            workers.worker_loop.call(worker)
            try:
                self._jobs.popleft().help(self.address)
            except IndexError:
                pass  # the caller has already done all parts
            finally:
                workers.return_worker.call(self.address, worker)

    def share(self, job: _SharedCall, helpers: int) -> None:
        """Let up to `helpers` workers help with a job."""
        self._jobs.extend([job] * helpers)
        missing = workers.wake_helpers.call(self.address, helpers, 1)
        if missing > 0:
            self.make_workers(missing)
            workers.wake_helpers.call(self.address, helpers, 0)

    def forget(self, job: _SharedCall) -> None:
        """Withdraw a job from the workers that have not begun to help with it."""
        with suppress(ValueError):  # once it is nowhere
            while True:
                self._jobs.remove(job)


def _zeroed(size: int) -> int:
    """Return the address of zeroed bytes at the start of a cache line, kept for as long as the process lives."""
    give = ctypes.CDLL(None if os.name != "nt" else "msvcrt").calloc
    give.restype, give.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]
    place = give(1, size + atomics.LINE)
    if not place:
        raise MemoryError(f"no memory for {size} bytes")
    return -(-int(place) // atomics.LINE) * atomics.LINE


_pools: list[_Pool] = []  # empty, or one pool
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
    """Run a `jit.task`, given by its address, for every part below `parts`, all at once, and wait for all; the last
    runs on this thread. `table`: the address of its table, whose barrier is reset here; `keep`: the owner of the table
    and of what its addresses point to. Inside `in_one_call` the call only waits to be run."""
    if _waiting.calls is not None:
        _waiting.calls += function, parts, table
        _waiting.kept.append(keep)
        if len(_waiting.kept) >= tuning.CALLS_WAITING:
            run_waiting()
        return
    _run_now(function, parts, table)


def _run_now(function: int, parts: int, table: int) -> None:
    if parts == 1:
        workers.run_alone.call(function, table)
    else:
        pool = _pool()
        while missing := workers.run_all.call(pool.address, function, parts, table):
            pool.make_workers(missing)
    if spare_memory.lacked:
        spare_memory.fail()


class _Waiting(local):
    """The calls of `run_team` on this thread that wait, three numbers each (see `workers.run_list`), None outside
    `in_one_call`; and what must live until they have run."""

    def __init__(self) -> None:
        self.calls: list[int] | None = None
        self.kept: list[Any] = []


_waiting = _Waiting()


@contextmanager
def in_one_call() -> Iterator[None]:
    """Return a context in which the calls of `run_team` on this thread wait; its end runs them in order, without Python
    in between. Python's own code and data then stay in the cache, which compiled code would replace. Until then Python
    must neither read nor write the arrays of a call but by `host`. After an error none of those that wait runs. A
    context inside another is part of it."""
    if _waiting.calls is not None:
        yield
        return
    _waiting.calls, _waiting.kept = [], []
    try:
        yield
        run_waiting()
    finally:
        _waiting.calls, _waiting.kept = None, []


def run_waiting() -> None:
    """Run the calls that wait on this thread (see `in_one_call`), uninterrupted. Raises NMTError as `run_team`."""
    if not _waiting.calls:
        return
    calls, kept = Words("q", _waiting.calls), _waiting.kept
    _waiting.calls, _waiting.kept = [], []
    pool, done, count = _pool(), 0, len(kept)
    while True:
        done = workers.run_list.call(pool.address, start_of(calls), done, count)
        if spare_memory.lacked:
            spare_memory.fail()
        if done == count:
            return
        _run_now(*calls[3 * done : 3 * done + 3])
        done += 1


def host(arrays: T) -> T:
    """Return these arrays when the calls that wait on this thread have run; see `Device.host`."""
    run_waiting()
    return arrays


def run_parallel(function: Callable[..., Any], parts: int, *args: Any) -> None:
    """Call `function(part, parts, *args)` for every part below `parts` and wait for all; the parts of a kernel run at
    once, as in `run_team`. The calling thread does one part after another, and idle workers help: parts must not wait
    for one another. After an error in any part no further one begins. The error is raised here once no thread is at
    work any more, so that none still writes to the arrays when the caller continues."""
    if isinstance(function, Kernel):
        call = function.with_arguments(args)
        run_team(call.native.address, max(1, parts), call.table, call.keep)
        return
    run_waiting()
    if parts <= 1:
        function(0, 1, *args)
        return
    pool, job = _pool(), _SharedCall(function, parts, args)
    try:
        pool.share(job, parts - 1)
        job.work(pool.address)
    finally:
        # One call, before anything else: no interruption can come in between.
        workers.close_job.call(pool.address, job.address)
        pool.forget(job)
    for part in sorted(job.errors):
        raise job.errors[part]


# A sequence's table: the line of its barrier, the number of tasks, and for each its address, parts and table.
_COUNT, _FIRST = COUNTER_WORDS, COUNTER_WORDS + 1


def task_table(numbers: Iterable[int], arrays: Iterable[Any]) -> Words[int]:
    """Return a table for a `jit.task`: the line of its barrier, numbers, and addresses of contiguous arrays."""
    return Words("q", (*(0,) * COUNTER_WORDS, *numbers, *map(address_of, arrays)))


@inner_kernel
def numbers_of(table):  # type: ignore[no-untyped-def]
    """Return where the numbers of a `task_table` begin."""
    return advance(table, COUNTER_WORDS * WORD)


@instruction("voidptr", "int64", result="voidptr")
def given_array(builder: ir.IRBuilder, table: ir.Value, index: ir.Value) -> ir.Value:
    """Return the address of the array that follows `index` numbers and arrays in a `task_table`."""
    words = builder.bitcast(table, ir.IntType(64).as_pointer())
    place = builder.add(index, ir.Constant(ir.IntType(64), COUNTER_WORDS))
    word = builder.load(builder.gep(words, [place]))  # 8 bytes, also where a pointer has 4
    return builder.inttoptr(word, ir.IntType(8).as_pointer())


@inner_kernel
def run_share(function, part, parts, own_parts, table):  # type: ignore[no-untyped-def]
    """Run this thread's part of a task in which only the last `own_parts` of the `parts` threads take part."""
    own_part = part - (parts - own_parts)
    if own_part >= 0:
        call_task(function, own_part, own_parts, table)


@task
def _run_in_turn(part, parts, table):  # type: ignore[no-untyped-def]
    """Run the tasks of a `TaskSequence`."""
    goal = 0
    for n in range(number_in(table, _COUNT)):
        place = _FIRST + 3 * n
        own_parts, own_table = number_in(table, place + 1), number_in(table, place + 2)
        run_share(number_in(table, place), part, parts, own_parts, own_table)
        if parts > 1:
            goal += parts
            barrier_wait(table, part, parts, goal)
        if part == parts - 1:
            barrier_reset(own_table, own_parts)


@task
def _run_calls(part, parts, table):  # type: ignore[no-untyped-def]
    for n in range(number_in(table, _COUNT)):
        place = _FIRST + 2 * n
        call_task(number_in(table, place), part, parts, number_in(table, place + 1))


def run_calls(parts: int, calls: Sequence[KernelCall]) -> None:
    """Run kernels in one call of the team. Each thread does its share of every one; none may need another's result."""
    numbers = [number for call in calls for number in (call.native.address, call.table)]
    table = task_table((len(calls), *numbers), ())
    run_team(_run_calls.address, max(1, parts), start_of(table), (table, calls))


class TaskSequence:
    """Up to `most` tasks that run one after another in one call of the team, each when all threads have finished the
    one before. The barrier of each is reset after it: no table may be listed twice. For one caller at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counters: np.ndarray | None = None
        self._table = np.zeros(_FIRST + 3 * most, np.int64)
        self._address = address_of(self._table)
        self._tasks: list[tuple[int, int, int]] = []
        self._parts = 1

    def run(self, tasks: list[tuple[int, int, int]], keep: Any) -> None:
        """Run tasks, given by address, parts and the address of the table; `keep` as in `run_team`."""
        if tasks != self._tasks:
            self._parts = max((1, *(parts for _, parts, _ in tasks)))
            numbers = [number for one in tasks for number in one]
            self._table[_COUNT : _FIRST + len(numbers)] = (len(tasks), *numbers)
            self._tasks = tasks  # set last: after an interruption before this line they are written again
        if self._parts > atomics.FLAT_BARRIER_THREADS:  # one task may begin before all threads have left another
            if self._counters is None:
                self._counters = group_counters(self._most)
            for counters, (_, _, table) in zip(self._counters, tasks, strict=False):
                # Each time: a new table may have the address of an old one.
                c_int64.from_address(table + atomics.GROUPS_WORD * WORD).value = address_of(counters)
        run_team(_run_in_turn.address, self._parts, self._address, keep)


def group_counters(count: int) -> np.ndarray:
    """Return counters of groups, one row for each barrier of several tasks that `run_team` does not start (see
    atomics.py)."""
    return aligned((count, atomics.GROUP_COUNTER_BYTES // WORD), np.int64, zeros=True)
