"""A description of the machine that a run was made on."""

from __future__ import annotations

import platform
from pathlib import Path

from nmt.rnn.cores import default_threads


def machine() -> dict[str, str | int]:
    """Return processor, cores and threads, system and versions: what a reader needs to judge a speed."""
    import numpy as np

    import nmt

    return {
        "processor": _processor(),
        "cores": default_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "nmt": nmt.__version__,
    }


def _processor() -> str:
    """Return the model name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
