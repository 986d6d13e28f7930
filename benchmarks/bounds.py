"""How much could be gained by decoding from both ends, and by verifying drafts? Upper bounds from measured shares.

    python benchmarks/bounds.py MODEL LINES [--compute-dtype int8] [--shortlist]

Both ways save steps or rows of an attention decoder and nothing else, so what they may save at most follows from two
measurements on one thread: the shares of a translation's time (`_search_share.py`), and the time of the output layer's
product by its number of rows (the same sentence that many times in a batch, greedily).

Decoding from both ends (Zhang et al. 2020) halves the steps of the cell; each word still needs its distribution, but a
step has twice the rows. Draft and verify: a step of the cell for each word as before, the output layer once for several
words. The bound takes a draft that costs nothing and is always right; the second figure one that is right for 90 % of
the words, with the best number of words for each pass.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from nmt import Translator
from nmt.decode import search
from nmt.inference.pipeline import source_ids
from nmt.rnn.profile import recording

_ROWS = (1, 2, 4, 5, 8, 10)


def shares(given: argparse.Namespace, beam: int, batch: int, path: Path) -> dict[str, float]:
    """Shares of a translation's time, by a process that measures them."""
    script = str(Path(__file__).parent / "_search_share.py")
    kind = [given.model, given.compute_dtype, str(int(given.shortlist)), str(beam), str(batch), str(path)]
    ran = subprocess.run([sys.executable, script, *kind], check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(ran.stdout)
    return found


def output_seconds(given: argparse.Namespace, lines: list[str]) -> dict[int, float]:
    """Seconds of the output layer for one step of so many rows, the least of three."""
    translator = Translator.load(given.model, threads=1, compute_dtype=given.compute_dtype)
    shortlist = translator.shortlist if given.shortlist else None
    ids = source_ids(translator, lines)
    found: dict[int, float] = {}
    for _ in range(3):
        for rows in _ROWS:
            steps = 0
            with recording() as profile:
                for one in ids:
                    best = search(translator.model, [one] * rows, beam_size=1, threads=1, shortlist=shortlist)
                    steps += len(best[0][0].ids) + 1
            seconds = sum(one.seconds for name, one in profile.operations.items() if name.startswith("output"))
            found[rows] = min(found.get(rows, seconds / steps), seconds / steps)
    return found


def main() -> None:
    """Print a table of bounds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("lines", type=Path)
    parser.add_argument("--compute-dtype", default="int8")
    parser.add_argument("--shortlist", action="store_true")
    given = parser.parse_args()
    lines = given.lines.read_text("utf-8").splitlines()
    times = output_seconds(given, lines[:100])
    print("rows: microseconds of the output layer: " + ", ".join(f"{n}: {1e6 * s:.0f}" for n, s in times.items()))
    with tempfile.TemporaryDirectory() as scratch:
        few = Path(scratch) / "few"
        few.write_text("".join(f"{line}\n" for line in lines[:300]), "utf-8")
        cases = [(5, 64, given.lines, 1.0), (5, 1, few, times[10] / times[5] / 2)]
        for beam, batch, path, again in [*cases, (1, 1, few, times[2] / times[1] / 2)]:
            part = shares(given, beam, batch, path)
            step, output = part["cell"] + part["choice"], part["output"]
            bound = 1 / (1 - step / 2 - output * (1 - again))
            print(f"beam {beam}, batch {batch}: cell {step:.0%}, output {output:.0%}; from both ends {bound:.2f}")
    ideal = 1 / (1 - output * (1 - times[8] / times[1] / 8))
    words = {n: (1 - 0.9**n) / 0.1 for n in _ROWS}  # accepted in a pass that checks n
    passes = [n * step / w + output * times[n] / times[1] / w for n, w in words.items()]
    print(f"draft and verify, greedy: {ideal:.2f}; 90 % right {1 / (1 - step - output + min(passes)):.2f}")


if __name__ == "__main__":
    main()
