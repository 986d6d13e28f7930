"""How fast does a page of `nmt-export --to web` translate, compared with Python on the same machine?

Both translate the lines of a text with one thread: Node runs the page's module of WebAssembly, Python the same model at
the level `generic`, whose vectors have 128 bits as well. The translations must be the same. The two take turns; each
figure is the fastest turn, milliseconds a line of the processor's time, and the ratio of the two. Time is the
processor's because with one thread the clock differs from it by what others do on the same core; that of Node includes
its compilation. `ready` is the time, by the clock, from the package to the first translated line.

Run: python benchmarks/web.py MODEL TEXT [--lines 1000] [--turns 3] [--compute-dtype float32|int8]
Node must be installed; the first run compiles for WebAssembly.
"""

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _machine import describe

import nmt.exporting.web
from nmt.exporting.web.package import make_package

_HOST = Path(nmt.exporting.web.__file__).parent
_NODE = """
import fs from "node:fs";
import { Translator } from "./translator.js";
const [path, lines, beam_size] = JSON.parse(fs.readFileSync("given.json"));
const bytes = new Uint8Array(fs.readFileSync(path));
const began = performance.now(), translator = await Translator.load(bytes);
await translator.translate(lines.slice(0, 1), { beam_size });
const ready = performance.now() - began;
await translator.translate(lines.slice(0, 100), { beam_size });
const start = process.cpuUsage(), found = await translator.translate(lines, { beam_size });
const used = process.cpuUsage(start);
const milliseconds = (used.user + used.system) / 1000 / lines.length;
console.log(JSON.stringify({ milliseconds, ready, texts: found.map(one => one[0].text) }));
"""
_PYTHON = """
import json, sys, time
from nmt import Translator
model, lines, beam_size, compute_dtype = json.load(sys.stdin)
translator = Translator.load(model, threads=1, compute_dtype=compute_dtype)
translator.translate(lines[:100], beam_size=beam_size)
start = time.process_time()
texts = translator.translate(lines, beam_size=beam_size)
print(json.dumps({"milliseconds": (time.process_time() - start) / len(lines) * 1000, "texts": texts}))
"""


def in_node(folder: Path, lines: list[str], beam_size: int) -> dict[str, Any]:
    """Translate with the package in a folder."""
    (folder / "given.json").write_text(json.dumps(["package", lines, beam_size]))
    done = subprocess.run(["node", "run.js"], cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def in_python(model: str, lines: list[str], beam_size: int, compute_dtype: str) -> dict[str, Any]:
    """Translate with the model at the level `generic`."""
    given = json.dumps([model, lines, beam_size, compute_dtype])
    level = os.environ | {"NMT_CPU": "generic"}
    command = [sys.executable, "-c", _PYTHON]
    done = subprocess.run(command, input=given, env=level, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--compute-dtype", choices=["float32", "int8"], default="int8")
    options = parser.parse_args()
    lines = options.text.read_text("utf-8").split("\n")[: options.lines]
    package = make_package(options.model, None, (), options.compute_dtype)
    print(describe(1))
    sizes = f"{len(package):,} bytes, {len(gzip.compress(package)):,} compressed"
    print(f"{options.compute_dtype}, {len(lines)} lines; package {sizes}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in _HOST.glob("*.js"):
            shutil.copy(path, folder)
        (folder / "package.json").write_text('{"type": "module"}')
        (folder / "package").write_bytes(package)
        (folder / "run.js").write_text(_NODE)
        for beam_size in (1, 5):
            found = [
                (in_node(folder, lines, beam_size), in_python(options.model, lines, beam_size, options.compute_dtype))
                for _ in range(options.turns)
            ]
            for ours, expected in found:
                if ours["texts"] != expected["texts"]:
                    raise SystemExit(f"beam {beam_size}: the translations differ")
            node, python = (min(turn[n]["milliseconds"] for turn in found) for n in (0, 1))
            ready = min(turn[0]["ready"] for turn in found)
            times = f"Node {node:.2f} ms, Python {python:.2f} ms, ratio {node / python:.2f}"
            print(f"beam {beam_size}: {times}; ready in {ready:.0f} ms")


if __name__ == "__main__":
    main()
