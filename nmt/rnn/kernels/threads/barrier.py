"""The barrier at which the threads of one task wait for one another, inside compiled code.

A step of a recurrent layer takes a fraction of a millisecond and has a few barriers, so a waiting thread spins; it
yields its core in time, since there may be more threads than cores (`atomics.backoff`).

A task's table begins with the cache line of its barrier: the count of arrivals, and the address of more counters. Up to
FLAT_BARRIER_THREADS threads count in one place. With more, each increment would take the line away from all the others,
which read it: they count in groups, each with a line of its own; the last thread of a group counts for it, and the last
of all releases all threads by one write (a combining tree; Mellor-Crummey and Scott 1991, Algorithms for scalable
synchronization, section 3).

An arrival is an increment (acquire and release) of a counter that only grows, and a waiting thread loads it (acquire)
until it has reached the goal. All increments of a counter are one release sequence, so a thread that leaves the barrier
sees what every thread wrote before it arrived. No thread arrives at the next barrier before it has left this one, so
the goal is reached by exactly the arrivals of all threads; a fast thread may already have arrived at the next, hence
`<`. In the tree, the acquire of an increment gives the last thread of a group what the others wrote, and the exchange
releases it to all; a flat barrier would do with a release. With a relaxed arrival a thread could leave and still read
old numbers: x86 would hide this, since its increments are ordered anyway, and Arm would not.
"""

from nmt.rnn.kernels.machine_code.jit import external, inner_kernel
from nmt.rnn.kernels.threads.atomics import (
    LINE,
    WORD,
    address_in,
    atomic_exchange,
    atomic_increment,
    atomic_load,
    atomic_load_acquire,
    backoff,
)

GROUPS_WORD = 1
"""The index of the word with the address of the groups' counters."""

FLAT_BARRIER_THREADS = 8
"""The largest number of threads that count in one place. It is an estimate, not measured, for lack of a machine with
more cores."""

_MOST_GROUPS = 64
GROUP_COUNTER_BYTES = (_MOST_GROUPS + 1) * LINE
"""Bytes of the groups' counters, a cache line each; the first line counts the groups."""

_POINTER, _SIZE = "voidptr", "int64"


@inner_kernel
def _group_size(parts):  # type: ignore[no-untyped-def]
    return max(FLAT_BARRIER_THREADS, (parts + _MOST_GROUPS - 1) // _MOST_GROUPS)


@inner_kernel
def barrier_reset(table, parts):  # type: ignore[no-untyped-def]
    """Reset the barrier of the table at this address for `parts` threads. No thread may be waiting at it."""
    atomic_exchange(table, 0)
    if parts > FLAT_BARRIER_THREADS:
        size, counters = _group_size(parts), atomic_load(table + GROUPS_WORD * WORD)
        for line in range((parts + size - 1) // size + 1):
            atomic_exchange(counters + line * LINE, 0)


def _barrier_wait(table, part, parts, goal):  # type: ignore[no-untyped-def]
    place = address_in(table)
    if parts <= FLAT_BARRIER_THREADS:
        atomic_increment(place)
    else:
        size, counters = _group_size(parts), atomic_load(place + GROUPS_WORD * WORD)
        groups, group, count = (parts + size - 1) // size, part // size, goal // parts
        members = min(size, parts - group * size)
        if (
            atomic_increment(counters + (1 + group) * LINE) == count * members
            and atomic_increment(counters) == count * groups
        ):
            atomic_exchange(place, goal)
    spins = 0
    while atomic_load_acquire(place) < goal:
        spins += backoff(spins)


# barrier_wait(table, part, parts, goal): wait until all `parts` threads are here. The goal counts the arrivals at all
# barriers of a task up to this one: `parts` at the first, and `parts` more from one to the next.
barrier_wait = external(_barrier_wait, (_POINTER, _SIZE, _SIZE, _SIZE))
