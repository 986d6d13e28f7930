"""Makes the packs of a wheel: `python -m nmt.precompile make FOLDER [LEVEL ...]`, or `make-windows` for Windows."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

from nmt.precompile.jobs import compile_here, make_packs, pack_here, recipes_of, standard_jobs
from nmt.rnn.kernels.machine_code.features import LEVELS


def main(*args: str) -> None:
    """Run `make` or `make-windows`; or, in a process that one of them starts, what standard input says."""
    if not args:
        work, *given = json.load(sys.stdin)
        compile_here(given) if work == "compile" else pack_here(Path(given[0]), given[1:])
    else:
        work, folder, *levels = args
        notify = partial(print, file=sys.stderr, flush=True)
        recipes, elsewhere = recipes_of(standard_jobs(), notify), "windows" if work == "make-windows" else "1"
        make_packs(recipes, Path(folder), levels or tuple(LEVELS), notify, elsewhere)


if __name__ == "__main__":
    main(*sys.argv[1:])
