"""CUDA kernels on the CPU, as they stand: every thread is a greenlet, blocks wait for one another, and the order in
which threads run is drawn at random.

What it finds: an index outside an array (negative ones too), reads of shared or local memory never written, shared
memory written and read by two threads with no barrier between (whatever the order was), threads that wait for ever at
a barrier or for a word in memory, and any wrong number that follows from an order of threads that a barrier or a wait
should have forbidden. What it does not model: caches (a write is seen by all at once), registers and memory running
out, and time.
"""

from tests.cuda_emulator.memory import EmulationError
from tests.cuda_emulator.runtime import EmulatedRuntime

__all__ = ["EmulatedRuntime", "EmulationError"]
