"""Numbers that affect speed and memory: thresholds, sizes of memory, how often to poll. Results do not depend on them,
except the last bits of the gradient norm, which is summed by thread.

Each names the script of `benchmarks/` that compares both sides of it (if it is gone, with the commit where it was
last), and the machine, or says "not measured": an estimate. Read them as `tuning.NAME`, so that a test can set another
value. Those of a GPU are in kernels/cuda/tuning.py; those that only compiled code reads are next to that code.
"""

from __future__ import annotations

# ------------------------------------------------------------ how threads share a run (rows.py, run_cpu.py)

UNITS_BELOW = {False: 6, True: 16}
"""Rows per thread below which the threads divide hidden units, by whether the weights are large (`LARGE_WEIGHTS`).
12995ccb:benchmarks/schedules.py, two cores of an AMD EPYC (Zen 4), 2026-11-21: results/layers.md, "Rows or units"."""

LARGE_WEIGHTS = 2 << 20
"""Bytes of a loop's weights above which they no longer stay in the second-level cache of one core.
Measured by 12995ccb:benchmarks/schedules.py, as UNITS_BELOW."""

ALONE_BELOW = 1 << 18
"""Below this many multiply-adds of a loop or a product, waking a second thread takes longer than computing on one.
Not measured by a script of benchmarks/; 12995ccb:benchmarks/overhead.py has runs that small."""

ALONE_A_STEP = 3 << 14
"""Multiply-adds of a step below which its barriers cost more than a second thread saves. For two
threads measured by 12995ccb:benchmarks/schedules.py, as UNITS_BELOW; for more it is reasoned (docs/threads.md)."""

CLEAR_ALONE_BELOW = 1 << 16
"""Numbers that one thread can zero before a second one has woken up. Not measured."""

ROW_WORK_ALONE_BELOW = 1 << 15
"""Numbers of an array below which one thread looks up embeddings and updates parameters. Not measured."""

CALLS_WAITING = 512
"""Calls of compiled code that may wait to be run together (pool.in_one_call): several small updates have fewer, and an
interruption waits for no more. Not measured."""

# ------------------------------------------------------------ memory of a run (rows.py, workspace.py)

BLOCK_ROWS = 2048
"""Rows, in all steps, of a block of time: enough for products to run at full speed over them, few enough
for the data between one program and the next to stay in the cache. Memory for that does not grow with T.
Not measured against other numbers; 12995ccb:benchmarks/memory.py shows what memory it leads to."""

CHECKPOINT_STEPS = 16
"""Steps from one checkpoint of states with named axes to the next. The states in between are computed once more, in
memory of one row: 16 of 32,768 numbers are 2 MB. A constant of generated code."""

CHUNK_BYTES = 1 << 22
"""Bytes that a workspace allocates at a time for small arrays. Not measured."""

KEPT_PIECES = 4096
"""Arrays of a workspace on a GPU that are kept for later steps of the same sizes. Not measured."""

SENTENCE_BYTES = 1 << 16
"""Bytes that a sentence's workspace begins with: allocating megabytes takes longer than the work. Not measured."""

KEPT_SOURCE_BYTES = 1 << 25
"""Bytes that a search keeps to encode its next block in: those of 64 captions. Other sizes were not measured."""

# ------------------------------------------------------------ short runs, prepared once (layered.py)

SHORT_ROWS = 128
"""Rows, in all steps, up to which preparing memory and arguments takes longer than copying the numbers, and up to which
sentences of one length are translated by a program. Not measured by a script of benchmarks/;
12995ccb:benchmarks/overhead.py has runs that short."""

LAYER_SIZES = 16
"""Sizes (steps and rows) for which layers keep memory of prepared runs. Not measured."""

SENTENCE_SIZES = 64
"""The limit above, for modules of PyTorch, where every sentence length is one size. Not measured."""

# ------------------------------------------------------------ steps of a search (prepared_step.py, compiled_beam.py)

KEPT_STEP_ROWS = 16
"""Rows up to which a prepared step keeps its memory when its search has ended. Not measured."""

SOURCE_STEP = 32
"""Source positions are prepared for in multiples of this, so that longer sentences rarely need memory. Not measured."""

ROWS_BETWEEN_LOOKS = 4096
"""Rows, in all steps, after which a compiled search lets the interpreter check for cancellation. Not measured."""

FIRST_WIDTH = 64
"""Tokens per hypothesis for which a search allocates memory at first. Not measured."""
