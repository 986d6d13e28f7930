"""The memory of the compiled beam search.

Rows are hypotheses in the beam. Those of one sentence are adjacent, the best one first. A sentence occupies a slot
while it is being translated. Sentences with rows are `live`, in the order of their rows.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from nmt.rnn.kernels.memory.table_layout import TableLayout, arrays, constants, group, numbers, reals


class Status(IntEnum):
    """Status of the loop. GO: it runs. The others are reasons to leave it. DONE: no rows are left. WANTS_MORE: a
    sentence has ended and no other one waits. WANTS_READING: all slots are in use or have translations that are not
    read yet. WANTS_WIDTH: a hypothesis outgrows its memory. PAUSED: the requested number of steps is done.
    WANTS_MEMORY: a program needs more, and has done nothing."""

    GO, DONE, WANTS_MORE, WANTS_READING, WANTS_WIDTH, PAUSED, WANTS_MEMORY = range(7)


PARTS = ("inputs", "states", "step")
"""Parts of a step, each a table of STEP_PART."""

_ROWS = ("room",)
_SLOTS = ("num_slots",)
_HYPOTHESES = ("num_slots", "beam_size")
_WAITING = ("num_waiting",)

RULES = (
    *arrays(np.int64, (None,), "rule_numbers", "prefix_starts"),
    *arrays(np.float64, (None,), "rule_reals"),
    *arrays(np.int32, (None,), "rule_lists", "prefixes"),
)
"""Fields of the rules of a search, which its caller gives, address 0 for none."""

SEARCH = TableLayout(
    "search",
    # Sizes of the memory: rows, slots, tokens of a hypothesis, waiting sentences.
    constants("room", "num_slots", "width", "num_waiting"),
    # Options: the largest number of sentences at a time; those of `beam.BeamCell`; whether more sentences will follow
    # when some have ended.
    constants("size", "beam_size", "n_best", "eos_id", "never", "first_token", "vocab_size", "more"),
    reals("word_reward"),
    # Rules on single tokens: whether there are any; whether tokens are drawn; settings (see token_rules.py). By
    # sentence, where its prefix begins, address 0 if there are none; all prefixes; and the key of its random numbers.
    constants("ruled", "sampling"),
    RULES,
    arrays(np.uint64, (None,), "keys"),
    # State of the search: the status, and the steps that may still be taken; the numbers of rows, of distinct tokens
    # among them and of states they continue; the numbers of sentences in slots, of waiting sentences taken and of live
    # sentences; of free slots, and of slots with ended sentences that are not read yet; which half of `history` is
    # current; how many of the best tokens of each row are wanted; which half of the states read by index is
    # current.
    numbers("status", "budget", "num_rows", "num_distinct", "num_parents", "working", "taken", "num_live"),
    numbers("num_free", "num_ended", "parity", "tokens_wanted", "side"),
    # By row: `sum`, its log-probability; `token`, its last token; `slot`, that of its sentence; `word` and `parent`,
    # its indices among the distinct tokens and among the states; `source`, where the captured arrays of its sentence
    # begin; `list`, its list of candidates; `origin`, the row before the step that it continues. While rows are
    # replaced: `place`, the index of a row's state among those that are continued. With rules: `log_prob`, the sum
    # without them; `sample`, the number of the row among those of its sentence.
    group(
        "rows",
        arrays(np.int64, _ROWS, "token", "slot", "word", "parent", "source", "list", "origin", "place", "sample"),
        arrays(np.float64, _ROWS, "sum", "log_prob"),
    ),
    # The tokens so far, of the rows before and after a step.
    arrays(np.int32, (2, "room", "width"), "history"),
    # The distinct last tokens of the rows; the index of each token among them, -1 for all others.
    arrays(np.int64, _ROWS, "distinct"),
    arrays(np.int64, ("vocab_size",), "numbering"),
    # By live sentence: its first row (followed by the number of rows), its slot, and the width of its beam.
    group("live", arrays(np.int64, (None,), "first_row"), arrays(np.int64, _ROWS, "slot", "room")),
    # The chosen continuations, beam_size for each live sentence, the best first; unused places have row -1.
    group("chosen", arrays(np.int64, _ROWS, "row", "token", "sample"), arrays(np.float64, _ROWS, "sum", "log_prob")),
    # By slot: the sentence, its id in the decoder, its list of candidates; the steps taken and their limit; the width
    # of the beam, the number of ended hypotheses; the score to beat.
    group(
        "slots",
        arrays(np.int64, _SLOTS, "sentence", "sentence_id", "list", "steps", "limit", "room", "num_ended"),
        arrays(np.float64, _SLOTS, "to_beat"),
    ),
    # The free slots, and the slots of ended sentences.
    arrays(np.int64, _SLOTS, "free", "ended"),
    # By slot, its ended hypotheses in the order in which they ended: the number of tokens with EOS; whether EOS is the
    # last.
    group(
        "hypotheses",
        arrays(np.int64, _HYPOTHESES, "steps", "finished"),
        arrays(np.float64, _HYPOTHESES, "sum", "score"),
        arrays(np.int32, (*_HYPOTHESES, "width"), "history"),
    ),
    # The waiting sentences, with the fields of slots, and the token before the first step.
    group("waiting", arrays(np.int64, _WAITING, "sentence", "sentence_id", "list", "limit", "token")),
    # By number of steps: the divisor of a sum (length penalty).
    arrays(np.float64, (None,), "divisors"),
    # The results of the output layer's task, flat: the best tokens of each row, their log-probabilities, and these
    # without rules.
    arrays(np.int32, (None,), "tokens"),
    arrays("F", (None,), "scores", "plain"),
    # Where captured arrays begin, by sentence id from first_id on; num_ids is 0 if the decoder captures nothing.
    constants("num_ids", "first_id"),
    arrays(np.int64, (None,), "starts"),
    # States, by address: `stepped`, those before the step followed by those after it; `waiting`, those of the waiting
    # sentences; `target`, those that rows continue; the bytes of a row.
    constants("num_states"),
    group("continued", arrays(np.int64, (None,), "stepped", "waiting", "target", "num_bytes")),
    # States that the step reads by index, from row origin[r] of one half, and writes to row r of the other one, by
    # address: the halves, of room rows for hypotheses and then one for each sentence that may join; those of the
    # waiting sentences; the bytes of a row; the words in the step's table for the half it reads and that it writes.
    constants("num_indexed"),
    group("indexed", arrays(np.int64, (None, 2), "half"), arrays(np.int64, (None,), "waiting", "num_bytes")),
    group("indexed", arrays(np.int64, (None,), "read", "written")),
    # Arrays that the step reads directly, by address: from, to, bytes of a row; whether rows are taken by `word`, or
    # else by `parent`.
    constants("num_gathered"),
    group("gathered", arrays(np.int64, (None,), "source", "target", "num_bytes", "by_word")),
    # Addresses: of the tables of STEP_PART; of the code and tables of the output layer's and the embedding's tasks.
    constants(*PARTS),
    constants("output_code", "output_table", "output_parts", "embedding_code", "embedding_table"),
    # The outputs begin at address outputs + number of rows * output_step.
    constants("outputs", "output_step"),
)

STEP_PART = TableLayout(
    "step_part",
    # Addresses of its code and table, 0 if there is nothing to compute; the divisions of `loop_tables.divisions`.
    constants("code", "table"),
    arrays(np.int64, (None, 3), "divisions"),
)

_GIVEN = ("waiting", "continued", "indexed", "gathered")
ALLOCATED = [
    field.name
    for field in SEARCH.fields
    if field.kind == "array" and None not in field.shape and field.name.split(".")[0] not in _GIVEN
]
"""Arrays that a search allocates; the others are given to it."""
