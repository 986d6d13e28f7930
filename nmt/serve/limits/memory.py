"""Control how the process keeps memory that it has used."""

from __future__ import annotations

import ctypes
import gc


def keep_for_good() -> None:
    """Freeze all live objects (gc.freeze), so that the garbage collector no longer scans modules and models, which
    takes about 40 ms each time. Objects frozen earlier that are no longer used are freed first."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def give_back() -> None:
    """Return free heap memory to the system, if the C library supports it (malloc_trim of glibc)."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
