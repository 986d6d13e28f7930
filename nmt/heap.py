"""How the C library keeps memory that was freed."""

from __future__ import annotations

import ctypes
import sys

# Numbers of malloc.h (glibc), and what they are set to.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_TRIM_BYTES = 4 * 2**20
_MMAP_BYTES = 2**20


def keep_little() -> None:
    """Have freed memory go back to the system. To be called before there are threads.

    By its own rules glibc raises the size from which blocks are mapped by themselves, up to 32 MiB, as such blocks are
    freed; later ones then come from a heap, from which what is free in the middle is never returned. And it gives every
    thread that allocates a heap of its own. A training of short sentences held a quarter more than its arrays, a server
    a third. Fixing a threshold ends the raising (mallopt(3)), which costs a training no time that can be measured.
    The interpreter lets one thread allocate at a time anyway, so one heap is no bottleneck. Does nothing where the C
    library has no such function.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    for which, value in ((_ARENA_MAX, 1), (_TRIM_THRESHOLD, _TRIM_BYTES), (_MMAP_THRESHOLD, _MMAP_BYTES)):
        mallopt(which, value)
