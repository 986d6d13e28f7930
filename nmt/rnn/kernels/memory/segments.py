"""Find the rows on which a thread works."""

import numpy as np

from nmt.rnn.kernels.machine_code.jit import inner_kernel
from nmt.rnn.kernels.memory.arrays import scratch


@inner_kernel
def share(segments, low, high, size):  # type: ignore[no-untyped-def]
    """Return rows number low to high - 1 of those in `segments`, with adjacent rows joined, in pieces of at most `size`
    rows: an array [pieces, 2] from `scratch`, and the number of its rows in use."""
    pieces = scratch((segments.shape[0] + (high - low) // size + 1, 2), np.int64)
    n, seen = 0, 0
    for s in range(segments.shape[0]):
        first, last = max(low - seen, 0), min(high - seen, segments[s, 1])
        seen += segments[s, 1]
        start = segments[s, 0] + first
        while first < last:
            if n > 0 and pieces[n - 1, 1] < size and pieces[n - 1, 0] + pieces[n - 1, 1] == start:
                count = min(last - first, size - pieces[n - 1, 1])
                pieces[n - 1, 1] += count
            else:
                count = min(last - first, size)
                pieces[n, 0], pieces[n, 1] = start, count
                n += 1
            first += count
            start += count
    return pieces, n


@inner_kernel
def rows_in(segments):  # type: ignore[no-untyped-def]
    """Return the number of rows in the segments."""
    total = 0
    for s in range(segments.shape[0]):
        total += segments[s, 1]
    return total


@inner_kernel
def by_panels(panels, parts):  # type: ignore[no-untyped-def]
    """Return whether dividing the panels gives every part about the same amount of work."""
    return parts == 1 or panels % parts == 0 or panels >= 12 * parts
