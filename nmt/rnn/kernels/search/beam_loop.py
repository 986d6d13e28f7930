"""Beam search as one compiled loop: the decoder's step, the output layer and the choice of continuations, all without
the interpreter.

Threads share the step and the output layer; the thread with the highest number does the rest alone, by the
steps of `decode.beam.BeamCell` with its plain selector and the same rules (see search_rules.py). Each step works on the
memory of a search (see beam_table.py).
"""

from typing import Any

import numpy as np

from nmt.rnn.kernels.loops.run_cpu import resize_table
from nmt.rnn.kernels.machine_code.jit import exact_kernel, inlined, inner_kernel, task
from nmt.rnn.kernels.machine_code.recipes import family
from nmt.rnn.kernels.memory.arrays import array_at
from nmt.rnn.kernels.memory.moves import copy_bytes
from nmt.rnn.kernels.model.update import EMBEDDING
from nmt.rnn.kernels.search import search_rules
from nmt.rnn.kernels.search.beam_table import SEARCH, STEP_PART, Status
from nmt.rnn.kernels.search.best_tokens import OUTPUT, best_continuations
from nmt.rnn.kernels.threads.atomics import barrier_reset, barrier_wait
from nmt.rnn.kernels.threads.pool import run_share
from nmt.rnn.kernels.threads.workers import call_task

_best_length = inlined(search_rules.best_length)
_best_score = inlined(search_rules.best_score)
_can_improve = inlined(search_rules.can_improve)
_ends = inlined(search_rules.ends)
_room_left = inlined(search_rules.room_left)
_score = inlined(search_rules.score)
_score_to_beat = inlined(search_rules.score_to_beat)
_tokens_wanted = inlined(search_rules.tokens_wanted)

step_part_at = STEP_PART.reader()


@inner_kernel
def extend(search):  # type: ignore[no-untyped-def]
    """Start as many waiting sentences as there is room for, each with one empty hypothesis, or with all its samples."""
    waiting, slots, rows, continued = search.waiting, search.slots, search.rows, search.continued
    indexed = search.indexed
    while search.taken < search.num_waiting and search.working < search.size and search.num_free > 0:
        n, r, parent = search.taken, search.num_rows, search.num_parents
        search.num_free -= 1
        s = search.free[search.num_free]
        slots.sentence[s], slots.list[s] = waiting.sentence[n], waiting.list[n]
        slots.sentence_id[s] = waiting.sentence_id[n]
        slots.steps[s], slots.limit[s] = 0, waiting.limit[n]
        slots.room[s], slots.num_ended[s], slots.to_beat[s] = search.beam_size, 0, -np.inf
        count = search.beam_size if search.sampling != 0 else 1
        for k in range(count):
            rows.token[r + k], rows.sum[r + k], rows.slot[r + k], rows.parent[r + k] = waiting.token[n], 0.0, s, parent
            rows.sample[r + k], rows.log_prob[r + k] = k, 0.0
        for m in range(search.num_states):
            size = continued.num_bytes[m]
            copy_bytes(continued.target[m] + parent * size, continued.waiting[m] + n * size, size)
        rows.origin[r] = search.room + search.working
        for m in range(search.num_indexed):
            size = indexed.num_bytes[m]
            copy_bytes(indexed.half[m, search.side] + rows.origin[r] * size, indexed.waiting[m] + n * size, size)
        search.taken, search.num_rows, search.num_parents, search.working = (
            n + 1,
            r + count,
            parent + 1,
            search.working + 1,
        )


@inner_kernel
def choose(search):  # type: ignore[no-untyped-def]
    """Choose the best continuations of each sentence from the best tokens of each row."""
    rows, live, chosen = search.rows, search.live, search.chosen
    count = 0
    for r in range(search.num_rows):
        s = rows.slot[r]
        if r == 0 or s != rows.slot[r - 1]:
            live.first_row[count], live.slot[count], live.room[count] = r, s, search.slots.room[s]
            count += 1
    live.first_row[count] = search.num_rows
    search.num_live = count
    tokens, scores, sums, places = search.tokens, search.scores, rows.sum, search.tokens_wanted
    bounds, room, never, width = live.first_row, live.room, search.never, search.beam_size
    best_continuations(
        tokens, scores, places, sums, bounds, count, room, never, chosen.row, chosen.token, chosen.sum, width
    )
    if search.ruled != 0:
        _note_plain(search)


@exact_kernel
def _note_plain(search):  # type: ignore[no-untyped-def]
    """Set what rows keep of the chosen continuations besides their sums."""
    rows, chosen, tokens, places = search.rows, search.chosen, search.tokens, search.tokens_wanted
    for n in range(search.num_live):
        for c in range(n * search.beam_size, n * search.beam_size + search.live.room[n]):
            row = chosen.row[c]
            if row < 0:
                break
            at = row * places
            while tokens[at] != chosen.token[c]:
                at += 1
            chosen.log_prob[c] = rows.log_prob[row] + search.plain[at]
            chosen.sample[c] = rows.sample[row]


