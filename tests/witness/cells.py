"""Check cells of random expressions: their programs compute what the interpreter does (tests/rnn/random_cells.py).
A seed is two cells: one whose features are one axis, and one with named axes.

    python -m tests.witness.cells --first 1000 --count 500       # 1,000 cells, from seed 1000 on

Blocks of seeds run in processes of their own, in turn at each level of NMT_CPU that this machine has. A seed that fails
is printed with its error and its cell; the same seed gives the same cell.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import traceback

BLOCK = 20
"""Seeds of one process: what is compiled stays in memory."""
LEVELS = "", "avx2", "generic"
"""Values of NMT_CPU; the first is the level of the machine."""


def check_block(first: int, count: int) -> bool:
    """Check cells of consecutive seeds; print those that fail. Return whether all are right."""
    from tests.rnn.random_cells import check, random_axes_cell, random_cell

    right = True
    for seed in range(first, first + count):
        try:
            for draw in (random_cell, random_axes_cell):
                check(draw(seed))
        except Exception:  # whatever it is, it is reported, and the next cell is checked
            right = False
            print(f"seed {seed}, NMT_CPU={os.environ.get('NMT_CPU', '')}:\n{traceback.format_exc()}", flush=True)
    return right


def main() -> None:
    """Check the cells of consecutive seeds; exit with 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--first", type=int, default=1000, help="seed of the first cell")
    parser.add_argument("--count", type=int, default=200, help="number of seeds")
    parser.add_argument("--block", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.block:
        sys.exit(not check_block(given.first, given.count))
    began, failed = time.monotonic(), 0
    for number, first in enumerate(range(given.first, given.first + given.count, BLOCK)):
        count = min(BLOCK, given.first + given.count - first)
        level = LEVELS[number % len(LEVELS)]
        words = [sys.executable, "-m", "tests.witness.cells", "--block", "--first", str(first), "--count", str(count)]
        failed += subprocess.run(words, env={**os.environ, "NMT_CPU": level}).returncode != 0
        done, seconds = first + count - given.first, time.monotonic() - began
        left = seconds / done * (given.count - done)
        print(f"{done} of {given.count} seeds, {failed} blocks failed, {left:.0f} s left", file=sys.stderr, flush=True)
    print(f"cells: {2 * given.count} from seed {given.first}, {failed} blocks failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
