"""Beam search as one compiled loop: the decoder's step, the output layer and the choice in turn, without the interpreter.

The rules are those of `decode/beam.py` with its plain chooser. Rows are hypotheses, neighbours where they are of one
sentence, the best one first; a sentence has a slot while it is in work. The last thread does what is not divided:
choosing, sorting out, and getting the next step's inputs ready.
"""

import ctypes
import os
import sys
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils

from nmt.rnn.kernels.barrier import meet
from nmt.rnn.kernels.jit import exact_kernel, intrinsic, kernel, numba_types
from nmt.rnn.kernels.moves import address
from nmt.rnn.kernels.run_cpu import BOUNDS_WORD, ROWS_WORD, UNITS_WORD
from nmt.rnn.kernels.search import FIRST_WORD, OUTPUTS_WORD, PLACES_WORD, best_continuations
from nmt.rnn.kernels.search import ROWS_WORD as OUTPUT_ROWS_WORD
from nmt.rnn.kernels.team import call_task
from nmt.rnn.kernels.update import embedding_rows, embedding_rows_int8

# ---------------------------------------------------------------- what is in memory

# Numbers of a search, in one array of int64. What happens to rows and sentences:
STATUS, BUDGET, ROWS, WORDS, PARENTS, WORKING, TAKEN, WAITING, FREE, ENDED, PARITY, PLACES = range(12)
# How much there is room for, and what is asked for:
SIZE, BEAM, N_BEST, EOS, NEVER, FIRST_TOKEN, VOCAB, MORE, FIRST_NAME = range(12, 21)
# What a profile wants to know: whether it is wanted, nanoseconds by phase, and rows by part of the step.
TIMED, STEP_TIME, OUTPUT_TIME, SEARCH_TIME, INPUTS_RUN, STATES_RUN, STEPS_RUN = range(21, 28)
NUMBERS = 28

GO, DONE, WANTS_MORE, WANTS_READING, WANTS_WIDTH, PAUSED = range(6)
"""Status: in the loop; why it was left: no row is left; a sentence has ended and no other one waits; all slots are taken
or hold translations that nobody has read; a hypothesis grows beyond the memory for it; so many steps were asked for."""


class Rows(NamedTuple):
    """By row: the last token, the sum of log-probabilities, the slot of its sentence; which word, parent, position of
    the source and list of candidates it reads. `*_next`, `origin` and `used` are of the choice."""

    tokens: np.ndarray  # int32
    sums: np.ndarray  # float64
    slots: np.ndarray  # int64, as all that follow, but for words and distinct
    word: np.ndarray
    parent: np.ndarray
    owner: np.ndarray
    lists: np.ndarray
    origin: np.ndarray
    used: np.ndarray
    bounds: np.ndarray
    of: np.ndarray
    room: np.ndarray
    chosen_parents: np.ndarray  # [slots * beam]
    chosen_tokens: np.ndarray  # int32
    chosen_sums: np.ndarray  # float64
    distinct: np.ndarray  # int32, the different tokens
    words: np.ndarray  # int32 [2, rows, width], all tokens so far, by parity of the step


class Slots(NamedTuple):
    """By slot: which sentence, its name with the decoder, its list of candidates, steps taken and allowed, places in
    the beam, expected length, the score to beat; and of its ended hypotheses [slots, beam] the sum, score, steps,
    whether each has finished, and its tokens. `free`: slots that nobody has; `ended`: those of sentences that have."""

    sentence: np.ndarray
    name: np.ndarray
    list: np.ndarray
    steps: np.ndarray
    limit: np.ndarray
    room: np.ndarray
    expected: np.ndarray  # float64
    to_beat: np.ndarray  # float64
    ends: np.ndarray
    end_sums: np.ndarray  # float64
    end_scores: np.ndarray  # float64
    end_steps: np.ndarray
    end_finished: np.ndarray
    end_words: np.ndarray  # int32 [slots, beam, width]
    free: np.ndarray
    ended: np.ndarray


class Waiting(NamedTuple):
    """Encoded sentences in order: number, name, list of candidates, most steps, expected length, the token before the
    first step."""

    sentence: np.ndarray
    name: np.ndarray
    list: np.ndarray
    limit: np.ndarray
    expected: np.ndarray  # float64
    token: np.ndarray  # int32


class Tables(NamedTuple):
    """Tables of the tasks, as the loop changes them, and by task its function, parts and table (of the last two tasks,
    or of absent ones, 0); `divisions` [3, rows + 1, 3]: how threads share so many rows."""

    inputs: np.ndarray
    states: np.ndarray
    step: np.ndarray
    output: np.ndarray
    tasks: np.ndarray  # [4, 2]: function and address of the table
    divisions: np.ndarray
    output_parts: int
    outputs: np.ndarray  # [2]: where the outputs of no rows would lie, and by how much further for each row


