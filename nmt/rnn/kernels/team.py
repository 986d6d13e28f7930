"""Tables of compiled tasks: the arguments of a function that is called by its address, and tasks that run in turn."""

from collections.abc import Sequence
from ctypes import c_int64
from typing import Any

import numpy as np

from nmt.rnn.arrays.aligned import aligned
from nmt.rnn.kernels.atomics import WORD
from nmt.rnn.kernels.barrier import COUNTER_WORDS, FLAT, LINES_BYTES, LINES_WORD, begin_meetings, meet
from nmt.rnn.kernels.jit import inner_kernel, task
from nmt.rnn.kernels.kernel import Call, address_of
from nmt.rnn.kernels.memory import number_in, pointers_after
from nmt.rnn.kernels.moves import advance
from nmt.rnn.kernels.pool import run_team
from nmt.rnn.kernels.workers import call_task

# A sequence's table: the line of its meetings, how many tasks, and of each its address, parts and table.
_COUNT, _FIRST = COUNTER_WORDS, COUNTER_WORDS + 1


def task_table(numbers: Sequence[int], arrays: Sequence[Any]) -> np.ndarray:
    """A table for a `jit.task`: the cache line of its counter, numbers, and the addresses of contiguous arrays."""
    return np.array([*(0,) * COUNTER_WORDS, *numbers, *map(address_of, arrays)], np.int64)


@inner_kernel
def numbers_of(table):  # type: ignore[no-untyped-def]
    """Where the numbers of a `task_table` begin."""
    return advance(table, COUNTER_WORDS * WORD)


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
            meet(table, part, parts, goal)
        if part == parts - 1:
            begin_meetings(own_table, own_parts)


_run_in_turn_task = task(_run_in_turn)


def _run_calls(part, parts, table):  # type: ignore[no-untyped-def]
    """The task of `run_calls`."""
    for n in range(number_in(table, _COUNT)):
        place = _FIRST + 2 * n
        call_task(number_in(table, place), part, parts, number_in(table, place + 1))


_run_calls_task = task(_run_calls)


def run_calls(parts: int, calls: Sequence[Call]) -> None:
    """Run kernels, of which each does one thread's share of its work, in one call of the team; none may need what
    another has done."""
    numbers = [number for call in calls for number in (call.native.address, call.table)]
    table = task_table((len(calls), *numbers), ())
    run_team(_run_calls_task.address, max(1, parts), address_of(table), (table, calls))


class TaskSequence:
    """Up to `most` tasks that run one after another in a single call of the team, each when all threads have ended
    the one before. Nobody has met by their tables when they begin, nor when they have ended. For one caller at a
    time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lines: MeetingLines | None = None
        self._table = np.zeros(_FIRST + 3 * most, np.int64)
        self._address = address_of(self._table)
        self._tasks: list[tuple[int, int, int]] = []
        self._parts = 1

    def run(self, tasks: list[tuple[int, int, int]], keep: Any) -> None:
        """Tasks by address, parts and the address of the table; `keep` as in `run_team`."""
        if tasks != self._tasks:
            self._parts = max((1, *(parts for _, parts, _ in tasks)))
            numbers = [number for one in tasks for number in one]
            self._table[_COUNT : _FIRST + len(numbers)] = (len(tasks), *numbers)
            if self._parts > FLAT:
                self._give_lines(tasks)
            self._tasks = tasks  # last: an interruption before this leaves them to be written again
        run_team(_run_in_turn_task.address, self._parts, self._address, keep)

    def _give_lines(self, tasks: list[tuple[int, int, int]]) -> None:
        """Lines for the meetings of many threads, to each task its own: one may begin before all have left another."""
        if self._lines is None:
            self._lines = MeetingLines(self._most)
        for n, (_, _, table) in enumerate(tasks):
            c_int64.from_address(table + LINES_WORD * WORD).value = self._lines.address(n)


class MeetingLines:
    """Lines for the meetings of several tasks that others start than `run_team` (see barrier.py)."""

    def __init__(self, count: int) -> None:
        self._memory = aligned((count, LINES_BYTES // WORD), np.int64, zeros=True)

    def address(self, n: int) -> int:
        """Of one task's."""
        return address_of(self._memory[n])
