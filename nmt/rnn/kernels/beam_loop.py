"""Beam search as one compiled loop: the decoder's step, the output layer, the choice, all without the interpreter.

The rules are those of `decode/beam.py` with its plain chooser. Rows are hypotheses, neighbours where they are of one
sentence, the best one first; a sentence has a slot while it is in work. The last thread does what is not divided:
choosing, sorting out, and getting the next step's inputs ready.
"""

import ctypes
import os
import sys
from typing import Any

import numpy as np
from llvmlite import binding, ir

from nmt.rnn.arrays.quantised import Quantised
from nmt.rnn.kernels.arrays import array_at
from nmt.rnn.kernels.barrier import COUNTER_WORDS, begin_meetings, meet
from nmt.rnn.kernels.jit import cgutils, exact_kernel, inner_kernel, intrinsic, numba_types, task
from nmt.rnn.kernels.memory import number_in
from nmt.rnn.kernels.moves import address
from nmt.rnn.kernels.recipes import family
from nmt.rnn.kernels.search import FIRST_WORD, OUTPUTS_WORD, PLACES_WORD, best_continuations
from nmt.rnn.kernels.search import ROWS_WORD as OUTPUT_ROWS_WORD
from nmt.rnn.kernels.tables import BOUNDS_WORD, ROWS_WORD, UNITS_WORD
from nmt.rnn.kernels.team import given_array, run_share, task_table
from nmt.rnn.kernels.update import embedding_rows, embedding_rows_int8
from nmt.rnn.kernels.workers import call_task

# ---------------------------------------------------------------- what is in memory

# Numbers of a search, in one array of int64. What happens to rows and sentences:
STATUS, BUDGET, ROWS, WORDS, PARENTS, WORKING, TAKEN, WAITING, FREE, ENDED, PARITY, PLACES, SENTENCES = range(13)
# What is asked for:
SIZE, BEAM, N_BEST, EOS, NEVER, FIRST_TOKEN, VOCAB, MORE, FIRST_NAME, BOUNDED = range(13, 23)
# What there is: memory for rows, slots, tokens of a hypothesis and waiting sentences; moves, and names, none where the
# decoder captures nothing; threads of the output layer's task; where the outputs of no rows would lie, and how much
# further for each row.
ROOM, SLOTS, WIDTH, LINE, CONTINUED, GATHERED, NAMES = range(23, 30)
OUTPUT_PARTS, OUTPUTS, OUTPUT_STEP = range(30, 33)
# What a profile wants to know: whether it is wanted, nanoseconds by phase, and rows by part of the step.
TIMED, STEP_TIME, OUTPUT_TIME, SEARCH_TIME, INPUTS_RUN, STATES_RUN, STEPS_RUN = range(33, 40)
NUMBERS = 40

GO, DONE, WANTS_MORE, WANTS_READING, WANTS_WIDTH, PAUSED = range(6)
"""Status: in the loop; why it was left: no row is left; a sentence has ended and no other one waits; all slots are
taken or hold translations that nobody has read; a hypothesis grows beyond the memory for it; so many steps were asked
for."""

# Of each row, int64 [ROW_FIELDS, ROOM + 1]: the last token, its sentence's slot; which word, parent, position of the
# source and list of candidates it reads. Of the choice: which row each continues, what number a row has among those
# continued; by sentence, where its rows begin, its slot and its room; the best continuations. DISTINCT: tokens.
TOKEN, SLOT, WORD, PARENT, OWNER, LIST, ORIGIN, USED, BOUND, OF, PLACE, CHOSEN, CHOSEN_TOKEN, DISTINCT = range(14)
ROW_FIELDS = 14
# float64 [2, ROOM].
SUM, CHOSEN_SUM = range(2)

