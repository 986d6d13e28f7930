"""How the process keeps memory that it has used and may use again."""

from __future__ import annotations

import ctypes
import gc
import sys

# Numbers of malloc.h (glibc), and what they are set to.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_TRIM_BYTES = 4 * 2**20
_MMAP_BYTES = 2**20


def keep_little() -> None:
    """Have freed memory go back to the system. To be called before there are threads.

    By its own rules glibc gives every thread that allocates a heap of its own, from which what is free in the middle is
    never returned, and raises the size from which blocks are mapped by themselves, up to 32 MiB, as such blocks are
    freed. What searches free then lies scattered over as many heaps as there are threads: a third of a server's memory.
    The interpreter lets one thread allocate at a time anyway, so one heap is no bottleneck. Fixing a threshold ends the
    raising (mallopt(3)). Does nothing where the C library has no such function.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    for which, value in ((_ARENA_MAX, 1), (_TRIM_THRESHOLD, _TRIM_BYTES), (_MMAP_THRESHOLD, _MMAP_BYTES)):
        mallopt(which, value)


def keep_for_good() -> None:
    """What lives now will live on: the collector of cycles no longer looks through modules and models (some 40 ms each
    time). What was kept so before and is no longer needed is freed first."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
