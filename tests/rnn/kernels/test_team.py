"""Teams: every part once, all at once, awake or asleep, in any process and for several callers."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from nmt.rnn.kernels.machine_code.jit import task
from nmt.rnn.kernels.memory.alias_scopes import number_in
from nmt.rnn.kernels.memory.arrays import array_at
from nmt.rnn.kernels.memory.table_layout import COUNTER_WORDS
from nmt.rnn.kernels.threads.barrier import barrier_wait
from nmt.rnn.kernels.threads.pool import run_team
from nmt.rnn.kernels.threads.team import TaskSequence, address_of, given_array, task_table


def _relay(part, parts, table):
    """Each thread writes its number for the round, meets the others, and reads what all have written."""
    rounds = number_in(table, COUNTER_WORDS)
    written, seen = array_at(given_array(table, 1), 1, np.int64), array_at(given_array(table, 2), 1, np.int64)
    goal = 0
    for n in range(rounds):
        written[part] = n + 1
        goal += parts
        barrier_wait(table, part, parts, goal)
        for other in range(parts):
            seen[part] += written[other] == n + 1
        goal += parts
        barrier_wait(table, part, parts, goal)


def _late(part, parts, table):
    """One part takes much longer than a thread looks for an end before it sleeps."""
    slow, passes = number_in(table, COUNTER_WORDS), number_in(table, COUNTER_WORDS + 1)
    total = array_at(given_array(table, 2), 1, np.float64)
    value = 1.0
    if part == slow:
        for _ in range(passes):
            value = value * 0.9999999 + 1e-9
    total[8 * part] += value


relay, late = task(_relay), task(_late)


def run(function, parts, *numbers):
    """Run a task on a table of numbers and arrays."""
    given = [address_of(n) if isinstance(n, np.ndarray) else n for n in numbers]
    table = np.array([*[77] * COUNTER_WORDS, *given], np.int64)  # whatever the meetings' line held before
    run_team(function.address, parts, address_of(table), (table, numbers))


@pytest.mark.parametrize("parts", [1, 2, 5, 8, 9, 17, 64])
@pytest.mark.parametrize("pause", [0, 0.02], ids=["awake", "asleep"])
def test_parts_run_at_once_and_see_what_the_others_wrote(parts, pause):
    for _ in range(5):
        written, seen = np.zeros(parts, np.int64), np.zeros(parts, np.int64)
        run(relay, parts, 20, written, seen)
        assert (seen == 20 * parts).all()
        time.sleep(pause)


@pytest.mark.parametrize("parts", [[1], [1, 1], [3, 1, 2], [1, 3, 3, 2], [9, 2, 20, 12]])
def test_tasks_of_a_sequence_run_one_after_another(parts):
    """Each for as many threads as it is for, and their barriers begin anew every time."""
    sequence = TaskSequence(len(parts))
    seen = [np.zeros(count, np.int64) for count in parts]
    written = [np.zeros(count, np.int64) for count in parts]
    tables = [task_table((5,), (w, s)) for w, s in zip(written, seen, strict=True)]
    tasks = [(relay.address, count, address_of(table)) for count, table in zip(parts, tables, strict=True)]
    for turn in range(1, 30):
        for array in written:
            array[:] = 0
        sequence.run(tasks, tables)
        for count, array in zip(parts, seen, strict=True):
            assert (array == 5 * count * turn).all()
    order = np.zeros(1)
    chained = [task_table((-1, 3), (order,)) for _ in range(4)]
    TaskSequence(4).run([(late.address, 1, address_of(table)) for table in chained], chained)
    assert order[0] == 4


@pytest.mark.parametrize("slow", [0, 1])
def test_whoever_is_late_is_waited_for(slow):
    totals = np.zeros(16)
    for n in range(3):
        run(late, 2, slow, 2_000_000, totals)
        assert totals[0] > 0.8 * (n + 1)
        assert totals[8] > 0.8 * (n + 1)


def test_callers_do_not_hold_each_other_up():
    """Several Python threads at once that share a team, and one with a team of another size."""
    sums = [np.zeros(parts, np.int64) for parts in (3, 3, 3, 2)]

    def group(seen):
        for _ in range(20):
            run(relay, len(seen), 10, np.zeros(len(seen), np.int64), seen)

    groups = [threading.Thread(target=group, args=(seen,)) for seen in sums]
    for thread in groups:
        thread.start()
    for thread in groups:
        thread.join()
    assert all((seen == 20 * 10 * len(seen)).all() for seen in sums)


def test_a_forked_child_has_a_team_of_its_own():
    run(relay, 2, 1, np.zeros(2, np.int64), np.zeros(2, np.int64))
    child = os.fork()
    if not child:
        signal.alarm(60)
        seen = np.zeros(2, np.int64)
        run(relay, 2, 4, np.zeros(2, np.int64), seen)
        os._exit(0 if (seen == 8).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_table_holds_contiguous_arrays():
    with pytest.raises(RuntimeError, match="contiguous"):
        address_of(np.zeros((4, 4))[:, 1])
