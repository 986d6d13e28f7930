"""Whether time grows in line: how often functions are called, which no load of a machine changes, and seconds."""

import sys
import time

from nmt.documents.document import read_document


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
    """The processor's time of the faster of two runs."""
    found = []
    for _ in range(2):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def grows_in_line(make, run, size):
    """Whether what `run` does with `make(n)` grows as n does: in calls, and with generous room in time; four times the
    size would take sixteen times as long if it grew with the square."""
    contents = [make(n) for n in (size, 2 * size, 4 * size)]
    run(contents[0])  # imports what it needs
    counts = [calls(lambda content=content: run(content)) for content in contents]
    if counts[2] - counts[1] > 2.4 * (counts[1] - counts[0]) + 200:
        return False
    return seconds(lambda: run(contents[2])) <= 10 * seconds(lambda: run(contents[0])) + 0.05


def rewritten(form):
    """A function that reads a document of this format and writes it with other texts."""

    def both(content):
        document = read_document(content, form)
        document.write(["a" + p.source for p in document.passages])

    return both
