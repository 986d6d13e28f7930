"""Run a program: a list of steps over the words of a table, in one call without Python (`nmt.rnn.program` writes
programs).

The table begins with the fields of PROGRAM. The words behind them are addresses of functions and of a model's arrays,
which the caller sets once, and what steps compute: sizes, and the addresses of buffers, which a program places one
after another in memory that the caller gives. A program that is only planned computes all of them and calls nothing;
then `most` is the number of bytes that it needs. A team of threads may run it: the last one runs all steps, and the
others take part in the functions that are shared. Small tasks, which steps call besides products and generated
functions, stand here too.
"""

from __future__ import annotations

from enum import IntEnum
from functools import partial

import numpy as np

from nmt.rnn import rows
from nmt.rnn.kernels.machine_code.jit import external, inlined, inner_kernel, kernel, task
from nmt.rnn.kernels.machine_code.native import Kernel
from nmt.rnn.kernels.memory.arrays import array_at
from nmt.rnn.kernels.memory.table_layout import TableLayout, arrays, constants, numbers, reals
from nmt.rnn.kernels.search.beam_table import RULES, SEARCH, Status
from nmt.rnn.kernels.search.token_rules import SAMPLING, SEED, has_rules
from nmt.rnn.kernels.threads.atomics import LINE, barrier_reset, barrier_wait
from nmt.rnn.kernels.threads.pool import run_share
from nmt.rnn.kernels.threads.workers import call_task

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


@partial(Kernel, fastmath=frozenset())
def mean(part, parts, array, out):  # type: ignore[no-untyped-def]
    """Set out [n] to the mean of array [S, n], added in the order of S and rounded as NumPy does."""
    steps, size = array.shape
    share = np.float32(1.0 / steps)
    for n in range(size):
        out[n] = np.float32(0.0)
    for s in range(steps):
        for n in range(size):
            out[n] += array[s, n] * share


@kernel
def unit_rows(part, parts, out):  # type: ignore[no-untyped-def]
    """Set out[s] to the unit vector number s."""
    for s in range(out.shape[0]):
        for n in range(out.shape[1]):
            out[s, n] = 1 if s == n else 0


class Kind(IntEnum):
    """Kinds of values in a program: KINDS times a number, plus the kind. WORD: a word of the table. REAL: the next
    number, as it is."""

    CONSTANT, WORD, REAL = range(3)


class Step(IntEnum):
    """Steps of a program, each followed by its numbers. Most begin with the word that they set.

    SUM, PRODUCT, QUOTIENT (rounded up), LEAST, MOST: of two values. BUFFER: the address of new memory; value of its
    bytes, whether it begins as zeros. TABLE: the address of new memory with values; how many, the values. LOAD: the
    number at the address in a word, so many numbers further. CALL: words of the function and of its table, value of the
    threads that share it.
    """

    END, SUM, PRODUCT, QUOTIENT, LEAST, MOST, BUFFER, TABLE, LOAD, CALL = range(10)


class Section(IntEnum):
    """Parts of a program; its first words are the places of their steps. PACK packs the weights; BEGIN makes the tables
    of a search; ENCODE encodes sentences of one length, which ADMIT lets wait; FORCED predicts a known translation."""

    PACK, BEGIN, ENCODE, ADMIT, FORCED = range(5)


class Phase(IntEnum):
    """A part of the run: the section of this name, ENCODE for the first sentences alone, FORCED after it; or ADVANCE:
    encode the next sentences, and after the last ones take steps of the search. BEGIN plans the memory of ADVANCE."""

    PACK, BEGIN, ADVANCE, ENCODE, FORCED = range(5)


KINDS = 4
MOST_ROWS = 64
"""The number of sentences that are encoded together."""

