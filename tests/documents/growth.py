"""Whether time grows in line: how often Python's interpreter calls or returns, which no other load of a machine changes."""

import sys
import time


def calls(run):
    """How many functions `run` calls."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def seconds(run):
    """The processor's time of the fastest of three runs."""
    found = []
    for _ in range(3):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def grows_in_line(make, run, size):
    """Whether what `run` does with `make(n)` grows as n does, in calls and, with generous room, in time."""
    counts, times = [], []
    for n in (size, 2 * size, 4 * size):
        content = make(n)
        counts.append(calls(lambda content=content: run(content)))
        times.append(seconds(lambda content=content: run(content)))
    in_calls = counts[2] - counts[1] <= 2.4 * (counts[1] - counts[0]) + 200
    return in_calls and times[2] <= 10 * times[0] + 0.05