class Moves(NamedTuple):
    """What rows are copied, as addresses and bytes of a row.

    continued [n, 4]: states, from behind the rows before the step, from waiting sentences, to what rows continue.
    gathered [n, 4]: what the step reads itself, from, to, bytes, and whether by word (else by parent).
    """

    continued: np.ndarray
    gathered: np.ndarray


class Embedding(NamedTuple):
    """The table of the words: numbers [V, E], or int8 [V, E] and the scales of its rows; what of it is not there is
    empty. scale: a factor of both. x [rows, E]: where the rows read go. place [V]: -1, of every word."""

    table: np.ndarray
    rounded: np.ndarray
    scales: np.ndarray
    scale: float
    x: np.ndarray
    place: np.ndarray


class Scoring(NamedTuple):
    """See `decode/penalty.py`. divisors: by steps, what a sum is divided by."""

    divisors: np.ndarray
    word_reward: float
    bounded: bool


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


@kernel
def _lap(n, moments, phase):  # type: ignore[no-untyped-def]
    """Time since the last lap goes to a phase."""
    if n[TIMED] != 0:
        _read_clock(address(moments, 0))
        now = moments[0] * 1_000_000_000 + moments[1]
        n[phase] += now - moments[2]
        moments[2] = now


# ---------------------------------------------------------------- the choice


@exact_kernel
def _rewarded(scoring, steps, expected):  # type: ignore[no-untyped-def]
    """What the word reward adds."""
    count = float(steps)
    if scoring.bounded:
        count = min(count, expected)
    return scoring.word_reward * count


@exact_kernel
def _score(scoring, total, steps, expected):  # type: ignore[no-untyped-def]
    """See `penalty.final_scores`."""
    score = total / scoring.divisors[steps]
    if scoring.word_reward != 0:
        score += _rewarded(scoring, steps, expected)
    return score


@exact_kernel
def _bound(scoring, total, steps, limit, expected):  # type: ignore[no-untyped-def]
    """See `penalty.best_possible`."""
    bound = total / scoring.divisors[limit]
    if total > 0:
        bound = max(bound, total / scoring.divisors[steps + 1])
    if scoring.word_reward != 0:
        bound += _rewarded(scoring, limit if scoring.word_reward > 0 else steps + 1, expected)
    return bound


@exact_kernel
def _put_down(n, rows, slots, scoring, s, row, token, total, finished):  # type: ignore[no-untyped-def]
    """The continuation of a row by a token becomes a translation of the sentence in slot s."""
    k, steps = slots.ends[s], slots.steps[s]
    slots.ends[s] += 1
    slots.room[s] -= 1
    slots.end_sums[s, k] = total
    slots.end_scores[s, k] = score = _score(scoring, total, steps, slots.expected[s])
    slots.end_steps[s, k] = steps
    slots.end_finished[s, k] = finished
    slots.end_words[s, k, : steps - 1] = rows.words[n[PARITY], row, : steps - 1]
    slots.end_words[s, k, steps - 1] = token
    better = 0  # the n-th best of the finished ones is to be beaten
    for i in range(k + 1):
        if slots.end_finished[s, i]:
            above = 0
            for j in range(k + 1):
                if slots.end_finished[s, j] and (
                    slots.end_scores[s, j] > slots.end_scores[s, i]
                    or (slots.end_scores[s, j] == slots.end_scores[s, i] and j < i)
                ):
                    above += 1
            if above == n[N_BEST] - 1:
                slots.to_beat[s] = slots.end_scores[s, i]


@exact_kernel
def _continuations(n, rows, slots, tokens, scores):  # type: ignore[no-untyped-def]
    """The best continuations of each sentence, from the best tokens of each row; how many sentences there are."""
    R, places, K = n[ROWS], n[PLACES], n[BEAM]
    count = 0
    for r in range(R):
        if r == 0 or rows.slots[r] != rows.slots[r - 1]:
            rows.bounds[count], rows.of[count] = r, rows.slots[r]
            rows.room[count] = slots.room[rows.slots[r]]
            count += 1
    rows.bounds[count] = R
    shape = (count, K)
    best_continuations(
        tokens[: R * places].reshape((R, places)),
        scores[: R * places].reshape((R, places)),
        rows.sums,
        rows.bounds[: count + 1],
        rows.room,
        n[NEVER],
        rows.chosen_parents[: count * K].reshape(shape),
        rows.chosen_tokens[: count * K].reshape(shape),
        rows.chosen_sums[: count * K].reshape(shape),
    )
    return count