PROGRAM = TableLayout(
    "program",
    # What to do, a Phase; the memory, its bytes, and those that a function can take for itself; the steps of the search
    # until the call returns.
    constants("phase", "memory", "room", "temporary_room", "budget"),
    arrays(np.int64, (None,), "code"),
    # The sentences, the longest first: how many, and how many are in progress at a time; their numbers of ids, and the
    # most tokens of their translations; the ids of all sentences, one after another.
    constants("sentences", "size"),
    arrays(np.int64, ("sentences",), "sizes", "limits"),
    arrays(np.int32, (None,), "ids"),
    # Settings of the search; by number of tokens, the divisor of a sum.
    constants("beam_size", "n_best", "first_token"),
    reals("word_reward"),
    arrays(np.float64, (None,), "divisors"),
    # Rules of the search, as in SEARCH.
    RULES,
    # A known translation: how many tokens; BOS and the tokens.
    constants("targets"),
    arrays(np.int64, (None,), "target_ids"),
    # Of the program, set by PACK: the ids that are read before and after each sentence, negative where there are none,
    # and their number; the address of the search.
    numbers("before", "after", "boundaries", "search_code"),
    # For the caller: the most bytes in use, and those that a function takes for itself; a Status: WANTS_MEMORY, or that
    # of the search, GO while sentences are left to be encoded; the search's table; the outputs for a known translation,
    # each followed by its attention; log-probabilities of all tokens.
    numbers("most", "temporary", "status", "search", "outputs", "log_probs"),
    # Whether it is more than a plan; the bytes in use, and those that stay in use while sentences are encoded; of all
    # sources, the number of positions and the length of the longest; places for the tokens of a hypothesis; whether
    # there are rules, whether tokens are drawn, and the seed of their random numbers.
    numbers("real", "top", "base", "positions", "longest", "width", "ruled", "sampling", "seed"),
    # The sentences that are encoded together: the first one, their number, their length, the first of their positions.
    numbers("first", "rows", "steps", "start"),
    # What the threads share: a function, its table, how many take part; the goal of their next barrier.
    numbers("function", "table", "parts", "goal"),
)
_program_at, _search_at = PROGRAM.reader(), SEARCH.reader()


