"""The number of threads that can compute at once: the cores this process may use, and the CPU quota it is granted."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

_PROCESS, _MOUNTED = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def default_threads() -> int:
    """Return the number of cores this process may use: those of its affinity, at most a container's CPU quota. It is
    read at each call, since both may change while a process runs; that takes some tens of microseconds."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    elif sys.platform == "win32":
        import psutil

        cores = len(psutil.Process().cpu_affinity())
    else:
        cores = os.cpu_count() or 1
    quota = granted_cores()
    return max(1, cores if quota is None else min(cores, quota))


def usable_threads(wanted: int | None) -> int:
    """Return `wanted` threads, or all where None, but at most the number of cores. More threads would only take turns.
    Their number changes no result but the last bits of the gradient norm."""
    cores = default_threads()
    return cores if wanted is None else max(1, min(wanted, cores))


def granted_cores(process: Path = _PROCESS, mounted: Path = _MOUNTED) -> int | None:
    """Return the tightest CPU quota of the process's control groups in cores, rounded up; None without one. Both Linux
    interfaces are read: `cpu.max` (version 2), `cpu.cfs_quota_us` and `cpu.cfs_period_us` (version 1)."""
    quotas = [cores for folder in _control_groups(process, mounted) if (cores := _quota(folder)) is not None]
    return min(quotas, default=None)


def _control_groups(process: Path, mounted: Path) -> Iterator[Path]:
    """Yield the process's control groups for the CPU, and the groups that contain them."""
    try:
        lines = process.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = mounted / controllers if controllers else mounted
        inside = Path(path.lstrip("/"))
        # A container may see its own group as the root, whatever path the kernel reports.
        yield from dict.fromkeys([root / inside, *(root / parent for parent in inside.parents), root])


def _quota(folder: Path) -> int | None:
    """Return the CPU quota in a control group's files in cores, rounded up; None without a limit or a readable file."""
    try:
        if (folder / "cpu.max").exists():
            given, period = (folder / "cpu.max").read_text().split()[:2]
        else:
            given = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        if given == "max" or int(given) <= 0 or int(period) <= 0:
            return None
        return max(1, -(-int(given) // int(period)))
    except (OSError, ValueError):
        return None