# Of each slot, int64 [SLOT_FIELDS, SLOTS]: its sentence, that one's name with the decoder and list of candidates,
# steps taken and allowed, places in the beam, ended hypotheses; slots that nobody has, and those of ended sentences.
SENTENCE, NAME, CANDIDATES, STEPS, LIMIT, BEAM_ROOM, ENDS, FREE_SLOT, ENDED_SLOT = range(9)
SLOT_FIELDS = 9
# float64 [3, SLOTS]: the score to beat, the length expected, and the word reward of as many tokens.
TO_BEAT, EXPECTED, MOST_REWARD = range(3)
# Of each ended hypothesis, int64 and float64 [2, SLOTS, BEAM].
END_STEPS, END_FINISHED = range(2)
END_SUM, END_SCORE = range(2)
# Of each waiting sentence, int64 [WAITING_FIELDS, LINE].
WAITS_SENTENCE, WAITS_NAME, WAITS_LIST, WAITS_LIMIT, WAITS_TOKEN = range(5)
WAITING_FIELDS = 5

# Tasks that the loop calls, int64 [5, 2]: function and address of the table; 0 where there is none.
INPUTS, STATES, STEP, OUTPUT, EMBED = range(5)
# What their tables are called among the arrays.
TABLES = ("inputs", "states", "step", "output", "embed")

ARRAYS = (
    *("n", "rows", "sums", "words", "slots", "slot_reals", "ends", "end_reals", "end_words", "waiting", "expected"),
    *("starts", "inputs", "states", "step", "output", "embed", "tasks", "divisions", "continued", "gathered"),
    *("rewards", "divisors", "tokens", "scores", "numbering", "moments"),
)
"""What the loop's table holds addresses of, besides the above.

words int32 [2, ROOM, WIDTH], all tokens so far, by parity of the step; end_words int32 [SLOTS, BEAM, WIDTH]; expected
float64 [2, LINE], of waiting sentences as of slots; starts: by name from FIRST_NAME on, where a sentence's captured
arrays begin; the tables of the five tasks; divisions [3, ROOM + 1, 3], see `run_cpu.divisions`; continued [n, 4],
states as addresses: from behind the rows before the step, from waiting sentences, to what rows continue, and bytes of a
row; gathered [n, 4], what the step reads itself: from, to, bytes, and whether by word (else by parent); by steps,
float64, the word reward and what a sum is divided by; tokens int32 and scores, flat, which the output layer's task
fills; numbering int64 [VOCAB], -1 of every token; moments [3], of the clock."""


# ---------------------------------------------------------------- small pieces

_CLOCK = "nmt_clock"
_HAS_CLOCK = os.name == "posix"
_MONOTONIC = 6 if sys.platform == "darwin" else 1
if _HAS_CLOCK:
    binding.add_symbol(_CLOCK, ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value)


@intrinsic
def _read_clock(typing_context: Any, target: Any) -> Any:
    """Seconds and nanoseconds into two int64; nothing where there is no such clock."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if _HAS_CLOCK:
            kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32), ir.IntType(8).as_pointer()])
            function = builder.module.globals.get(_CLOCK) or ir.Function(builder.module, kind, _CLOCK)
            builder.call(function, [ir.Constant(ir.IntType(32), _MONOTONIC), args[0]])
        return context.get_dummy_value()

    return numba_types.void(numba_types.voidptr), codegen


@intrinsic
def _copy(typing_context: Any, target: Any, source: Any, num_bytes: Any) -> Any:
    """Copy bytes between addresses."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        pointers = [builder.inttoptr(place, ir.IntType(8).as_pointer()) for place in args[:2]]
        cgutils.raw_memcpy(builder, *pointers, args[2], 1)
        return context.get_dummy_value()

    size = numba_types.int64
    return numba_types.void(size, size, size), codegen


@inner_kernel
def _lap(n, moments, phase):  # type: ignore[no-untyped-def]
    """Time since the last lap goes to a phase."""
    if n[TIMED] != 0:
        _read_clock(address(moments, 0))
        now = moments[0] * 1_000_000_000 + moments[1]
        n[phase] += now - moments[2]
        moments[2] = now


# ---------------------------------------------------------------- embeddings

# In the table of an embedding's task: its numbers, then its arrays.
ROWS_TO_EMBED, _WIDTH, _VOCAB = COUNTER_WORDS, COUNTER_WORDS + 1, COUNTER_WORDS + 2


