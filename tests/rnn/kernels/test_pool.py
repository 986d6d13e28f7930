"""The pool of threads and its teams: every part once, errors arrive, callers do not meet, nothing hangs."""

import os
import random
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest

from nmt.rnn import tuning
from nmt.rnn.arrays.workspace import aligned
from nmt.rnn.kernels.machine_code.jit import native_function, task
from nmt.rnn.kernels.memory.arrays import array_at, number_in
from nmt.rnn.kernels.memory.table_layout import COUNTER_WORDS
from nmt.rnn.kernels.threads import pool, workers
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
from tests.callers import switching_often
from tests.processes import python
from tests.refusals import refused
from tests.waiting import at_once, beside, until


def relay_once(parts, rounds=3):
    """Whether every thread has seen what all had written, in every round."""
    written, seen = np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    run(relay, parts, rounds, written, seen)
    return bool((seen == rounds * parts).all())


@pytest.mark.parametrize("num_threads", [1, 2, 5])
def test_every_part_runs_once_and_the_caller_works_too(num_threads):
    seen = []
    here, came = threading.get_ident(), threading.Event()

    def work(part, parts, word):
        seen.append((part, parts, word, threading.get_ident()))
        if threading.get_ident() == here:
            came.set()
        else:
            assert came.wait(60)  # else quick workers may have done all before the caller begins

    run_parallel(work, num_threads, "x")
    assert sorted(entry[:3] for entry in seen) == [(part, num_threads, "x") for part in range(num_threads)]
    assert here in [entry[3] for entry in seen]


@pytest.mark.skipif(pool.default_threads() < 2, reason="one core: nobody helps")
def test_workers_help():
    threads = set()
    for _ in range(20):
        run_parallel(lambda part, parts: (threads.add(threading.get_ident()), time.sleep(0.01)), 4)
    assert len(threads) > 1


@pytest.mark.parametrize("failing", [0, 2])
def test_an_error_of_any_part_is_raised_when_nobody_is_at_work(failing):
    begun, ended = [], []

    def work(part, parts):
        begun.append(part)
        if part == failing:
            raise ValueError(f"part {part}")
        time.sleep(0.02)
        ended.append(part)

    refused(ValueError, f"part {failing}", run_parallel, work, 3)
    assert sorted([*ended, failing]) == sorted(begun)


def test_an_error_leaves_no_job_behind():
    """A worker that took one later would help nobody, and the caller of the next job would work alone."""

    def fail(part, parts):
        raise ValueError("at once")

    for _ in range(20):
        refused(ValueError, "at once", run_parallel, fail, 40)
    assert not pool._pool()._jobs


def test_parts_may_ask_for_help_themselves():
    seen = []
    run_parallel(lambda part, parts: run_parallel(lambda p, n: seen.append((part, p)), 3), 3)
    assert sorted(seen) == [(part, p) for part in range(3) for p in range(3)]


def test_parts_may_ask_for_a_team_themselves():
    """Also where the only workers are busy with these very parts."""
    right = []
    run_parallel(lambda part, parts: right.append(relay_once(3)), 4)
    assert right == [True] * 4


def test_callers_of_every_kind_at_once():
    """Teams of many sizes and Python functions from many threads, which change places at every instruction."""
    wrong = []

    def call(seed):
        draw = random.Random(seed)
        for _ in range(25):
            parts = draw.choice([1, 2, 3, 9])
            if draw.random() < 0.5:
                wrong.extend([] if relay_once(parts) else [parts])
            else:
                seen = []
                run_parallel(lambda part, parts, seen=seen: seen.append(part), parts)
                wrong.extend([] if sorted(seen) == list(range(parts)) else [seen])

    with switching_often():
        at_once(*[partial(call, seed) for seed in range(8)])
    assert not wrong


def in_a_child(check):
    """Whether `check` holds in a forked child."""
    child = os.fork()
    if not child:
        signal.alarm(60)
        os._exit(0 if check() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_child_has_workers_of_its_own():
    def check():
        seen = []
        run_parallel(lambda part, parts: seen.append(part), 3)
        return sorted(seen) == [0, 1, 2] and relay_once(2)

    run_parallel(lambda part, parts: None, 2)
    assert relay_once(2)
    assert in_a_child(check)


def test_a_child_forked_while_others_are_at_work():
    """Their locks are open in the child, and their workers not there."""
    stop = threading.Event()

    def work():
        while not stop.is_set():
            relay_once(3)
            run_parallel(lambda part, parts: None, 3)

    with beside(*[work] * 3):
        try:
            assert all(in_a_child(lambda: relay_once(3)) for _ in range(10))
        finally:
            stop.set()


def test_an_interruption_waits_for_whoever_is_at_work():
    """Ctrl-C while a worker writes: the caller goes on when nobody writes any more, and the next call is right."""
    code = """
import os, signal, threading, time
from nmt.rnn.kernels.threads.pool import run_parallel
at_work = []
def work(part, parts):
    at_work.append(part)
    if threading.current_thread() is threading.main_thread():
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)
    at_work.remove(part)
for _ in range(20):
    try:
        run_parallel(work, 2)
        raise SystemExit("no interruption came")
    except KeyboardInterrupt:
        left = [part for part in at_work]
        if len(left) > 1:
            raise SystemExit(f"{left} were at work")
        at_work.clear()
    seen = []
    run_parallel(lambda part, parts: seen.append(part), 4)
    if sorted(seen) != [0, 1, 2, 3]:
        raise SystemExit(f"{seen}")
"""
    python(code, timeout=120)


def test_a_process_ends_while_a_daemon_is_at_work():
    code = """
import threading
from nmt.rnn.kernels.threads.pool import run_parallel
there = threading.Event()
def work(part, parts):
    there.set()
    threading.Event().wait()
threading.Thread(target=run_parallel, args=(work, 3), daemon=True).start()
there.wait()
"""
    python(code, timeout=120)


def test_threads_that_the_system_does_not_give_are_an_error_in_a_line(monkeypatch):
    from nmt.errors import NMTError

    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pool.Thread, "start", refuse)
    refused(NMTError, "threads: the system must give", pool._Pool().make_workers, 1)


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
        assert relay_once(parts, 20)
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
    refused(RuntimeError, "contiguous", address_of, np.zeros((4, 4))[:, 1])


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
from tests.rnn.kernels.test_pool import relay
seen, written = np.zeros(9, np.int64), np.zeros(9, np.int64)
new = task_table((5,), (written, seen))
table, sequence = new[:], TaskSequence(1)
for turn in (1, 2):
    table[:], written[:] = new, 0
    sequence.run([(relay.address, 9, address_of(table))], table)
    assert (seen == 9 * 5 * turn).all(), seen
"""
    python(script, timeout=300)


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


def test_nothing_waits_on_other_threads(counted):
    counter, order = counted
    with in_one_call():
        other = threading.Thread(target=run, args=(append, 1, 1, counter, order))
        other.start()
        other.join()
        assert counter[0] == 1
