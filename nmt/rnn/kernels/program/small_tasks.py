"""Small tasks of programs besides products and generated functions."""

import numpy as np

from nmt.rnn import rows
from nmt.rnn.kernels.machine_code.jit import exact_kernel, inlined, kernel

_team = inlined(rows.team)


@kernel
def fill(part, parts, out, first, stride, value, step):  # type: ignore[no-untyped-def]
    """Set out[first + n * stride] = value + n * step for all n, where out has so many places."""
    for n in range((out.shape[0] - first + stride - 1) // stride):
        out[first + n * stride] = value + n * step


@kernel
def divide(part, parts, out, bounds, place, first, steps, row_size, threads, units, weight_bytes, below, alone, a_step):  # type: ignore[no-untyped-def]
    """Write for `first` rows, and one more each time, how threads share so many steps (see `division.team`): to out
    [n, 3] whether they divide units, how many take part, and the address of their bounds; and these to bounds [n,
    threads + 1], whose address is `place`."""
    for n in range(out.shape[0]):
        rows = first + n
        by_units, count = _team(
            rows, rows * steps * row_size, steps, threads, units, weight_bytes, below, alone, a_step
        )
        out[n, 0], out[n, 1], out[n, 2] = by_units, count, place + 8 * n * bounds.shape[1]
        for k in range(count + 1):
            bounds[n, k] = rows * k // count


@kernel
def read_sources(part, parts, ids, sizes, first, before, after, out):  # type: ignore[no-untyped-def]
    """Write the ids of sentences `first` and those after it, which have one length, to out [S, B], each between the
    tokens before and after it, where these are not negative."""
    S, B = out.shape
    at, skipped = 0, 1 if before >= 0 else 0
    for n in range(first):
        at += sizes[n]
    for b in range(B):
        if before >= 0:
            out[0, b] = before
        for n in range(sizes[first]):
            out[skipped + n, b] = ids[at + b * sizes[first] + n]
        if after >= 0:
            out[S - 1, b] = after


@kernel
def digits(part, parts, ids, divisor, size, out):  # type: ignore[no-untyped-def]
    """Set out[n] = ids[n] // divisor % size."""
    for n in range(out.shape[0]):
        out[n] = ids[n] // divisor % size


@kernel
def add_places(part, parts, x, table):  # type: ignore[no-untyped-def]
    """Add to x[t, b] row t of a table, the last one where it has fewer."""
    for t in range(x.shape[0]):
        row = table[min(t, table.shape[0] - 1)]
        for b in range(x.shape[1]):
            for j in range(x.shape[2]):
                x[t, b, j] += row[j]


@kernel
def store_rows(part, parts, array, out, start, stride):  # type: ignore[no-untyped-def]
    """Set out[start + b * stride + s] = array[s, b] for an array [S, B, n]."""
    S, B, width = array.shape
    for s in range(S):
        for b in range(B):
            source, target = array[s, b], out[start + b * stride + s]
            for j in range(width):
                target[j] = source[j]


@exact_kernel
def _add_shares(array, out):  # type: ignore[no-untyped-def]
    steps, size = array.shape
    share = np.float32(1.0 / steps)
    for n in range(size):
        out[n] = np.float32(0.0)
    for s in range(steps):
        for n in range(size):
            out[n] += array[s, n] * share


@kernel
def mean(part, parts, array, out):  # type: ignore[no-untyped-def]
    """Set out [n] to the mean of array [S, n], added in the order of S and rounded as NumPy does."""
    _add_shares(array, out)


@kernel
def unit_rows(part, parts, out):  # type: ignore[no-untyped-def]
    """Set out[s] to the unit vector number s."""
    for s in range(out.shape[0]):
        for n in range(out.shape[1]):
            out[s, n] = 1 if s == n else 0