def embedding_table(
    ids: np.ndarray, table: np.ndarray | Quantised, scale: float, out: np.ndarray
) -> tuple[np.ndarray, Any]:
    """The table of a task that fills out [R, E] with rows of an embedding times `scale`, for as many of the ids, int64
    [R], as a number in it says; and the arrays it is of."""
    numbers, scales = (table.numbers, table.scales) if isinstance(table, Quantised) else (table, np.zeros(1, out.dtype))
    arrays = ids, numbers, scales, out, np.array([scale])
    return task_table((0, out.shape[1], len(numbers)), arrays), arrays


@family
def embedding_task(number: np.dtype, *, quantised: bool) -> Any:
    """The task of an `embedding_table` for an array of these numbers."""
    F = number.type

    def embed(part, parts, table):  # type: ignore[no-untyped-def]
        R, E, V = number_in(table, ROWS_TO_EMBED), number_in(table, _WIDTH), number_in(table, _VOCAB)
        ids, out = array_at(given_array(table, 3), R, np.int64), array_at(given_array(table, 6), (R, E), F)
        scale = array_at(given_array(table, 7), 1, np.float64)[0]
        if quantised:
            numbers, scales = (
                array_at(given_array(table, 4), (V, E), np.int8),
                array_at(given_array(table, 5), V, np.float32),
            )
            embedding_rows_int8(part, parts, ids, numbers, scales, out, scale)
        else:
            embedding_rows(part, parts, ids, array_at(given_array(table, 4), (V, E), F), out, scale)

    return task(embed)


# ---------------------------------------------------------------- the choice


@inner_kernel
def _rewarded(n, rewards, slot_reals, s, steps):  # type: ignore[no-untyped-def]
    """What the word reward adds to a hypothesis of so many tokens."""
    if n[BOUNDED] != 0 and steps > slot_reals[EXPECTED, s]:
        return slot_reals[MOST_REWARD, s]
    return rewards[steps]


@exact_kernel
def _put_down(n, s, row, token, total, words, slots, slot_reals, ends, end_reals, end_words, rewards, divisors):  # type: ignore[no-untyped-def]
    """The continuation of a row by a token becomes a translation of the sentence in slot s; its score is that of
    `penalty.final_scores`."""
    k, steps = slots[ENDS, s], slots[STEPS, s]
    slots[ENDS, s] += 1
    slots[BEAM_ROOM, s] -= 1
    score = total / divisors[steps] + _rewarded(n, rewards, slot_reals, s, steps)
    end_reals[END_SUM, s, k], end_reals[END_SCORE, s, k] = total, score
    ends[END_STEPS, s, k], ends[END_FINISHED, s, k] = steps, int(token == n[EOS])
    for i in range(steps - 1):
        end_words[s, k, i] = words[n[PARITY], row, i]
    end_words[s, k, steps - 1] = token
    for i in range(k + 1):  # the n-th best of the finished ones is to be beaten
        if ends[END_FINISHED, s, i] != 0:
            above = 0
            for j in range(k + 1):
                better = end_reals[END_SCORE, s, j] > end_reals[END_SCORE, s, i]
                as_good = end_reals[END_SCORE, s, j] == end_reals[END_SCORE, s, i] and j < i
                above += int(ends[END_FINISHED, s, j] != 0 and (better or as_good))
            if above == n[N_BEST] - 1:
                slot_reals[TO_BEAT, s] = end_reals[END_SCORE, s, i]


@inner_kernel
def _continuations(n, rows, sums, slots, tokens, scores):  # type: ignore[no-untyped-def]
    """The best continuations of each sentence, from the best tokens of each row."""
    n[SENTENCES] = 0
    for r in range(n[ROWS]):
        if r == 0 or rows[SLOT, r] != rows[SLOT, r - 1]:
            c, s = n[SENTENCES], rows[SLOT, r]
            rows[BOUND, c], rows[OF, c], rows[PLACE, c] = r, s, slots[BEAM_ROOM, s]
            n[SENTENCES] = c + 1
    count, places = n[SENTENCES], n[PLACES]
    rows[BOUND, count] = n[ROWS]
    bounds, room, parents, chosen, totals = rows[BOUND], rows[PLACE], rows[CHOSEN], rows[CHOSEN_TOKEN], sums[CHOSEN_SUM]
    best_continuations(
        tokens, scores, places, sums[SUM], bounds, count, room, n[NEVER], parents, chosen, totals, n[BEAM]
    )


