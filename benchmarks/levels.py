"""Is machine code for a level of processors as fast as code for this very processor?

A level is a set of features (nmt/rnn/kernels/features.py). Its code may use these alone, so that all processors of the
level can run it; code for one processor may use all that it has, and is scheduled for it. For each level a few
choices of (cpu, features) for LLVM, each in a process of its own, do the same: recurrent layers, training steps,
translations, with one thread. Their results are compared with the first choice's, then they take turns.

Time is the processor's, not the clock's: with one thread they differ by what others do on the same core. Each figure is
the time beside the first choice's (1.02: 2 % slower): of the fastest calls, and in brackets the median over turns.
Choices with the same letter give the same bits; the first choice has "a". At the end of the line stands the largest
relative error of any result.

Run: python benchmarks/levels.py [--quick] [--levels A,B] [--choices A,B] [--cases A,B] [--turns N] [--json FILE]
The first run compiles everything once for each choice, minutes each; NMT_CACHE_DIR keeps it apart from other code.
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

_TURN_SECONDS, _WARM_SECONDS = 0.12, 0.08
# Largest ||a - b|| / ||b|| of any result. Loops of other widths add up in another order; of bfloat16 that can move a
# number to the next of 8 bits.
_TOLERANCES = {"float32": 1e-3, "bfloat16": 0.03, "int8": 1e-3}

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

# ---------------------------------------------------------------- levels

# LLVM's names of the features of the x86-64 levels, and of ours above them. What a level demands of a processor is
# what stands here.
_V1 = "64bit cmov cx8 fxsr mmx sse sse2"
_V2 = f"{_V1} cx16 sahf popcnt sse3 ssse3 sse4.1 sse4.2 crc32"
_V3 = f"{_V2} avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave"
# Beyond x86-64-v4 its processors all have PREFETCHW, which the tiles of products ask for.
_V4 = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl prfchw"
DEMANDS = {
    "avx512_bf16": f"{_V4} avx512vnni avx512bf16",
    "avx512_vnni": f"{_V4} avx512vnni",
    "avx512": _V4,
    "avx2_vnni": f"{_V3} avxvnni",
    "avx2": _V3,
    "generic": _V1,
}


def restricted(cpu: str, level: str, *more: str) -> dict[str, str]:
    """Code scheduled for `cpu` with the features of a level alone, and with settings that are not the processor's."""
    demanded = set(DEMANDS[level].split())
    known = sorted(binding.get_host_cpu_features())
    missing = demanded - set(known)
    if missing:
        raise SystemExit(f"{level}: LLVM must know its features, got none called {', '.join(sorted(missing))}")
    features = [f"{'+' if name in demanded else '-'}{name}" for name in known]
    return {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": ",".join([*features, *more])}


def variants(level: str) -> list[Variant]:
    """The choices of a level, first what the others are compared with: what is compiled on a machine of its own."""
    found: list[Variant] = [("processor", {"NMT_CPU": level})]
    cpus = {
        "avx512_bf16": ("x86-64-v4", "sapphirerapids", "sapphirerapids-512", "znver4"),
        "avx512_vnni": ("x86-64-v4", "cascadelake", "icelake-server", "icelake-server-512"),
        "avx512": ("x86-64-v4", "skylake-avx512", "skylake-avx512-512"),
        "avx2_vnni": ("x86-64-v3", "alderlake"),
        "avx2": ("x86-64-v3", "haswell", "skylake", "znver3"),
        "generic": ("x86-64", "generic"),
    }[level]
    for name in cpus:
        # Where LLVM prefers half the width of a register, loops that it vectorises take the whole one.
        wide = name.endswith("-512")
        settings = restricted(name.removesuffix("-512"), level, *(["-prefer-256-bit"] if wide else []))
        found.append((name, {"NMT_CPU": level} | settings))
    return found


# ---------------------------------------------------------------- turns


def note(text: str) -> None:
    """A line about what happens, beside the table."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def started(chosen: list[Variant]) -> Iterator[dict[str, Peer]]:
    """A process for each choice."""
    peers: dict[str, Peer] = {}
    try:
        for name, environment in chosen:
            peers[name] = Peer(sys.executable, "_level_worker.py", 1, environment)
        yield peers
    finally:
        for peer in peers.values():
            peer.close()


def compare(where: str, case: Case, peers: dict[str, Peer]) -> tuple[dict[str, float], dict[str, str]]:
    """The largest relative error of each choice beside the first, and a letter that choices of the same bits share.
    Exits on a wrong result."""
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
    nobody always follows the same one."""
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
    parser.add_argument("--levels", help=f"among {','.join(DEMANDS)}; all that this machine has")
    parser.add_argument("--choices", help="names of choices, the first of a level aside")
    parser.add_argument("--cases", help=f"beginnings of names among {','.join(CASES)}")
    parser.add_argument("--turns", type=int, help="of each choice (9; 5 with --quick)")
    parser.add_argument("--quick", action="store_true", help="fewer cases and turns")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    args = parser.parse_args()
    args.turns = args.turns or (5 if args.quick else 9)
    args.levels = args.levels.split(",") if args.levels else _levels_here()
    if args.cases:
        args.cases = [name for name in CASES if name.startswith(tuple(args.cases.split(",")))]
    else:
        args.cases = list(_QUICK_CASES if args.quick else CASES)
    return args


def _levels_here() -> list[str]:
    has = binding.get_host_cpu_features()
    return [level for level, demands in DEMANDS.items() if all(has.get(name) for name in demands.split())]


def main() -> None:
    """A table a level."""
    args = arguments()
    print(", ".join(f"{name} {value}" for name, value in describe(1).items()))
    version, own_name = ".".join(map(str, binding.llvm_version_info)), binding.get_host_cpu_name()
    print(f"LLVM {version}, its name of this processor {own_name}")
    records = []
    for level in args.levels:
        first, *others = variants(level)
        if args.choices:
            others = [choice for choice in others if choice[0] in args.choices.split(",")]
        with started([first, *others]) as peers:
            print(f"\n{level}\n{'case':22s} {'ms':>9s} " + " ".join(f"{name:>16s}" for name, _ in others), flush=True)
            for name in args.cases:
                note(f"{level}: {name}")
                records.append({"level": level} | run_case(name, peers, args.turns))
    if args.json:
        args.json.write_text(json.dumps({"machine": describe(1), "records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
