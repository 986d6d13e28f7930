"""Compile the step of a cell for one level of processors, in a process of its own: `python -m
nmt.exporting.c.cell_level`.

It reads JSON: the source of the step, its name, and a folder, which gets the object files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from nmt.exporting.elsewhere import write_objects


def _write(asked: dict[str, Any]) -> dict[str, Any]:
    """Write the objects; return the names of their symbols in the library, and the width of a panel of weights."""
    from nmt.rnn.kernels.loops import loop_code  # noqa: F401 - it has the functions that steps call
    from nmt.rnn.kernels.machine_code.features import TARGET
    from nmt.rnn.kernels.machine_code.generated import generated_loop

    step = generated_loop(asked["source"], asked["name"])
    names = write_objects([step], TARGET.name, {step.entry: "nmt_step"}, Path(asked["folder"]))
    return {"names": names, "panel_width": TARGET.panel_width(np.float32)}


if __name__ == "__main__":
    json.dump(_write(json.load(sys.stdin)), sys.stdout)
