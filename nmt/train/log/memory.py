"""Memory of this process and of the machine, in bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


def resident_bytes() -> int:
    """Return the resident memory of the process."""
    resident: int = psutil.Process().memory_info().rss
    return resident


def peak_bytes() -> int:
    """Return the peak resident memory since `reset_peak`, or since the process started if that had no effect."""
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    if sys.platform == "win32":
        peak: int = psutil.Process().memory_info().peak_wset
        return peak
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def reset_peak() -> bool:
    """Reset the peak; return whether the system supports that (Linux: proc(5), clear_refs)."""
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def format_bytes(size: float) -> str:
    """Return a size in a suitable unit: `1.42 GiB`, `37.5 MiB` or `12 KiB`."""
    if size >= 1 << 30:
        return f"{size / (1 << 30):.2f} GiB"
    if size >= 1 << 20:
        return f"{size / (1 << 20):.1f} MiB"
    return f"{size / (1 << 10):.0f} KiB"