@exact_kernel
def _sort_out(n, rows, sums, words, slots, slot_reals, ends, end_reals, end_words, rewards, divisors):  # type: ignore[no-untyped-def]
    """Rows become the continuations chosen, but for those that end; sentences that can no longer improve (see
    `penalty.best_possible`) leave. Returns how many rows there are then."""
    K, former, parity = n[BEAM], n[PARITY], 1 - n[PARITY]
    new = 0
    for c in range(n[SENTENCES]):
        s, begin = rows[OF, c], new
        slots[STEPS, s] += 1
        steps, limit = slots[STEPS, s], slots[LIMIT, s]
        for k in range(rows[PLACE, c]):
            row = rows[CHOSEN, c * K + k]
            if row < 0:
                break
            token, total = rows[CHOSEN_TOKEN, c * K + k], sums[CHOSEN_SUM, c * K + k]
            if token == n[EOS] or steps >= limit:
                _put_down(
                    n, s, row, token, total, words, slots, slot_reals, ends, end_reals, end_words, rewards, divisors
                )
                continue
            rows[TOKEN, new], sums[SUM, new], rows[ORIGIN, new], rows[SLOT, new] = token, total, row, s
            for i in range(steps - 1):
                words[parity, new, i] = words[former, row, i]
            words[parity, new, steps - 1] = token
            new += 1
        hopeful = new > begin
        if hopeful:  # the first continuation is the best
            total = sums[SUM, begin]
            bound = total / divisors[limit]
            if total > 0:
                bound = max(bound, total / divisors[steps + 1])
            bound += _rewarded(n, rewards, slot_reals, s, limit if rewards[1] > 0 else steps + 1)
            hopeful = bound > slot_reals[TO_BEAT, s]
        if not hopeful:
            new = begin
            slots[ENDED_SLOT, n[ENDED]] = s
            n[ENDED] += 1
            n[WORKING] -= 1
    n[PARITY] = parity
    return new


@inner_kernel
def _follow(n, rows, continued, new):  # type: ignore[no-untyped-def]
    """The states that the new rows continue, each once, come from behind the rows before the step."""
    R, count = n[ROWS], 0
    for r in range(R):
        rows[USED, r] = -1
    for r in range(new):
        rows[USED, rows[ORIGIN, r]] = 0
    for r in range(R):
        if rows[USED, r] == 0:
            for m in range(n[CONTINUED]):
                size = continued[m, 3]
                _copy(continued[m, 2] + count * size, continued[m, 0] + (R + r) * size, size)
            rows[USED, r] = count
            count += 1
    for r in range(new):
        rows[PARENT, r] = rows[USED, rows[ORIGIN, r]]
    n[ROWS], n[PARENTS] = new, count


@inner_kernel
def _admit(n, rows, sums, slots, slot_reals, waiting, expected, continued):  # type: ignore[no-untyped-def]
    """Sentences that wait take the places of those that have ended."""
    while n[TAKEN] < n[WAITING] and n[WORKING] < n[SIZE] and n[FREE] > 0:
        i, r, p = n[TAKEN], n[ROWS], n[PARENTS]
        n[FREE] -= 1
        s = slots[FREE_SLOT, n[FREE]]
        slots[SENTENCE, s], slots[NAME, s] = waiting[WAITS_SENTENCE, i], waiting[WAITS_NAME, i]
        slots[CANDIDATES, s], slots[LIMIT, s] = waiting[WAITS_LIST, i], waiting[WAITS_LIMIT, i]
        slots[STEPS, s], slots[ENDS, s], slots[BEAM_ROOM, s] = 0, 0, n[BEAM]
        slot_reals[TO_BEAT, s] = -np.inf
        slot_reals[EXPECTED, s], slot_reals[MOST_REWARD, s] = expected[0, i], expected[1, i]
        rows[TOKEN, r], sums[SUM, r], rows[SLOT, r], rows[PARENT, r] = waiting[WAITS_TOKEN, i], 0, s, p
        for m in range(n[CONTINUED]):
            size = continued[m, 3]
            _copy(continued[m, 2] + p * size, continued[m, 1] + i * size, size)
        n[TAKEN], n[ROWS], n[PARENTS], n[WORKING] = i + 1, r + 1, p + 1, n[WORKING] + 1


