"""Teams: every part once, all at once, awake or asleep, in any process and for several callers."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from nmt.rnn import tuning
from nmt.rnn.arrays.workspace import aligned
from nmt.rnn.kernels.machine_code.jit import native_function, task
from nmt.rnn.kernels.memory.arrays import array_at, number_in
from nmt.rnn.kernels.memory.table_layout import COUNTER_WORDS
from nmt.rnn.kernels.threads import workers
from nmt.rnn.kernels.threads.atomics import (
    WORD,
    atomic_exchange,
    barrier_wait,
    lock,
    make_condition,
    make_lock,
    unlock,
    wake,
)
from nmt.rnn.kernels.threads.pool import (
    TaskSequence,
    address_of,
    given_array,
    in_one_call,
    run_parallel,
    run_team,
    run_waiting,
    task_table,
)
from nmt.rnn.profile import recording
from tests.waiting import until


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
    table = np.array([*[77] * COUNTER_WORDS, *given], np.int64)  # whatever the barrier's line had before
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


def test_a_table_holds_contiguous_arrays():
    with pytest.raises(RuntimeError, match="contiguous"):
        address_of(np.zeros((4, 4))[:, 1])


@native_function()
def await_worker(worker):
    workers._wait_for(worker)


@native_function()
def exchange_waited_for(worker):
    """Do what a worker does after it has noted that a task is finished."""
    if atomic_exchange(worker + workers._WAITED_FOR, 0) == 1:
        lock(worker + workers.WORKER_LOCK)
        wake(worker + workers.HAS_FINISHED)
        unlock(worker + workers.WORKER_LOCK)


def test_a_late_wake_up_for_the_task_before_does_not_replace_the_one_for_this_task():
    """A worker that is preempted between noting the end of a task and its wake-up wakes the caller of the next task."""
    memory = aligned((workers.WORKER_BYTES // WORD,), np.int64, zeros=True)
    worker = address_of(memory)
    make_lock(worker + workers.WORKER_LOCK)
    make_condition(worker + workers.HAS_FINISHED)
    posted, finished, waited_for = (n // WORD for n in (workers._POSTED, workers._FINISHED, workers._WAITED_FOR))
    memory[posted], memory[finished] = 2, 1  # the second task is posted; the wake-up for the first is still to come
    caller = threading.Thread(target=await_worker.call, args=(worker,), daemon=True)
    caller.start()

    def is_asleep():
        return memory[waited_for] == 1

    until(is_asleep)
    exchange_waited_for.call(worker)  # for the first task
    time.sleep(0.2)
    memory[finished] = 2
    exchange_waited_for.call(worker)  # for the second
    caller.join(20)
    assert not caller.is_alive()


def test_a_sequence_of_many_threads_gives_counters_to_a_new_table_at_the_address_of_an_old_one():
    script = """
import numpy as np
from nmt.rnn.kernels.threads.pool import TaskSequence, address_of, task_table
from tests.rnn.kernels.test_team import relay
seen, written = np.zeros(9, np.int64), np.zeros(9, np.int64)
new = task_table((5,), (written, seen))
table, sequence = new[:], TaskSequence(1)
for turn in (1, 2):
    table[:], written[:] = new, 0
    sequence.run([(relay.address, 9, address_of(table))], table)
    assert (seen == 9 * 5 * turn).all(), seen
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr


def _append(part, parts, table):
    """Write the call's number at the place that `counter` has reached; the last part counts."""
    number = number_in(table, COUNTER_WORDS)
    counter, order = array_at(given_array(table, 1), 1, np.int64), array_at(given_array(table, 2), 1, np.int64)
    if part == parts - 1:
        order[counter[0]] = number
        counter[0] += 1


append = task(_append)


@pytest.fixture
def counted():
    """A counter of calls, and room for their numbers."""
    return np.zeros(1, np.int64), np.full(2000, -1, np.int64)


@pytest.mark.parametrize("parts", [[1, 1, 1], [1, 3, 2, 1], [20, 1, 12]])
def test_calls_wait_and_then_run_in_order(parts, counted):
    """With more threads than the pool has so far, too."""
    counter, order = counted
    with in_one_call():
        for number, count in enumerate(parts):
            run(append, count, number, counter, order)
        assert counter[0] == 0, "the calls wait"
    assert order[: len(parts) + 1].tolist() == [*range(len(parts)), -1]
    run(append, 1, 7, counter, order)
    assert order[len(parts)] == 7, "afterwards nothing waits"


def test_calls_run_earlier_where_python_asks_for_it_or_many_wait(counted):
    counter, order = counted
    with in_one_call():
        run(append, 1, 0, counter, order)
        run_waiting()
        assert counter[0] == 1
        with in_one_call():  # part of the first
            run(append, 1, 1, counter, order)
        assert counter[0] == 1
        run_parallel(lambda part, parts: order.__setitem__(3, counter[0]), 1)  # Python sees what was to be done before
        assert order[3] == 2
        for number in range(tuning.CALLS_WAITING):
            run(append, 1, number, counter, order)
        assert counter[0] == 2 + tuning.CALLS_WAITING


def test_after_an_error_calls_that_wait_do_not_run(counted):
    counter, order = counted
    with pytest.raises(ZeroDivisionError), in_one_call():
        run(append, 1, 0, counter, order)
        _ = 1 / 0
    assert counter[0] == 0
    with in_one_call():
        run(append, 1, 5, counter, order)
    assert order[:2].tolist() == [5, -1]


def test_nothing_waits_while_a_profile_is_recorded_nor_on_other_threads(counted):
    counter, order = counted
    with recording(), in_one_call():
        run(append, 1, 0, counter, order)
        assert counter[0] == 1
    with in_one_call():
        other = threading.Thread(target=run, args=(append, 1, 1, counter, order))
        other.start()
        other.join()
        assert counter[0] == 2
