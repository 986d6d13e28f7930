"""What the tests of this folder run on: the emulator, or the machine's card where NMT_TEST_DEVICE is `cuda`."""

import os
from functools import lru_cache

ON_CARD = os.environ.get("NMT_TEST_DEVICE") == "cuda"


@lru_cache(maxsize=1)
def _card():
    from nmt.rnn.kernels.cuda.runtime import CupyRuntime

    return CupyRuntime()


def runtime_with(multiprocessors=None, seed=None):
    """A runtime; the emulator with this many multiprocessors, in the order of `seed`."""
    if ON_CARD:
        return _card()
    from tests.cuda_emulator import EmulatedRuntime

    runtime = EmulatedRuntime(seed)
    if multiprocessors:
        runtime.multiprocessors = multiprocessors
    return runtime