@exact_kernel
def _choose(n, rows, slots, scoring, tokens, scores):  # type: ignore[no-untyped-def]
    """Rows become the best continuations, but for those that end; sentences that can no longer improve leave."""
    count, K = _continuations(n, rows, slots, tokens, scores), n[BEAM]
    former, parity = n[PARITY], 1 - n[PARITY]
    new = 0
    for c in range(count):
        s, begin, room = rows.of[c], new, rows.room[c]
        slots.steps[s] += 1
        steps = slots.steps[s]
        for k in range(room):
            row = rows.chosen_parents[c * K + k]
            if row < 0:
                break
            token, total = rows.chosen_tokens[c * K + k], rows.chosen_sums[c * K + k]
            if token == n[EOS] or steps >= slots.limit[s]:
                _put_down(n, rows, slots, scoring, s, row, token, total, token == n[EOS])
                continue
            rows.tokens[new], rows.sums[new], rows.origin[new] = token, total, row
            rows.words[parity, new, : steps - 1] = rows.words[former, row, : steps - 1]
            rows.words[parity, new, steps - 1] = token
            new += 1
        hopeful = new > begin
        if hopeful:  # the first continuation is the best
            bound = _bound(scoring, rows.sums[begin], steps, slots.limit[s], slots.expected[s])
            hopeful = bound > slots.to_beat[s]
        if hopeful:
            rows.slots[begin:new] = s
        else:
            new = begin
            slots.ended[n[ENDED]] = s
            n[ENDED] += 1
            n[WORKING] -= 1
    n[PARITY] = parity
    return new


@kernel
def _follow(n, rows, continued, new):  # type: ignore[no-untyped-def]
    """The states that the new rows continue, each once, come from behind the rows before the step."""
    R, count = n[ROWS], 0
    rows.used[:R] = -1
    for r in range(new):
        rows.used[rows.origin[r]] = 0
    for r in range(R):
        if rows.used[r] == 0:
            for m in range(continued.shape[0]):
                size = continued[m, 3]
                _copy(continued[m, 2] + count * size, continued[m, 0] + (R + r) * size, size)
            rows.used[r] = count
            count += 1
    for r in range(new):
        rows.parent[r] = rows.used[rows.origin[r]]
    n[ROWS], n[PARENTS] = new, count


@kernel
def _admit(n, rows, slots, waiting, continued):  # type: ignore[no-untyped-def]
    """Sentences that wait take the places of those that have ended."""
    while n[TAKEN] < n[WAITING] and n[WORKING] < n[SIZE] and n[FREE] > 0:
        i, r, p = n[TAKEN], n[ROWS], n[PARENTS]
        n[FREE] -= 1
        s = slots.free[n[FREE]]
        slots.sentence[s], slots.name[s], slots.list[s] = waiting.sentence[i], waiting.name[i], waiting.list[i]
        slots.limit[s], slots.expected[s] = waiting.limit[i], waiting.expected[i]
        slots.steps[s], slots.ends[s], slots.room[s], slots.to_beat[s] = 0, 0, n[BEAM], -np.inf
        rows.tokens[r], rows.sums[r], rows.slots[r], rows.parent[r] = waiting.token[i], 0, s, p
        for m in range(continued.shape[0]):
            size = continued[m, 3]
            _copy(continued[m, 2] + p * size, continued[m, 1] + i * size, size)
        n[TAKEN], n[ROWS], n[PARENTS], n[WORKING] = i + 1, r + 1, p + 1, n[WORKING] + 1


@kernel
def _next_status(n, rows, slots):  # type: ignore[no-untyped-def]
    """Whether another step can be taken."""
    if n[WORKING] < n[SIZE] and n[TAKEN] < n[WAITING]:
        return WANTS_READING
    if n[ROWS] == 0:
        return DONE
    if n[WORKING] < n[SIZE] and n[MORE] != 0:
        return WANTS_MORE
    for r in range(n[ROWS]):
        if slots.steps[rows.slots[r]] >= rows.words.shape[2]:
            return WANTS_WIDTH
    return GO if n[BUDGET] > 0 else PAUSED


