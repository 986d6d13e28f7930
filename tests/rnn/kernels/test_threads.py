"""The thread pool: every part once, the caller works too, errors arrive."""

import os
import threading

import pytest

from nmt.rnn.kernels.threads import default_threads, run_parallel


@pytest.mark.parametrize("num_threads", [1, 2, 5])
def test_every_part_runs_once_and_the_last_on_the_caller(num_threads):
    seen = []
    lock = threading.Lock()

    def work(part, parts, word):
        with lock:
            seen.append((part, parts, word, threading.get_ident()))

    run_parallel(work, num_threads, "x")
    assert sorted(entry[:3] for entry in seen) == [(part, num_threads, "x") for part in range(num_threads)]
    last = next(entry for entry in seen if entry[0] == num_threads - 1)
    assert last[3] == threading.get_ident()


@pytest.mark.parametrize("failing", [0, 2])
def test_an_error_of_any_part_is_raised_after_all_have_ended(failing):
    ended = []

    def work(part, parts):
        if part == failing:
            raise ValueError(f"part {part}")
        ended.append(part)

    with pytest.raises(ValueError, match=f"part {failing}"):
        run_parallel(work, 3)
    assert sorted(ended) == [part for part in range(3) if part != failing]


def test_there_is_at_least_one_thread():
    assert default_threads() >= 1


def test_a_forked_child_has_workers_of_its_own():
    run_parallel(lambda part, parts: None, 2)
    child = os.fork()
    if not child:
        seen = []
        run_parallel(lambda part, parts: seen.append(part), 3)
        os._exit(0 if sorted(seen) == [0, 1, 2] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_parts_may_ask_for_help_themselves():
    seen = []
    run_parallel(lambda part, parts: run_parallel(lambda p, n: seen.append((part, p)), 3), 3)
    assert sorted(seen) == [(part, p) for part in range(3) for p in range(3)]
