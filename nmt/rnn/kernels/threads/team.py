"""Tables of arguments of compiled tasks, and several tasks that one call of the team runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ctypes import c_int64
from typing import Any

import numpy as np

from nmt.rnn.arrays.workspace import aligned
from nmt.rnn.kernels.machine_code.jit import inner_kernel, task
from nmt.rnn.kernels.machine_code.native import KernelCall, Words, address_of, start_of
from nmt.rnn.kernels.memory.active_rows import number_in, pointers_after
from nmt.rnn.kernels.memory.moves import advance
from nmt.rnn.kernels.memory.table_layout import COUNTER_WORDS
from nmt.rnn.kernels.threads.atomics import WORD
from nmt.rnn.kernels.threads.barrier import (
    FLAT_BARRIER_THREADS,
    GROUP_COUNTER_BYTES,
    GROUPS_WORD,
    barrier_reset,
    barrier_wait,
)
from nmt.rnn.kernels.threads.pool import run_team
from nmt.rnn.kernels.threads.workers import call_task

# A sequence's table: the line of its barrier, the number of tasks, and for each its address, parts and table.
_COUNT, _FIRST = COUNTER_WORDS, COUNTER_WORDS + 1


def task_table(numbers: Iterable[int], arrays: Iterable[Any]) -> Words[int]:
    """Return a table for a `jit.task`: the cache line of its barrier, numbers, and the addresses of contiguous
    arrays."""
    return Words("q", (*(0,) * COUNTER_WORDS, *numbers, *map(address_of, arrays)))


@inner_kernel
def numbers_of(table):  # type: ignore[no-untyped-def]
    """Return where the numbers of a `task_table` begin."""
    return advance(table, COUNTER_WORDS * WORD)


# given_array(table, n): the address of the array that follows n numbers and arrays in a `task_table`.
given_array = pointers_after(COUNTER_WORDS)


@inner_kernel
def run_share(function, part, parts, own_parts, table):  # type: ignore[no-untyped-def]
    """Run this thread's part of a task in which only the last `own_parts` of the `parts` threads take part."""
    own_part = part - (parts - own_parts)
    if own_part >= 0:
        call_task(function, own_part, own_parts, table)


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


_run_in_turn_task = task(_run_in_turn)


def _run_calls(part, parts, table):  # type: ignore[no-untyped-def]
    """Run the calls of `run_calls`."""
    for n in range(number_in(table, _COUNT)):
        place = _FIRST + 2 * n
        call_task(number_in(table, place), part, parts, number_in(table, place + 1))


_run_calls_task = task(_run_calls)


def run_calls(parts: int, calls: Sequence[KernelCall]) -> None:
    """Run kernels in one call of the team. Each thread does its share of every one; none may need another's result."""
    numbers = [number for call in calls for number in (call.native.address, call.table)]
    table = task_table((len(calls), *numbers), ())
    run_team(_run_calls_task.address, max(1, parts), start_of(table), (table, calls))


class TaskSequence:
    """Up to `most` tasks that run one after another in one call of the team, each when all threads have finished the
    one before. The barrier of each is reset after it: no table may be listed twice. For one caller at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counters: GroupCounters | None = None
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
        if self._parts > FLAT_BARRIER_THREADS:
            self._give_counters(tasks)  # each time: a new table may have the address of an old one
        run_team(_run_in_turn_task.address, self._parts, self._address, keep)

    def _give_counters(self, tasks: list[tuple[int, int, int]]) -> None:
        """Give each task counters of its own for the barriers of many threads: one may begin before all have left
        another."""
        if self._counters is None:
            self._counters = GroupCounters(self._most)
        for n, (_, _, table) in enumerate(tasks):
            c_int64.from_address(table + GROUPS_WORD * WORD).value = self._counters.address(n)


class GroupCounters:
    """Counters of groups for the barriers of several tasks that are not started by `run_team` (see barrier.py)."""

    def __init__(self, count: int) -> None:
        self._memory = aligned((count, GROUP_COUNTER_BYTES // WORD), np.int64, zeros=True)

    def address(self, n: int) -> int:
        """Return the address of the counters of task n."""
        return address_of(self._memory[n])
