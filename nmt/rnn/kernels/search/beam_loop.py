"""Beam search as one compiled loop: the decoder's step, the output layer and the choice of continuations, all without
the interpreter.

Threads share the step and the output layer; the thread with the highest number does the rest alone (see beam_steps.py).
"""

from typing import Any

import numpy as np

from nmt.rnn.kernels.loops.run_cpu import resize_table
from nmt.rnn.kernels.machine_code.jit import inner_kernel, task
from nmt.rnn.kernels.machine_code.recipes import family
from nmt.rnn.kernels.model.update import EMBEDDING
from nmt.rnn.kernels.search.beam_steps import (
    choose,
    extend,
    gather,
    keep,
    next_status,
    number_tokens,
    prune_beam,
    step_part_at,
    turn,
)
from nmt.rnn.kernels.search.beam_table import SEARCH, Status
from nmt.rnn.kernels.search.best_tokens import OUTPUT
from nmt.rnn.kernels.threads.atomics import barrier_reset, barrier_wait
from nmt.rnn.kernels.threads.pool import run_share
from nmt.rnn.kernels.threads.workers import call_task

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
