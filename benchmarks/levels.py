"""Is machine code for a level of processors as fast as code for this very processor?

A level is a set of features (nmt/rnn/kernels/machine_code/features.py): its code runs on all processors that have them,
and gives the same bits on all. Code for one processor may use all that it has, and is scheduled for it. Each in a
process of its own does the same: recurrent layers, training steps, translations, with one thread. Results are compared,
then they take turns. Other checkouts can be asked as well.

Time is the processor's, not the clock's: with one thread they differ by what others do on the same core. Each figure is
the time compared with that of code for this processor (1.02: 2 % slower): of the fastest calls, and in brackets the
median over turns. Choices with the same letter give the same bits; the first has "a". At the end of the line stands the
largest relative error of any result.

Run: python benchmarks/levels.py [--quick] [--also NAME=CHECKOUT] [--cases A,B] [--turns N] [--json FILE] The first run
compiles everything once for each choice; NMT_CACHE_DIR keeps it apart from other code.
"""

import argparse
import hashlib
import json
import math
import statistics
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np
from _machine import describe
from _peer import Peer
from llvmlite import binding

from nmt.rnn.cores import default_threads
from nmt.rnn.kernels.machine_code.features import TARGET

_TURN_SECONDS, _WARM_SECONDS = 0.12, 0.08
# Largest ||a - b|| / ||b|| of any result. Loops of other widths add up in another order; of bfloat16 that can move a
# number to the next of 8 bits.
_TOLERANCES = {"float32": 1e-3, "bfloat16": 0.03, "int8": 1e-3}

_HERE = Path(__file__).parent

Variant = tuple[str, dict[str, str]]


class Case(NamedTuple):
    """What `_level_worker.py` is asked for: a kind, its sizes, and whether to train."""

    kind: str
    sizes: tuple[Any, ...]
    mode: str = "inference"

    @property
    def dtype(self) -> str:
        """Of the products."""
        return next(size for size in self.sizes if size in _TOLERANCES)


def _cases() -> dict[str, Case]:
    found = {}
    for short, dtype in (("f4", "float32"), ("bf16", "bfloat16")):
        for cell, T, N, H in (("lstm", 20, 32, 256), ("gru", 20, 32, 256), ("lstm", 20, 1, 256)):
            for mode in ("inference", "training"):
                found[f"{cell}{N}-{mode[:5]}-{short}"] = Case("layer", (cell, T, N, H, dtype), mode)
        for config in ("multi30k_en_de_peers", "quickstart"):
            found[f"step-{'demo' if config == 'quickstart' else 'peers'}-{short}"] = Case("step", (config, dtype))
    for short, dtype in (("f4", "float32"), ("int8", "int8")):
        for model, name, scale in (("quickstart", "demo", 4), ("peers", "peers", 1)):
            found[f"beam5-{name}-{short}"] = Case("search", (model, dtype, 5, 16 * scale, 32))
            found[f"greedy-{name}-{short}"] = Case("search", (model, dtype, 1, 16 * scale, 32))
            found[f"single-{name}-{short}"] = Case("search", (model, dtype, 5, 3 * scale, 1))
    return found


CASES = _cases()
_QUICK_CASES = ("lstm32-train-f4", "step-demo-f4", "step-demo-bf16", "beam5-demo-f4", "beam5-demo-int8")


def variants(also: list[str]) -> list[Variant]:
    """What is compared, first what the others are compared with; `also` are further checkouts, NAME=FOLDER."""
    given = [entry.partition("=") for entry in also]
    checkouts = [(name, {"PYTHONPATH": folder}) for name, _, folder in given]
    return [("processor", {"NMT_CPU": "native"}), ("level", {}), *checkouts]


# ---------------------------------------------------------------- turns


