"""Threads that share one compiled task, and find the next one without the interpreter.

Handing a part to a sleeping Python thread takes longer than a step of one row. A worker of a team therefore looks at
its mailbox, in compiled code and without the interpreter lock, for some tens of microseconds after a part before it
goes to sleep; whoever hands out parts waits for them in the same way. Calls in a row so find the workers awake, and a
sleeping one is woken through a queue.

Who goes to sleep says so first and then looks once more, who has news leaves it first and then looks whether the other
sleeps: one of the two always notices (Dekker's idea). That needs sequentially consistent order, hence `_exchange`.
"""

import os
from collections.abc import Sequence
from ctypes import addressof, c_char
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import numpy as np
from llvmlite import ir

from nmt.rnn.kernels.barrier import SELFISH_LOOKS, YIELD_LOOKS, let_others_run, meet, pause
from nmt.rnn.kernels.jit import carray, inner_kernel, intrinsic, kernel, numba_types, task
from nmt.rnn.kernels.memory import number_in, pointers_after
from nmt.rnn.kernels.moves import advance

COUNTER_WORDS = 8
"""int64 numbers at the begin of a task's table: a cache line, in whose first the threads count their arrivals."""

_SIZE = numba_types.int64
_INT64 = ir.IntType(64)

# A mailbox: two cache lines, what the worker reads and what it writes, as int64.
_MAILBOX = 16
_POSTED, _FUNCTION, _PARTS, _TABLE, _ASKED, _FINISHED, _AWAKE = 0, 1, 2, 3, 4, 8, 9
_WORD = 8
# Looks, of some 25 nanoseconds, before someone who waits goes to sleep: a tenth of a millisecond.
PATIENCE = 5000
# A sequence's table: the counter's cache line, how many tasks, and of each its address, parts and table.
_COUNT, _FIRST = COUNTER_WORDS, COUNTER_WORDS + 1
# What `_start` returns when all parts are done; a positive number is 1 + the worker to wait for.
_DONE = 0


def _word(builder: ir.IRBuilder, place: ir.Value) -> ir.Value:
    return builder.inttoptr(place, _INT64.as_pointer())


@intrinsic
def _exchange(typing_context: Any, place: Any, value: Any) -> Any:
    """Put a number at an address; the one that was there."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.atomic_rmw("xchg", _word(builder, args[0]), args[1], "seq_cst")

    return _SIZE(_SIZE, _SIZE), codegen


@intrinsic
def _look(typing_context: Any, place: Any) -> Any:
    """The number at an address."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.load_atomic(_word(builder, args[0]), "seq_cst", _WORD)

    return _SIZE(_SIZE), codegen


@intrinsic
def call_task(typing_context: Any, function: Any, part: Any, parts: Any, table: Any) -> Any:
    """Call a `jit.task` by its address."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        table_type = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [_INT64, _INT64, table_type])
        callee = builder.inttoptr(args[0], kind.as_pointer())
        builder.call(callee, [args[1], args[2], builder.inttoptr(args[3], table_type)])
        return context.get_dummy_value()

    return numba_types.void(_SIZE, _SIZE, _SIZE, _SIZE), codegen


@kernel
def _look_away(looks):  # type: ignore[no-untyped-def]
    """Between two looks, after so many: how many looks this was worth."""
    pause()
    if looks < SELFISH_LOOKS:
        return 1
    let_others_run()
    return YIELD_LOOKS


@kernel
def _attend(box, part):  # type: ignore[no-untyped-def]
    """A worker's life between two sleeps: do what is posted. True: someone sleeps until he is told of the end."""
    _exchange(box + _AWAKE * _WORD, 1)
    spins = 0
    while True:
        posted = _look(box + _POSTED * _WORD)
        if posted != _look(box + _FINISHED * _WORD):
            parts, table = _look(box + _PARTS * _WORD), _look(box + _TABLE * _WORD)
            call_task(_look(box + _FUNCTION * _WORD), part, parts, table)
            _exchange(box + _FINISHED * _WORD, posted)
            if _exchange(box + _ASKED * _WORD, 0) == 1:
                return True
            spins = 0
        elif spins < PATIENCE:
            spins += _look_away(spins)
        else:
            _exchange(box + _AWAKE * _WORD, 0)
            if posted == _look(box + _POSTED * _WORD):
                return False
            _exchange(box + _AWAKE * _WORD, 1)


@kernel
def _wait(boxes, parts, patience):  # type: ignore[no-untyped-def]
    """Wait for every part; after so many looks return 1 + the worker that was asked to tell of its end."""
    for worker in range(parts - 1):
        box, spins = boxes + worker * _MAILBOX * _WORD, 0
        while _look(box + _FINISHED * _WORD) != _look(box + _POSTED * _WORD):
            spins += _look_away(spins)
            if spins >= patience:
                _exchange(box + _ASKED * _WORD, 1)
                ended = _look(box + _FINISHED * _WORD) == _look(box + _POSTED * _WORD)
                if not ended or _exchange(box + _ASKED * _WORD, 0) == 0:
                    return worker + 1
                break
    return _DONE


@kernel
def _join(boxes, function, parts, table):  # type: ignore[no-untyped-def]
    """Do the caller's own part, the last, and wait."""
    call_task(function, parts - 1, parts, table)
    return _wait(boxes, parts, PATIENCE)


