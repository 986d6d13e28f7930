"""Numbers that affect a GPU's speed and memory, never results. No script of benchmarks/ compares both sides of them:
they are estimates.

Those determined by a kernel's registers or shared memory are next to that kernel.
"""

BLOCK_ROWS = 1 << 15
"""Rows, in all steps, of a block of time: enough for products at full speed, few enough for memory not to grow
with T."""

GATHER_BELOW = 0.75
"""Share of active rows below which gathering them costs less than a product of all rows."""

FULL_STEPS_ABOVE = 0.75
"""Share of active rows above which every step of a loop is launched for all rows, so that its recording serves all
lengths: training's batches, which are of sentences of like lengths."""

KEPT_INDICES = 512
"""Integer arrays cached on the GPU, since the same lengths occur in every layer and direction."""

KEPT_VIEWS = 512
"""Cached arrays of reused memory, by shape."""

MOST_RECORDED = 4096
"""Maximum number of cached recordings, and of remembered keys, which are recorded when they occur again. Ten
epochs of Multi30k by 2,048 tokens are 2,036 batches of 454 sizes (T, B, S), with eleven recordings each, two of which
are of loops."""

MOST_PASSES = 512
"""The same for whole passes of a model, each of which is as large as some ten of those."""

ROW_THREADS = 256
"""Threads of a block of row work, at most."""

SHARED_ROW_THREADS = 128
"""The limit above, for a block that shares its row with others."""