@inner_kernel
def _next_status(n, rows, slots):  # type: ignore[no-untyped-def]
    """Whether another step can be taken."""
    if n[WORKING] < n[SIZE] and n[TAKEN] < n[WAITING]:
        return WANTS_READING
    if n[ROWS] == 0:
        return DONE
    if n[WORKING] < n[SIZE] and n[MORE] != 0:
        return WANTS_MORE
    for r in range(n[ROWS]):
        if slots[STEPS, rows[SLOT, r]] >= n[WIDTH]:
            return WANTS_WIDTH
    return GO if n[BUDGET] > 0 else PAUSED


@inner_kernel
def _ready(n, rows, slots, starts, numbering):  # type: ignore[no-untyped-def]
    """What the rows of the next step read, and how many of all there are."""
    count = places = 0
    for r in range(n[ROWS]):
        s, token = rows[SLOT, r], rows[TOKEN, r]
        if numbering[token] < 0:
            numbering[token] = count
            rows[DISTINCT, count] = token
            count += 1
        rows[WORD, r] = numbering[token]
        if n[NAMES] > 0:
            rows[OWNER, r] = starts[slots[NAME, s] - n[FIRST_NAME]]
        rows[LIST, r] = slots[CANDIDATES, s]
        places = max(places, slots[BEAM_ROOM, s])
    for u in range(count):
        numbering[rows[DISTINCT, u]] = -1
    # A row cannot give more continuations than its sentence has room for (one more where a token is passed over).
    n[WORDS], n[PLACES] = count, min(places + 1, n[VOCAB])
    n[INPUTS_RUN] += count
    n[STATES_RUN] += n[PARENTS]
    n[STEPS_RUN] += n[ROWS]


@inner_kernel
def _gather(n, rows, gathered):  # type: ignore[no-untyped-def]
    """What the step reads itself of inputs and states."""
    for m in range(n[GATHERED]):
        source, target, size = gathered[m, 0], gathered[m, 1], gathered[m, 2]
        for r in range(n[ROWS]):
            place = rows[WORD, r] if gathered[m, 3] != 0 else rows[PARENT, r]
            _copy(target + r * size, source + place * size, size)


@inner_kernel
def _resize(table, division, rows):  # type: ignore[no-untyped-def]
    """See `run_cpu.Table.resize`."""
    table[ROWS_WORD] = rows
    table[UNITS_WORD], table[BOUNDS_WORD] = division[rows, 0], division[rows, 2]


@inner_kernel
def _meet(table, part, parts, goal):  # type: ignore[no-untyped-def]
    """Wait for all threads; the goal of the next meeting."""
    if parts > 1:
        meet(table, part, parts, goal)
    return goal + parts


