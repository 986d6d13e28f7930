"""How fast does a library of `nmt-export --to c` translate, compared with Python on the same machine?

Both translate all lines of a text in one call with one thread, at the level of processors that NMT_CPU names, or each
at its best one. The two take turns; each figure is milliseconds by the clock, the least and the median of the turns,
and how many times as fast the library is. `load` is from the path to the loaded model, `first` the first line after it,
without other lines. That the translations are the same is checked by tests/exporting/c.

Run: python benchmarks/c_library.py MODEL TEXT [--turns 7] [--compute-dtype float32|int8]
A C compiler must be installed; the first run compiles for all levels.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from _machine import describe

from nmt import Translator

_DRIVER = Path(__file__).parents[1] / "tests" / "exporting" / "c" / "driver.c"


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--compute-dtype", choices=["float32", "int8"], default="int8")
    options = parser.parse_args()
    level = os.environ.get("NMT_CPU", "")
    raw = options.text.read_bytes()
    lines = raw.decode().split("\n")[:-1]
    translator = Translator.load(options.model, threads=1, compute_dtype=options.compute_dtype)
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "out"
        export = [sys.executable, "-m", "nmt", "export", options.model, "--to", "c", "-o", str(out)]
        subprocess.run([*export, "--compute-dtype", options.compute_dtype], check=True)
        build = ["cc", "-O2", "-pthread", f"-I{out}", str(_DRIVER), str(out / "libtranslator.a"), "-lm"]
        subprocess.run([*build, "-o", str(out / "driver")], check=True)
        print(describe(1))
        print(f"{options.compute_dtype}, {level or 'best level'}, {len(lines)} lines")
        for beam_size in (1, 5):
            driver = [str(out / "driver"), str(out / "model.bin"), level, str(beam_size), "1", "1", "1"]
            translator.translate(lines[:50], beam_size=beam_size)
            python, library, load, first = list[float](), list[float](), list[float](), list[float]()
            for _ in range(options.turns):
                start = time.perf_counter()
                translator.translate(lines, beam_size=beam_size)
                python.append(1e3 * (time.perf_counter() - start))
                done = subprocess.run(driver, input=raw, stdout=subprocess.PIPE, check=True).stdout.split()
                for into, number in zip((load, first, library), done[1:], strict=True):
                    into.append(float(number))
            for label, of in (("least", min), ("median", median)):
                ours, theirs = of(library), of(python)
                print(f"beam {beam_size}, {label}: Python {theirs:.0f} ms, C {ours:.0f} ms, {theirs / ours:.2f} times")
                print(f"    load {of(load):.1f} ms, first line {of(first):.1f} ms")


if __name__ == "__main__":
    main()
