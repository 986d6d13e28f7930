"""Makes the packs of a wheel: `python -m nmt.precompile make FOLDER [LEVEL ...]`, or `make-windows` for Windows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from nmt.precompile.jobs import compile_here, make_packs, pack_here, recipes_of, standard_jobs
from nmt.rnn.kernels.machine_code.features import LEVELS


def _print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(work: str, *args: str) -> None:
    """Run a command: `make` and `make-windows` for users; the others are run by `make` in separate processes."""
    if work == "compile":
        compile_here(json.load(sys.stdin))
    elif work == "pack":
        path, *recipes = json.load(sys.stdin)
        pack_here(Path(path), recipes)
    else:
        folder, *levels = args
        recipes, elsewhere = recipes_of(standard_jobs(), _print_line), "windows" if work == "make-windows" else "1"
        make_packs(recipes, Path(folder), levels or tuple(LEVELS), _print_line, elsewhere)


if __name__ == "__main__":
    main(*sys.argv[1:])
