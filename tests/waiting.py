"""Wait for what another thread or process does."""

import time


def until(holds, seconds=30):
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)
