"""Numbers that decide how a GPU does its work, never what comes out. No script of benchmarks/ compares what lies on
both sides of them: they are estimates.

Those that a kernel's registers or shared memory fix stand beside that kernel.
"""

BLOCK_ROWS = 1 << 15
"""Rows, of all steps together, of a block of time: enough for products at full speed, few enough for memory not to grow
with T."""

GATHER_BELOW = 0.75
"""Share of rows below which copying those that take part costs less than a product of all."""

KEPT_INDICES = 512
"""Arrays of whole numbers that stay on the GPU, for the same lengths come again in every layer and direction."""

MOST_RECORDED = 128
"""Recordings that are kept, and keys that are remembered in case they come again."""

ROW_THREADS = 256
"""Threads of a block of row work, at most."""

SHARED_ROW_THREADS = 128
"""The same of a block that shares its row with others."""
