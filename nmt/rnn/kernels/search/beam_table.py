"""What the compiled beam search has in memory.

Rows are hypotheses in the beam, neighbours where they are of one sentence, the best one first; a sentence has a slot
while it is in work. Sentences with rows are `live`, one after another as their rows are.
"""

from __future__ import annotations

import numpy as np

from nmt.rnn.kernels.memory.table_layout import TableLayout, arrays, constants, group, numbers, reals

GO, DONE, WANTS_MORE, WANTS_READING, WANTS_WIDTH, PAUSED = range(6)
"""Status: in the loop; why it was left: no row is left; a sentence has ended and no other one waits; all slots are
taken or hold translations that nobody has read; a hypothesis grows beyond the memory for it; so many steps were asked
for."""

TIMES = ("step_time", "output_time", "search_time")
"""Nanoseconds by phase, for a profile."""

RUNS = ("inputs_run", "states_run", "steps_run")
"""Rows of each part of the step, for a profile."""

PARTS = ("inputs", "states", "step")
"""Parts of a step, each a table of STEP_PART."""

_ROWS = ("room",)
_SLOTS = ("num_slots",)
_HYPOTHESES = ("num_slots", "beam_size")
_WAITING = ("num_waiting",)

SEARCH = TableLayout(
    "search",
    # Memory: rows, slots, tokens of a hypothesis; waiting sentences.
    constants("room", "num_slots", "width", "num_waiting"),
    # What is asked for: the most sentences in work, and what `beam.BeamCell` is; whether other sentences would come if
    # some have ended.
    constants("size", "beam_size", "n_best", "eos_id", "never", "first_token", "vocab_size", "more"),
    reals("word_reward"),
    # What happens: why the loop was left, and the steps that may be taken before; rows, distinct tokens among them and
    # states they continue; sentences in work, taken of the waiting ones, and with rows; slots nobody has, and those of
    # ended sentences that nobody has read; which half of `words` is read; the best tokens wanted of each row.
    numbers("status", "budget", "num_rows", "num_words", "num_parents", "working", "taken", "num_live"),
    numbers("num_free", "num_ended", "parity", "tokens_wanted"),
    # By row: the last token, the slot of its sentence, and the sum by which continuations are compared; its place among
    # distinct tokens and among states, where its sentence's captured arrays begin, its list of candidates. While rows
    # are replaced: the row that each continues, and the place of a row's state among those continued.
    group(
        "rows",
        arrays(np.int64, _ROWS, "token", "slot", "word", "parent", "source", "list", "origin", "place"),
        arrays(np.float64, _ROWS, "sum"),
    ),
    # Tokens so far, of rows before and after a step.
    arrays(np.int32, (2, "room", "width"), "words"),
    # Tokens of the rows, each once; the number of each token among them, -1 of all others.
    arrays(np.int64, _ROWS, "distinct"),
    arrays(np.int64, ("vocab_size",), "numbering"),
    # By live sentence: its first row (and behind the last one, the number of rows), its slot, places in its beam.
    group("live", arrays(np.int64, (None,), "first_row"), arrays(np.int64, _ROWS, "slot", "room")),
    # The continuations chosen, beam_size of each live sentence, the best first; row -1 where there are no more.
    group("chosen", arrays(np.int64, _ROWS, "row", "token"), arrays(np.float64, _ROWS, "sum")),
    # By slot: the sentence, its id with the decoder, its list of candidates; steps taken and the most; places in the
    # beam, ended hypotheses; the score to beat, the tokens expected.
    group(
        "slots",
        arrays(np.int64, _SLOTS, "sentence", "sentence_id", "list", "steps", "limit", "room", "num_ended"),
        arrays(np.float64, _SLOTS, "to_beat", "expected"),
    ),
    # Slots that nobody has, and those of ended sentences.
    arrays(np.int64, _SLOTS, "free", "ended"),
    # Of each slot the hypotheses that have ended, in that order: tokens, EOS counted; whether EOS is the last.
    group(
        "hypotheses",
        arrays(np.int64, _HYPOTHESES, "steps", "finished"),
        arrays(np.float64, _HYPOTHESES, "sum", "score"),
        arrays(np.int32, (*_HYPOTHESES, "width"), "words"),
    ),
    # Sentences that wait, as in slots, and the token before the first step.
    group(
        "waiting",
        arrays(np.int64, _WAITING, "sentence", "sentence_id", "list", "limit", "token"),
        arrays(np.float64, _WAITING, "expected"),
    ),
    # By steps: what a sum is divided by.
    arrays(np.float64, (None,), "divisors"),
    # What the output layer's task fills, flat: the best tokens of each row and their log-probabilities.
    arrays(np.int32, (None,), "tokens"),
    arrays("F", (None,), "scores"),
    # Where captured arrays begin, by sentence id from first_id on; no ids where the decoder captures nothing.
    constants("num_ids", "first_id"),
    arrays(np.int64, (None,), "starts"),
    # States, by address: behind the rows before the step, of waiting sentences, what rows continue; bytes of a row.
    constants("num_states"),
    group("continued", arrays(np.int64, (None,), "stepped", "waiting", "target", "num_bytes")),
    # What the step reads itself, by address: from, to, bytes of a row; whether by word, else by parent.
    constants("num_gathered"),
    group("gathered", arrays(np.int64, (None,), "source", "target", "num_bytes", "by_word")),
    # Addresses of tables of STEP_PART; of code and tables of the output layer's task and the embedding's.
    constants(*PARTS),
    constants("output_code", "output_table", "output_parts", "embedding_code", "embedding_table"),
    # Where the outputs of no rows would lie, and how much further for each row.
    constants("outputs", "output_step"),
    # For a profile: whether it is wanted; seconds and nanoseconds of the clock, and the moment of the last look.
    constants("timed"),
    numbers(*TIMES, *RUNS),
    arrays(np.int64, (3,), "moments"),
)

STEP_PART = TableLayout(
    "step_part",
    # Addresses of its code and table, 0 where there is nothing to compute; by rows, see `tables.divisions`.
    constants("code", "table"),
    arrays(np.int64, (None, 3), "divisions"),
)