def note(text: str) -> None:
    """A line about what happens, outside the table."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def started(chosen: list[Variant]) -> Iterator[dict[str, Peer]]:
    """A process for each choice."""
    peers: dict[str, Peer] = {}
    try:
        for name, environment in chosen:
            folder = Path(environment["PYTHONPATH"]) / "benchmarks" if "PYTHONPATH" in environment else _HERE
            peers[name] = Peer(sys.executable, str(folder / "_level_worker.py"), 1, environment)
        yield peers
    finally:
        for peer in peers.values():
            peer.close()


def compare(where: str, case: Case, peers: dict[str, Peer]) -> tuple[dict[str, float], dict[str, str]]:
    """The largest relative error of each choice compared with the first, and a letter that choices of the same bits
    share. Exits on a wrong result."""
    results = {name: peer.results("case") for name, peer in peers.items()}
    first = next(iter(results))
    worst = {name: 0.0 for name in results}
    for name, found in results.items():
        for key, expected in results[first].items():
            if found[key].shape != expected.shape:
                raise SystemExit(f"{where}: {key} of {name} must be {expected.shape}, got {found[key].shape}")
            error = float(np.linalg.norm(found[key] - expected) / max(float(np.linalg.norm(expected)), 1e-30))
            if not error < _TOLERANCES[case.dtype]:
                raise SystemExit(f"{where}: {key} of {name} must agree with {first}, got an error of {error:.1e}")
            worst[name] = max(worst[name], error)
    letters: dict[bytes, str] = {}
    same = {}
    for name, found in results.items():
        digest = hashlib.sha256(b"".join(found[key].tobytes() for key in sorted(found))).digest()
        same[name] = letters.setdefault(digest, ascii_lowercase[len(letters)])
    return worst, same


def take_turns(case: Case, peers: dict[str, Peer], turns: int) -> dict[str, list[float]]:
    """Processor seconds of the fastest call of each choice in each turn. Every other turn goes backwards, so that
    none always follows the same one."""
    mode = case.mode

    def seconds(peer: Peer, count: int) -> list[float]:
        each: list[float] = peer.ask(op="time", name="case", mode=mode, count=count)["each"]
        return each

    call = min(min(seconds(peer, 3)) for peer in peers.values())
    warm, count = math.ceil(_WARM_SECONDS / call), max(2, math.ceil(_TURN_SECONDS / call))
    times: dict[str, list[float]] = {name: [] for name in peers}
    for turn in range(turns):
        for name in sorted(peers, key=list(peers).index, reverse=turn % 2 == 1):
            times[name].append(min(seconds(peers[name], warm + count)[warm:]))
    return times


def run_case(name: str, peers: dict[str, Peer], turns: int) -> dict[str, Any]:
    """Check, time and print one case."""
    case = CASES[name]

    def load(peer: Peer) -> None:
        peer.load("case", {"kind": case.kind, "sizes": case.sizes}, {})

    with ThreadPoolExecutor(default_threads()) as pool:
        list(pool.map(load, peers.values()))
    errors, same = compare(name, case, peers)
    times = take_turns(case, peers, turns)
    for peer in peers.values():
        peer.ask(op="drop")
    base = next(iter(peers))
    record: dict[str, Any] = {
        "case": name,
        "seconds": times,
        "errors": errors,
        "bits": same,
        "ratios": {},
        "medians": {},
    }
    cells = []
    for choice, taken in times.items():
        record["ratios"][choice] = min(taken) / min(times[base])
        pairs = zip(taken, times[base], strict=True)
        record["medians"][choice] = statistics.median(one / other for one, other in pairs)
        cells.append(f"{record['ratios'][choice]:6.3f} ({record['medians'][choice]:5.3f}) {same[choice]}")
    error = max(errors.values())
    print(f"{name:22s} {1000 * min(times[base]):9.3f} " + " ".join(cells[1:]) + f" {error:7.0e}", flush=True)
    return record


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--also", action="append", default=[], metavar="NAME=CHECKOUT", help="another version")
    parser.add_argument("--cases", help=f"beginnings of names among {','.join(CASES)}")
    parser.add_argument("--turns", type=int, help="of each choice (9; 5 with --quick)")
    parser.add_argument("--quick", action="store_true", help="fewer cases and turns")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    args = parser.parse_args()
    args.turns = args.turns or (5 if args.quick else 9)
    if args.cases:
        args.cases = [name for name in CASES if name.startswith(tuple(args.cases.split(",")))]
    else:
        args.cases = list(_QUICK_CASES if args.quick else CASES)
    return args


def main() -> None:
    """A table."""
    args = arguments()
    print(", ".join(f"{name} {value}" for name, value in describe(1).items()))
    version, own_name = ".".join(map(str, binding.llvm_version_info)), binding.get_host_cpu_name()
    print(f"LLVM {version}, its name of this processor {own_name}")
    records = []
    chosen = variants(args.also)
    with started(chosen) as peers:
        print(
            f"\n{TARGET.name}\n{'case':22s} {'ms':>9s} " + " ".join(f"{name:>16s}" for name, _ in chosen[1:]),
            flush=True,
        )
        for name in args.cases:
            note(name)
            records.append({"level": TARGET.name} | run_case(name, peers, args.turns))
    if args.json:
        args.json.write_text(json.dumps({"machine": describe(1), "records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