@kernel
def _start(boxes, function, parts, table):  # type: ignore[no-untyped-def]
    """Post every part but the last. Where all workers are awake, `_join`; else -1: those asleep have to be woken."""
    _exchange(table, 0)
    asleep = 0
    for worker in range(parts - 1):
        box = boxes + worker * _MAILBOX * _WORD
        _exchange(box + _FUNCTION * _WORD, function)
        _exchange(box + _PARTS * _WORD, parts)
        _exchange(box + _TABLE * _WORD, table)
        _exchange(box + _POSTED * _WORD, _look(box + _POSTED * _WORD) + 1)
        if _look(box + _AWAKE * _WORD) == 0:
            asleep += 1
    if asleep > 0:
        return -1
    return _join(boxes, function, parts, table)


class _Team:
    """The workers of one size of team; they live as long as the process."""

    def __init__(self, parts: int) -> None:
        self.lock = Lock()
        self.mailboxes = np.zeros((max(1, parts - 1), _MAILBOX), np.int64)
        self.address = address_of(self.mailboxes)
        self.wake: list[SimpleQueue[None]] = [SimpleQueue() for _ in range(parts - 1)]
        self.ended: list[SimpleQueue[None]] = [SimpleQueue() for _ in range(parts - 1)]
        for worker in range(parts - 1):
            Thread(target=self._serve, args=(worker,), name=f"nmt-team-{worker}", daemon=True).start()

    def _serve(self, worker: int) -> None:
        box = self.address + worker * _MAILBOX * _WORD
        while True:
            self.wake[worker].get()
            while _attend(box, worker):
                self.ended[worker].put(None)

    def run(self, function: int, parts: int, table: int) -> None:
        with self.lock:
            left = _start(self.address, function, parts, table)
            if left < 0:
                for worker in range(parts - 1):
                    if not self.mailboxes[worker, _AWAKE]:
                        self.wake[worker].put(None)
                left = _join(self.address, function, parts, table)
            while left:
                self._sleep(left - 1, parts)
                left = _wait(self.address, parts, PATIENCE)

    def _sleep(self, worker: int, parts: int) -> None:
        try:
            self.ended[worker].get()
        except BaseException:  # an interruption: nothing may still write to the caller's arrays
            while _wait(self.address, parts, PATIENCE):
                self.ended[worker].get()
            raise


@cache
def _team(process_id: int, parts: int) -> _Team:
    # Keyed by process: a forked child inherits the object but not its threads.
    return _Team(parts)


def address_of(array: Any) -> int:
    """Where the numbers of a contiguous NumPy array begin."""
    try:
        return addressof(c_char.from_buffer(array))  # a quarter of the time of the array's own interface
    except (TypeError, ValueError):  # not writable, empty, or not contiguous
        if not array.flags.c_contiguous:
            raise RuntimeError(f"a table holds contiguous arrays, got strides {array.strides}") from None
    start: int = array.__array_interface__["data"][0]
    return start


def run_team(function: int, parts: int, table: int, keep: Any) -> None:
    """Run a `jit.task` for every part below `parts`, all at once, and wait for all; the last runs on this thread.

    Args:
        function: Address of the task.
        parts: Number of parts.
        table: Address of its table of int64. The first number is the counter of a barrier, set to zero here.
        keep: What the table and its addresses are of; held until the end.
    """
    if parts == 1:
        _alone(function, table)
    else:
        _team(os.getpid(), parts).run(function, parts, table)


def task_table(numbers: Sequence[int], arrays: Sequence[Any]) -> np.ndarray:
    """A table for a `jit.task`: the cache line of its counter, numbers, and the addresses of contiguous arrays."""
    return np.array([*(0,) * COUNTER_WORDS, *numbers, *map(address_of, arrays)], np.int64)


@kernel
def given_numbers(table, count):  # type: ignore[no-untyped-def]
    """The numbers of a `task_table`, of which there are `count` or more."""
    return carray(advance(table, COUNTER_WORDS * _WORD), count, np.int64)


# given_array(table, n): where the array lies that follows n numbers and arrays in a `task_table`.
given_array = pointers_after(COUNTER_WORDS)


@inner_kernel
def run_share(function, part, parts, own_parts, table):  # type: ignore[no-untyped-def]
    """This thread's part of a task that has `own_parts`, none or more: the first threads are left out."""
    own_part = part - (parts - own_parts)
    if own_part >= 0:
        call_task(function, own_part, own_parts, table)


def _run_in_turn(part, parts, table):  # type: ignore[no-untyped-def]
    """The task of `TaskSequence`."""
    goal = 0
    for n in range(number_in(table, _COUNT)):
        place = _FIRST + 3 * n
        own_parts, own_table = number_in(table, place + 1), number_in(table, place + 2)
        run_share(number_in(table, place), part, parts, own_parts, own_table)
        if parts > 1:
            goal += parts
            meet(table, goal)
        if part == parts - 1:
            _exchange(own_table, 0)


_run_in_turn_task = task(_run_in_turn)


class TaskSequence:
    """Up to `most` tasks that run one after another in a single call of the team, each when all threads have ended
    the one before. Their tables' counters are zero when they begin."""

    def __init__(self, most: int) -> None:
        self._table = np.zeros(_FIRST + 3 * most, np.int64)
        self._address = address_of(self._table)
        self._tasks: list[tuple[int, int, int]] = []
        self._parts = 1

    def run(self, tasks: list[tuple[int, int, int]], keep: Any) -> None:
        """Tasks by address, parts and the address of the table; `keep` as in `run_team`."""
        if tasks != self._tasks:
            self._tasks, self._parts = tasks, max((1, *(parts for _, parts, _ in tasks)))
            numbers = [number for one in tasks for number in one]
            self._table[_COUNT : _FIRST + len(numbers)] = (len(tasks), *numbers)
        run_team(_run_in_turn_task.address, self._parts, self._address, keep)


@kernel
def _alone(function, table):  # type: ignore[no-untyped-def]
    _exchange(table, 0)
    call_task(function, 0, 1, table)
