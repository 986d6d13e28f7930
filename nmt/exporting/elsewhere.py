"""Compile the functions of a model for a level of processors that this process does not run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.system.files import write_bytes
from nmt.system.terminal import is_live

if TYPE_CHECKING:
    from nmt.rnn.kernels.machine_code.native import Native
    from nmt.rnn.kernels.machine_code.store import Record


def run_for_level(module: str, level: str, asked: Any, elsewhere: str = "1") -> bytes:
    """Return the output of a module that gets JSON and compiles for a level; `elsewhere`: see features.py."""
    chosen = {"NMT_CPU": level, "NMT_CPU_UNCHECKED": elsewhere}
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(asked).encode(),
        stdout=subprocess.PIPE,
        env=os.environ | chosen | {"NMT_SHIPPED_CODE": "0"},
        # Ctrl-C reaches this process alone, which then ends the other one; only its main thread hears of it.
        start_new_session=threading.current_thread() is threading.main_thread(),
        check=True,
    )
    return done.stdout


def compiled(natives: Sequence[Native], goal: str) -> dict[str, tuple[Record, str | None]]:
    """Return the machine code of functions and of all that they call: by the names of their entries, in order, with the
    symbols by which others call them. Progress is shown on a terminal; `goal` says what is compiled for."""
    from nmt.rnn.kernels.machine_code.native import called_by

    found: dict[str, tuple[Record, str | None]] = {}
    waiting = list(natives)
    shown = is_live(sys.stderr)
    while waiting:
        native = waiting.pop()
        if native.entry not in found:
            record = native.made()
            found[native.entry] = record, native.symbol
            waiting += called_by(record)
            if shown:
                print(f"\rcompiling for {goal}: {len(found)} functions", end="", file=sys.stderr, flush=True)
    if shown:
        print(file=sys.stderr)
    return dict(sorted(found.items()))


def write_objects(natives: Sequence[Native], goal: str, named: dict[str, str], folder: Path) -> dict[str, str]:
    """Write object files of functions and of all that they call to a folder; return the symbols that these define, each
    with its name in a library: that in `named`, or that by which other objects call it, if there is one."""
    names = {}
    for number, (entry, (record, symbol)) in enumerate(compiled(natives, goal).items()):
        names[entry] = named.get(entry) or symbol or f"nmt_called_{number}"
        write_bytes(folder / f"{number}.o", record.code)
    return names
