"""The pool of threads: every part once, the caller works too, errors arrive, callers do not meet, nothing hangs."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from nmt.rnn.kernels.threads import pool
from nmt.rnn.kernels.threads.pool import address_of, run_parallel, run_team, task_table
from tests.callers import switching_often
from tests.rnn.kernels.test_team import relay


def relay_once(parts, rounds=3):
    """Whether every thread has seen what all had written, in every round."""
    written, seen = np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    table = task_table((rounds,), (written, seen))
    run_team(relay.address, parts, address_of(table), (table, written, seen))
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

    with pytest.raises(ValueError, match=f"part {failing}"):
        run_parallel(work, 3)
    assert sorted([*ended, failing]) == sorted(begun)


def test_an_error_leaves_no_job_behind():
    """A worker that took one later would help nobody, and the caller of the next job would work alone."""

    def fail(part, parts):
        raise ValueError("at once")

    for _ in range(20):
        with pytest.raises(ValueError, match="at once"):
            run_parallel(fail, 40)
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
        callers = [threading.Thread(target=call, args=(seed,)) for seed in range(8)]
        for thread in callers:
            thread.start()
        for thread in callers:
            thread.join()
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

    others = [threading.Thread(target=work) for _ in range(3)]
    for thread in others:
        thread.start()
    try:
        assert all(in_a_child(lambda: relay_once(3)) for _ in range(10))
    finally:
        stop.set()
        for thread in others:
            thread.join()


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
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 0, found.stderr


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
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0


def test_threads_that_the_system_does_not_give_are_an_error_in_a_line(monkeypatch):
    from nmt.errors import NMTError

    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pool.Thread, "start", refuse)
    with pytest.raises(NMTError, match="threads: the system must give"):
        pool._Pool().make_workers(1)