@exact_kernel
def prune_beam(search):  # type: ignore[no-untyped-def]
    """Replace the rows by the chosen continuations. Hypotheses that have ended leave the beam; a sentence that can no
    longer improve leaves with all its rows. Return the new number of rows."""
    rows, slots, chosen, history = search.rows, search.slots, search.chosen, search.history
    before, after, going = search.parity, 1 - search.parity, 0
    for n in range(search.num_live):
        s, begin, first = search.live.slot[n], going, n * search.beam_size
        slots.steps[s] += 1
        steps = slots.steps[s]
        for c in range(first, first + search.live.room[n]):
            row, token, total = chosen.row[c], chosen.token[c], chosen.sum[c]
            if row < 0:
                break
            log_prob = chosen.log_prob[c] if search.ruled != 0 else total
            if _ends(token, search.eos_id, steps, slots.limit[s]):
                _finish_hypothesis(search, s, history[before, row], token, total, log_prob)
            else:
                rows.log_prob[going], rows.sample[going] = log_prob, chosen.sample[c]
                rows.token[going], rows.sum[going], rows.slot[going], rows.origin[going] = token, total, s, row
                _append(history[before, row], steps, token, history[after, going])
                going += 1
        if going == begin or not _hopeful(search, s, rows.sum[begin]):  # the first continuation is the best
            going = begin
            search.ended[search.num_ended] = s
            search.num_ended += 1
            search.working -= 1
    search.parity = after
    return going


@exact_kernel
def _hopeful(search, s, best):  # type: ignore[no-untyped-def]
    """Return whether the sentence in slot s may find a better translation; `best` is the highest sum of its rows."""
    slots, divisors, word_reward = search.slots, search.divisors, search.word_reward
    steps, limit = slots.steps[s], slots.limit[s]
    rewarded = _best_length(word_reward, steps, limit)
    bound = _best_score(best, divisors[steps + 1], divisors[limit], word_reward, rewarded)
    return _can_improve(bound, slots.to_beat[s])


@exact_kernel
def _finish_hypothesis(search, s, history, token, total, log_prob):  # type: ignore[no-untyped-def]
    """Store an ended hypothesis, the tokens `history` of a row followed by `token`, as a translation of the sentence in
    slot s. It has reached EOS or the maximum length."""
    slots, hypotheses = search.slots, search.hypotheses
    k, steps = slots.num_ended[s], slots.steps[s]
    finished = token == search.eos_id
    hypotheses.sum[s, k] = log_prob
    hypotheses.score[s, k] = _score(total, search.divisors[steps], search.word_reward, steps)
    hypotheses.steps[s, k], hypotheses.finished[s, k] = steps, int(finished)
    _append(history, steps, token, hypotheses.history[s, k])
    slots.num_ended[s], slots.room[s] = k + 1, _room_left(slots.room[s], 1)
    if finished:
        scores, ended = hypotheses.score[s], hypotheses.finished[s]
        slots.to_beat[s] = _score_to_beat(scores, ended, 0, k + 1, search.n_best, slots.to_beat[s])


@inner_kernel
def _append(history, steps, token, out):  # type: ignore[no-untyped-def]
    """Write the tokens `history` and then `token`, the token number `steps`, into `out`."""
    for i in range(steps - 1):
        out[i] = history[i]
    out[steps - 1] = token


@inner_kernel
def keep(search, going):  # type: ignore[no-untyped-def]
    """Set the number of rows to `going`, and copy each state that these rows continue once from the results of the step
    to `continued.target`."""
    rows, continued, count = search.rows, search.continued, 0
    for r in range(search.num_rows):
        rows.place[r] = -1
    for r in range(going):
        rows.place[rows.origin[r]] = 0
    for r in range(search.num_rows):
        if rows.place[r] == 0:
            for m in range(search.num_states):
                size = continued.num_bytes[m]
                source = continued.stepped[m] + (search.num_rows + r) * size
                copy_bytes(continued.target[m] + count * size, source, size)
            rows.place[r] = count
            count += 1
    for r in range(going):
        rows.parent[r] = rows.place[rows.origin[r]]
    search.num_rows, search.num_parents = going, count


@inner_kernel
def next_status(search):  # type: ignore[no-untyped-def]
    """Return GO if another step can be taken, or the reason why not."""
    if search.working < search.size and search.taken < search.num_waiting:
        return Status.WANTS_READING
    if search.num_rows == 0:
        return Status.DONE
    if search.working < search.size and search.more != 0:
        return Status.WANTS_MORE
    for r in range(search.num_rows):
        if search.slots.steps[search.rows.slot[r]] >= search.width:
            return Status.WANTS_WIDTH
    return Status.GO if search.budget > 0 else Status.PAUSED


