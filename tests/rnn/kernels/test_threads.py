"""The thread pool: every part once, the caller works too, errors arrive."""

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
