"""Wait for what another thread or process does."""

import threading
import time
from contextlib import contextmanager


def until(holds, seconds=30):
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def beside(*calls, seconds=None):
    """Make calls in threads of their own while the block runs, and wait for them, each for so many seconds at most."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(seconds)


def at_once(*calls, seconds=None):
    """Make calls in threads of their own, and wait for them."""
    with beside(*calls, seconds=seconds):
        pass