@inner_kernel
def number_tokens(search):  # type: ignore[no-untyped-def]
    """Set the inputs of the next step's rows: each distinct token is numbered once."""
    rows, slots, numbering, count, most = search.rows, search.slots, search.numbering, 0, 0
    for r in range(search.num_rows):
        s, token = rows.slot[r], rows.token[r]
        if numbering[token] < 0:
            numbering[token] = count
            search.distinct[count] = token
            count += 1
        rows.word[r] = numbering[token]
        if search.num_ids > 0:
            rows.source[r] = search.starts[slots.sentence_id[s] - search.first_id]
        rows.list[r] = slots.list[s]
        most = max(most, slots.room[s])
    for u in range(count):
        numbering[search.distinct[u]] = -1
    search.num_distinct, search.tokens_wanted = count, min(_tokens_wanted(most), search.vocab_size)


@inner_kernel
def turn(search):  # type: ignore[no-untyped-def]
    """Make the step read by index the halves that the last step has written, and write the other ones."""
    indexed, side = search.indexed, search.side
    for m in range(search.num_indexed):
        array_at(indexed.read[m], 1, np.int64)[0] = indexed.half[m, side]
        array_at(indexed.written[m], 1, np.int64)[0] = indexed.half[m, 1 - side]
    search.side = 1 - side


@inner_kernel
def gather(search):  # type: ignore[no-untyped-def]
    """Copy the inputs and states that the step reads directly into one row for each hypothesis."""
    gathered, rows = search.gathered, search.rows
    for m in range(search.num_gathered):
        size = gathered.num_bytes[m]
        for r in range(search.num_rows):
            place = rows.word[r] if gathered.by_word[m] != 0 else rows.parent[r]
            copy_bytes(gathered.target[m] + r * size, gathered.source[m] + place * size, size)


_embedding_at, _output_at = EMBEDDING.reader(), OUTPUT.reader()


@inner_kernel
def _step_parts(search):  # type: ignore[no-untyped-def]
    """Return the parts of a step, each with the number of rows it computes."""
    inputs, states, step = step_part_at(search.inputs), step_part_at(search.states), step_part_at(search.step)
    return (inputs, search.num_distinct), (states, search.num_parents), (step, search.num_rows)


@inner_kernel
def _prepare_step(search):  # type: ignore[no-untyped-def]
    """Compute the inputs of the next step, and set the number of rows of everything it computes."""
    number_tokens(search)
    _embedding_at(search.embedding_table).rows = search.num_distinct
    call_task(search.embedding_code, 0, 1, search.embedding_table)
    gather(search)
    turn(search)
    for one, rows in _step_parts(search):
        if one.code != 0:
            resize_table(one.table, one.divisions, rows)
    output = _output_at(search.output_table)
    output.rows, output.places = search.num_rows, search.tokens_wanted
    output.first_token = search.first_token
    output.y_address = search.outputs + search.num_rows * search.output_step


@inner_kernel
def _run_part(one, rows, part, parts):  # type: ignore[no-untyped-def]
    """Run this thread's share of one part of the step, if it has anything to compute."""
    if one.code != 0:
        run_share(one.code, part, parts, one.divisions[rows, 1], one.table)


@inner_kernel
def _wait_for_all(table, part, parts, goal):  # type: ignore[no-untyped-def]
    """Wait for all threads; return the goal of the next barrier."""
    if parts > 1:
        barrier_wait(table, part, parts, goal)
    return goal + parts


@family
def search_task(number: np.dtype) -> Any:
    """Return the task of a whole search with scores of this dtype."""
    search_at = SEARCH.reader(F=number)

    def beam_loop(part, parts, table):  # type: ignore[no-untyped-def]
        """Search until the status says to leave the loop. Every thread runs this function with its own part."""
        search, last, goal, stepped = search_at(table), part == parts - 1, parts, False
        while True:
            if last:
                if stepped:
                    choose(search)
                    keep(search, prune_beam(search))
                extend(search)
                search.status = next_status(search)
                if search.status == Status.GO:
                    search.budget -= 1
                    _prepare_step(search)
            stepped = True
            goal = _wait_for_all(table, part, parts, goal)
            if search.status != Status.GO:
                break
            inputs, states, step = _step_parts(search)
            _run_part(inputs[0], inputs[1], part, parts)
            _run_part(states[0], states[1], part, parts)
            goal = _wait_for_all(table, part, parts, goal)
            _run_part(step[0], step[1], part, parts)
            goal = _wait_for_all(table, part, parts, goal)
            if last:
                # Leave the tables with their barriers reset, as the next run of each task requires.
                for one, rows in (inputs, states, step):
                    if one.code != 0:
                        barrier_reset(one.table, one.divisions[rows, 1])
            run_share(search.output_code, part, parts, search.output_parts, search.output_table)
            goal = _wait_for_all(table, part, parts, goal)
            if last:
                barrier_reset(search.output_table, search.output_parts)

    return task(beam_loop)