@family
def search_task(number: np.dtype) -> Any:
    """The task of a whole search whose scores are these numbers."""
    F = number.type

    def beam_loop(part, parts, table):  # type: ignore[no-untyped-def]
        """Search until a status says why not on. Every thread runs it with its part."""
        n = array_at(given_array(table, 0), NUMBERS, np.int64)
        C, Z, K = n[ROOM], n[SLOTS], n[BEAM]
        rows = array_at(given_array(table, 1), (ROW_FIELDS, C + 1), np.int64)
        sums = array_at(given_array(table, 2), (2, C), np.float64)
        words = array_at(given_array(table, 3), (2, C, n[WIDTH]), np.int32)
        slots = array_at(given_array(table, 4), (SLOT_FIELDS, Z), np.int64)
        slot_reals = array_at(given_array(table, 5), (3, Z), np.float64)
        ends = array_at(given_array(table, 6), (2, Z, K), np.int64)
        end_reals = array_at(given_array(table, 7), (2, Z, K), np.float64)
        end_words = array_at(given_array(table, 8), (Z, K, n[WIDTH]), np.int32)
        waiting = array_at(given_array(table, 9), (WAITING_FIELDS, n[LINE]), np.int64)
        expected = array_at(given_array(table, 10), (2, n[LINE]), np.float64)
        starts = array_at(given_array(table, 11), n[NAMES], np.int64)
        inputs, states = array_at(given_array(table, 12), 1, np.int64), array_at(given_array(table, 13), 1, np.int64)
        step, output = array_at(given_array(table, 14), 1, np.int64), array_at(given_array(table, 15), 1, np.int64)
        embed, tasks = array_at(given_array(table, 16), 1, np.int64), array_at(given_array(table, 17), (5, 2), np.int64)
        divisions = array_at(given_array(table, 18), (3, C + 1, 3), np.int64)
        continued = array_at(given_array(table, 19), (n[CONTINUED], 4), np.int64)
        gathered = array_at(given_array(table, 20), (n[GATHERED], 4), np.int64)
        rewards, divisors = (
            array_at(given_array(table, 21), 1, np.float64),
            array_at(given_array(table, 22), 1, np.float64),
        )
        tokens = array_at(given_array(table, 23), C * (K + 1), np.int32)
        scores = array_at(given_array(table, 24), C * (K + 1), F)
        numbering, moments = (
            array_at(given_array(table, 25), 1, np.int64),
            array_at(given_array(table, 26), 3, np.int64),
        )
        last, goal, stepped = part == parts - 1, parts, False
        if last:
            _lap(n, moments, SEARCH_TIME)
            n[SEARCH_TIME] = 0
        while True:
            if last:
                if stepped:
                    _continuations(n, rows, sums, slots, tokens, scores)
                    new = _sort_out(
                        n, rows, sums, words, slots, slot_reals, ends, end_reals, end_words, rewards, divisors
                    )
                    _follow(n, rows, continued, new)
                _admit(n, rows, sums, slots, slot_reals, waiting, expected, continued)
                n[STATUS] = _next_status(n, rows, slots)
                if n[STATUS] == GO:
                    n[BUDGET] -= 1
                    _ready(n, rows, slots, starts, numbering)
                    embed[ROWS_TO_EMBED] = n[WORDS]
                    call_task(tasks[EMBED, 0], 0, 1, tasks[EMBED, 1])
                    _gather(n, rows, gathered)
                    for which, one in ((INPUTS, inputs), (STATES, states), (STEP, step)):
                        if tasks[which, 0] != 0:
                            run = n[WORDS] if which == INPUTS else n[PARENTS] if which == STATES else n[ROWS]
                            _resize(one, divisions[which], run)
                    output[OUTPUT_ROWS_WORD], output[PLACES_WORD] = n[ROWS], n[PLACES]
                    output[FIRST_WORD] = n[FIRST_TOKEN]
                    output[OUTPUTS_WORD] = n[OUTPUTS] + n[ROWS] * n[OUTPUT_STEP]
                _lap(n, moments, SEARCH_TIME)
            stepped = True
            goal = _meet(table, part, parts, goal)
            if n[STATUS] != GO:
                break
            run_share(tasks[INPUTS, 0], part, parts, divisions[INPUTS, n[WORDS], 1], tasks[INPUTS, 1])
            run_share(tasks[STATES, 0], part, parts, divisions[STATES, n[PARENTS], 1], tasks[STATES, 1])
            goal = _meet(table, part, parts, goal)
            run_share(tasks[STEP, 0], part, parts, divisions[STEP, n[ROWS], 1], tasks[STEP, 1])
            goal = _meet(table, part, parts, goal)
            if last:
                # Whoever runs a task leaves its table as if nobody had met: others may run it next.
                for which, run in ((INPUTS, n[WORDS]), (STATES, n[PARENTS]), (STEP, n[ROWS])):
                    if tasks[which, 0] != 0:
                        begin_meetings(tasks[which, 1], divisions[which, run, 1])
                _lap(n, moments, STEP_TIME)
            run_share(tasks[OUTPUT, 0], part, parts, n[OUTPUT_PARTS], tasks[OUTPUT, 1])
            goal = _meet(table, part, parts, goal)
            if last:
                begin_meetings(tasks[OUTPUT, 1], n[OUTPUT_PARTS])
                _lap(n, moments, OUTPUT_TIME)

    return task(beam_loop)
