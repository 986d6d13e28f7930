"""How the process keeps memory that it has used and may use again."""

from __future__ import annotations

import ctypes
import gc


def keep_for_good() -> None:
    """What lives now will live on: the collector of cycles no longer looks through modules and models (some 40 ms each
    time). What was kept so before and is no longer needed is freed first."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def give_back() -> None:
    """Free memory in the middle of the heap goes back to the system, where the C library can do that (glibc)."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