@inner_kernel
def _value(words, number):  # type: ignore[no-untyped-def]
    """Return a value of a program."""
    return words[number // KINDS] if number % KINDS == Kind.WORD else number // KINDS


@inner_kernel
def _sum(step, a, b):  # type: ignore[no-untyped-def]
    """Return the result of a step for two values."""
    if step == Step.SUM:
        return a + b
    if step == Step.PRODUCT:
        return a * b
    if step == Step.QUOTIENT:
        return (a + b - 1) // b
    return min(a, b) if step == Step.LEAST else max(a, b)


@inner_kernel
def _take(given, size):  # type: ignore[no-untyped-def]
    """Return the address of so many bytes."""
    place = given.memory + given.top
    given.top += (size + LINE - 1) // LINE * LINE
    given.most = max(given.most, given.top)
    return place


@inner_kernel
def _meet(given, table, parts):  # type: ignore[no-untyped-def]
    """Let the last thread wait for the others."""
    given.goal += parts
    barrier_wait(table, parts - 1, parts, given.goal)


@inner_kernel
def _share(given, table, parts, function, own_table, own_parts):  # type: ignore[no-untyped-def]
    """Run a function, shared by `own_parts` threads."""
    if own_parts == 1:
        call_task(function, 0, 1, own_table)
        return
    barrier_reset(own_table, own_parts)
    given.function, given.table, given.parts = function, own_table, own_parts
    _meet(given, table, parts)
    run_share(function, parts - 1, parts, own_parts, own_table)
    _meet(given, table, parts)


@inner_kernel
def _help(given, table, part, parts):  # type: ignore[no-untyped-def]
    """Take part in functions until the last thread has run all steps."""
    goal = parts
    barrier_wait(table, part, parts, goal)
    while given.function != 0:
        run_share(given.function, part, parts, given.parts, given.table)
        barrier_wait(table, part, parts, goal + parts)
        goal += 2 * parts
        barrier_wait(table, part, parts, goal)


def _run_section(table, parts, section):  # type: ignore[no-untyped-def]
    given, words = _program_at(table), array_at(table, 1, np.int64)
    code, real = given.code, given.real != 0
    at = code[section]
    while code[at] != Step.END:
        step, target = code[at], code[at + 1]
        if step < Step.BUFFER:
            words[target] = _sum(step, _value(words, code[at + 2]), _value(words, code[at + 3]))
            at += 4
        elif step == Step.BUFFER:
            size = _value(words, code[at + 2])
            words[target] = _take(given, size)
            if real and code[at + 3] != 0:
                cleared = array_at(words[target], (size + 7) // 8, np.int64)
                for n in range(cleared.shape[0]):
                    cleared[n] = 0
            at += 4
        elif step == Step.TABLE:
            count = code[at + 2]
            words[target] = _take(given, 8 * count)
            made, at = array_at(words[target], count, np.int64), at + 3
            for n in range(count):
                is_real = code[at] == Kind.REAL
                at += 1 if is_real else 0
                if real:
                    made[n] = code[at] if is_real else _value(words, code[at])
                at += 1
        elif step == Step.LOAD:
            if real:
                words[target] = array_at(words[code[at + 2]], code[at + 3] + 1, np.int64)[code[at + 3]]
            at += 4
        else:
            if real:
                _share(given, table, parts, words[target], words[code[at + 2]], _value(words, code[at + 3]))
            at += 4


# run_section(table, parts, section): run a section, or plan it. It has a symbol, as it is called in many places.
_run = external(_run_section, ("voidptr", "int64", "int64"), fast=True, name="run_section")


@inner_kernel
def _measure(given):  # type: ignore[no-untyped-def]
    """Set the numbers that depend on all sentences."""
    given.positions, given.longest, given.width = 0, 1, 1
    for n in range(given.sentences):
        length = max(1, given.sizes[n] + given.boundaries)
        given.positions += length
        given.longest = max(given.longest, length)
        given.width = max(given.width, given.limits[n] + 1)
    given.first, given.rows, given.steps, given.start = 0, 0, 0, 0
    given.ruled, given.sampling = 1 if given.prefix_starts_address != 0 else 0, 0
    if given.rule_numbers_address != 0:
        given.sampling, given.seed = given.rule_numbers[SAMPLING], given.rule_numbers[SEED]
        if has_rules(given.rule_numbers, given.rule_reals):
            given.ruled = 1


@inner_kernel
def _next(given):  # type: ignore[no-untyped-def]
    """Set the numbers of the next sentences that are encoded together; return whether there are any."""
    given.start += given.rows * given.steps
    given.first += given.rows
    first, count, sizes = given.first, 0, given.sizes
    while first + count < given.sentences and count < MOST_ROWS and sizes[first + count] == sizes[first]:
        count += 1
    given.rows = count
    if count > 0:
        given.steps = sizes[first] + given.boundaries
    given.top = given.base
    return count > 0


@inner_kernel
def _encode(given, table, parts):  # type: ignore[no-untyped-def]
    """Encode the next sentences; return whether there are any."""
    if not _next(given):
        return False
    _run(table, parts, Section.ENCODE)
    _run(table, parts, Section.ADMIT)
    return True


@inner_kernel
def _begin(given, table, parts):  # type: ignore[no-untyped-def]
    """Run a phase from its beginning, or plan it."""
    given.top, given.base, given.most, given.temporary = 0, 0, 0, 0
    if given.phase == Phase.PACK:
        _run(table, parts, Section.PACK)
        return
    _measure(given)
    if given.phase == Phase.BEGIN:
        _run(table, parts, Section.BEGIN)
        given.base = given.top
        while given.real == 0 and _encode(given, table, parts):
            pass
    elif _next(given):
        _run(table, parts, Section.ENCODE)
        if given.phase == Phase.FORCED:
            _run(table, parts, Section.FORCED)


@inner_kernel
def _advance(given, table, parts):  # type: ignore[no-untyped-def]
    """Encode the next sentences; if there are no more, take steps of the search."""
    if given.first + given.rows < given.sentences:
        _encode(given, table, parts)
    if given.first + given.rows >= given.sentences:
        search = _search_at(given.search)
        search.budget = given.budget
        _share(given, table, parts, given.search_code, given.search, parts)
        given.status = search.status


@inner_kernel
def _run_phase(given, table, parts):  # type: ignore[no-untyped-def]
    """Run a phase, if its plan fits into the memory."""
    given.status = Status.GO
    if given.phase == Phase.ADVANCE:
        _advance(given, table, parts)
        return
    given.real = 0
    _begin(given, table, parts)
    if given.most > given.room or given.temporary > given.temporary_room:
        given.status = Status.WANTS_MEMORY
        return
    given.real = 1
    _begin(given, table, parts)


@task
def run_program(part, parts, table):  # type: ignore[no-untyped-def]
    """Run a phase of a program, by up to FLAT_BARRIER_THREADS threads."""
    given = _program_at(table)
    if part < parts - 1:
        _help(given, table, part, parts)
        return
    given.goal = 0
    _run_phase(given, table, parts)
    given.function = 0
    if parts > 1:
        _meet(given, table, parts)
