"""Where threads that share one task wait for one another, inside compiled code.

A step of a recurrent layer takes a fraction of a millisecond and has a few meeting points, so a thread that waits
spins, and gives way in time: there may be more threads than cores (`atomics.look_away`).

A task's table begins with the cache line of its meetings: the count of arrivals, and the address of further lines. Few
threads count in one place. Of many each would take the line from all others, who are looking at it: they count in
groups, each on a line of its own, the last of a group counts for it, and the last of all tells everybody by the one
write that they wait for (a combining tree; Mellor-Crummey and Scott 1991, Algorithms for scalable synchronization,
section 3).
"""

from nmt.rnn.kernels.atomics import LINE, WORD, address_in, arrive, arrived, exchange, look, look_away
from nmt.rnn.kernels.jit import external, inner_kernel

COUNTER_WORDS = LINE // WORD
"""int64 numbers at the begin of a task's table: the cache line of its meetings."""

LINES_WORD = 1
"""Where among them the address of the groups' lines is."""

FLAT = 8
"""Threads that count in one place. Reasoned, not measured: so many cores were not at hand."""

_MOST_GROUPS = 64
LINES_BYTES = (_MOST_GROUPS + 1) * LINE
"""Of the groups' lines; the first is that where groups are counted."""

_POINTER, _SIZE = "voidptr", "int64"


@inner_kernel
def _group_size(parts):  # type: ignore[no-untyped-def]
    return max(FLAT, (parts + _MOST_GROUPS - 1) // _MOST_GROUPS)


@inner_kernel
def begin_meetings(table, parts):  # type: ignore[no-untyped-def]
    """Nobody has met yet, of so many threads: called by one of them while none of the others can meet. The table is
    given by its address."""
    exchange(table, 0)
    if parts > FLAT:
        size, lines = _group_size(parts), look(table + LINES_WORD * WORD)
        for line in range((parts + size - 1) // size + 1):
            exchange(lines + line * LINE, 0)


def _meet(table, part, parts, goal):  # type: ignore[no-untyped-def]
    place = address_in(table)
    if parts <= FLAT:
        arrive(place)
    else:
        size, lines = _group_size(parts), look(place + LINES_WORD * WORD)
        groups, group, meeting = (parts + size - 1) // size, part // size, goal // parts
        members = min(size, parts - group * size)
        if arrive(lines + (1 + group) * LINE) == meeting * members and arrive(lines) == meeting * groups:
            exchange(place, goal)
    looks = 0
    while arrived(place) < goal:
        looks += look_away(looks)


# meet(table, part, parts, goal), inside compiled code: wait until all of so many threads are here. The goal is the
# number of threads at their first meeting, and grows by it from one meeting to the next.
meet = external(_meet, (_POINTER, _SIZE, _SIZE, _SIZE))