@kernel
def _ready(n, rows, slots, starts, tables, gathered, embedding):  # type: ignore[no-untyped-def]
    """Inputs and tables of the next step."""
    R, count, places = n[ROWS], 0, 0
    for r in range(R):
        s, token = rows.slots[r], rows.tokens[r]
        if embedding.place[token] < 0:
            embedding.place[token] = count
            rows.distinct[count] = token
            count += 1
        rows.word[r] = embedding.place[token]
        rows.owner[r] = starts[slots.name[s] - n[FIRST_NAME]]
        rows.lists[r] = slots.list[s]
        places = max(places, slots.room[s])
    for u in range(count):
        embedding.place[rows.distinct[u]] = -1
    words = rows.distinct[:count]
    if embedding.scales.size > 0:
        embedding_rows_int8(0, 1, words, embedding.rounded, embedding.scales, embedding.x, embedding.scale)
    else:
        embedding_rows(0, 1, words, embedding.table, embedding.x, embedding.scale)
    for m in range(gathered.shape[0]):
        source, target, size = gathered[m, 0], gathered[m, 1], gathered[m, 2]
        for r in range(R):
            place = rows.word[r] if gathered[m, 3] != 0 else rows.parent[r]
            _copy(target + r * size, source + place * size, size)
    n[WORDS] = count
    # A row cannot give more continuations than its sentence has room for (one more where a token is passed over).
    n[PLACES] = min(places + 1, n[VOCAB])
    _resize(tables.inputs, tables.divisions[0], count)
    _resize(tables.states, tables.divisions[1], n[PARENTS])
    _resize(tables.step, tables.divisions[2], R)
    tables.output[0], tables.output[OUTPUT_ROWS_WORD], tables.output[PLACES_WORD] = 0, R, n[PLACES]
    tables.output[FIRST_WORD] = n[FIRST_TOKEN]
    tables.output[OUTPUTS_WORD] = tables.outputs[0] + R * tables.outputs[1]
    n[INPUTS_RUN], n[STATES_RUN], n[STEPS_RUN] = n[INPUTS_RUN] + count, n[STATES_RUN] + n[PARENTS], n[STEPS_RUN] + R


@kernel
def _resize(table, division, rows):  # type: ignore[no-untyped-def]
    """See `run_cpu.Table.resize`; the counter is zero again. Absent parts have a table of no numbers."""
    if table.size > 0:
        table[0], table[ROWS_WORD] = 0, rows
        table[UNITS_WORD], table[BOUNDS_WORD] = division[rows, 0], division[rows, 2]


@kernel
def _run(part, parts, task, own_parts):  # type: ignore[no-untyped-def]
    """This thread's part of a task; those of fewer parts leave the first threads out."""
    own = part - (parts - own_parts)
    if task[0] != 0 and own >= 0:
        call_task(task[0], own, own_parts, task[1])


@kernel
def beam_loop(  # type: ignore[no-untyped-def]
    part,
    parts,
    counter,
    n,
    moments,
    rows,
    slots,
    waiting,
    starts,
    tables,
    moves,
    embedding,
    scoring,
    tokens,
    scores,
):
    """Search until a status says why not on. Every thread runs it with its part; `counter` is zero before.

    n: the numbers of the search; starts: by the decoder's names from n[FIRST_NAME] on, where its sentence's captured
    arrays begin; tokens, scores: flat, what the output layer's task fills.
    """
    goal, last = 0, part == parts - 1
    if last:
        _lap(n, moments, SEARCH_TIME)
        n[SEARCH_TIME] = 0
    stepped = False
    while True:
        if last:
            if stepped:
                _follow(n, rows, moves.continued, _choose(n, rows, slots, scoring, tokens, scores))
            _admit(n, rows, slots, waiting, moves.continued)
            n[STATUS] = _next_status(n, rows, slots)
            if n[STATUS] == GO:
                n[BUDGET] -= 1
                _ready(n, rows, slots, starts, tables, moves.gathered, embedding)
            _lap(n, moments, SEARCH_TIME)
        stepped = True
        goal = _meet(counter, parts, goal)
        if n[STATUS] != GO:
            break
        _run(part, parts, tables.tasks[0], tables.divisions[0, n[WORDS], 1])
        _run(part, parts, tables.tasks[1], tables.divisions[1, n[PARENTS], 1])
        goal = _meet(counter, parts, goal)
        _run(part, parts, tables.tasks[2], tables.divisions[2, n[ROWS], 1])
        goal = _meet(counter, parts, goal)
        if last:
            _lap(n, moments, STEP_TIME)
        _run(part, parts, tables.tasks[3], tables.output_parts)
        goal = _meet(counter, parts, goal)
        if last:
            _lap(n, moments, OUTPUT_TIME)


@kernel
def _meet(counter, parts, goal):  # type: ignore[no-untyped-def]
    """Wait for all threads; the goal of the meeting."""
    if parts > 1:
        meet(address(counter, 0), goal + parts)
    return goal + parts
