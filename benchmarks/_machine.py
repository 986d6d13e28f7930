"""What a benchmark's figures belong to."""

import os
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path

from nmt.rnn.kernels.machine_code.features import TARGET


def cpu_name() -> str:
    """The processor's name, as reported by the system."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def describe(threads: int) -> dict[str, str | int]:
    """CPU, date, threads and versions, for a table's head and its JSON."""
    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count() or 1,
        "target": TARGET.name,
        "threads": threads,
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "numba": version("numba"),
        "numpy": version("numpy"),
    }
