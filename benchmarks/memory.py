"""Where does the memory of a training step go, and what does computing again instead of storing cost?

For an LSTM layer, forward and backward: bytes of every array that lives from the forward to the backward
pass, of scratch that lasts for a block of time, of what the backward pass itself asks for, and the time
of `recompute="gates"` compared with the default; then the peak resident memory of a process that does one such
step. For a decoder with attention: the block [S, T, B, H] that is never stored, and the peak memory of a
training step. Run: python benchmarks/memory.py
"""

import argparse
import json
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _timing import Bench, Turns, check_close, normal, note, options, print_machine

from nmt.rnn.arrays.weights import Weights, initial_params
from nmt.rnn.arrays.workspace import Workspace
from nmt.rnn.cells import AttentionCell, LSTMCell
from nmt.rnn.compiler.keep import Recompute
from nmt.rnn.compiler.program import PlaceKind
from nmt.rnn.scan.scan import Scan
from nmt.rnn.scan.tape import Tape

_KINDS: tuple[Recompute, ...] = ("attention", "gates")
_SHAPES = [(T, 32, 512, 512) for T in (50, 100, 200, 400)] + [(200, 128, 40, 800)]  # the last: Caffe2's own benchmark
_ATTENTION = (100, 100, 128, 512)  # S, T, B, H of Caffe2's note
_MB = 1e6


@dataclass
class Bytes:
    """What one training step asks for, by purpose."""

    states: int  # state stacks
    kept: dict[str, int]  # what the forward pass stores for the backward pass, besides states
    forward: int  # scratch of the forward pass
    backward: int  # scratch of the backward pass
    d_x: int  # the result


class _Counting(Workspace):
    """A workspace that knows what it has handed out since the last look."""

    taken = 0

    def __call__(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """As Workspace."""
        array = super().__call__(shape, dtype)
        self.taken += array.nbytes
        return array

    def look(self) -> int:
        """Bytes handed out since the last look."""
        taken, self.taken = self.taken, 0
        return taken


def count(bench: Bench) -> Bytes:
    """Bytes of one step, counted where they are allocated and distinguished by the arrays they are in."""
    memory = _Counting()
    tape = _tape(bench, memory)
    forward = memory.look()
    bench.scan.backward(tape, bench.d_y, None, bench.gradients)
    size = {name: array.nbytes for name, array in tape.arrays.items()}
    places = tape.compiled.step.plan.forward.arrays
    kept = {name: size[name] for name, place in places.items() if place.kind is PlaceKind.SEQUENCE}
    states = sum(size[f"S_{name}"] for name in bench.scan.states)
    return Bytes(states, kept, forward - states - sum(kept.values()), memory.look() - size["d_x"], size["d_x"])


def _tape(bench: Bench, memory: Workspace) -> Tape:
    tape = bench.scan.forward(bench.weights, bench.x, training=True, allocate=memory).tape
    if tape is None:
        raise RuntimeError("a training run has a tape")
    return tape


# ------------------------------------------------------------ a process of its own, for its peak


def _peak_mb() -> float:
    """Peak resident memory of this process so far, MB."""
    status = Path("/proc/self/status")
    if status.exists():  # where there is none, a child's figure from getrusage may be its parent's
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024 / _MB
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / _MB


def child_layer(T: int, N: int, D: int, H: int, threads: int, recompute: Recompute) -> dict[str, float]:
    """Peaks: before anything of size T exists, with inputs and weights, after forward, after backward."""
    cell = LSTMCell(D, H)
    Bench(cell, 2, N, threads=threads, recompute=recompute).train()  # code and packed weights
    peaks = {"start": _peak_mb()}
    bench = Bench(cell, T, N, threads=threads, recompute=recompute)
    peaks["inputs"] = _peak_mb()
    tape = _tape(bench, Workspace())
    peaks["forward"] = _peak_mb()
    bench.scan.backward(tape, bench.d_y, None, bench.gradients)
    return peaks | {"backward": _peak_mb()}


def child_attention(S: int, T: int, B: int, H: int, threads: int) -> dict[str, float]:
    """The same for a decoder with additive attention and input feeding."""
    scan = Scan(AttentionCell(LSTMCell(2 * H, H), H, H), threads=threads)
    weights = Weights(initial_params(scan.cell, 0))
    gradients = {name: np.zeros_like(array) for name, array in weights.items()}

    def step(S: int, T: int, peaks: dict[str, float]) -> None:
        x, captured, d_y = normal(T, B, H), {"memory": normal(S, B, H)}, normal(T, B, H, seed=1)
        peaks["inputs"] = _peak_mb()
        memory = Workspace()
        result = scan.forward(weights, x, captured=captured, training=True, allocate=memory)
        peaks["forward"] = _peak_mb()
        if result.tape is None:
            raise RuntimeError("a training run has a tape")
        scan.backward(result.tape, d_y, None, gradients)
        peaks["backward"] = _peak_mb()

    step(2, 2, {})
    peaks = {"start": _peak_mb()}
    step(S, T, peaks)
    return peaks


def in_child(kind: str, *sizes: int, threads: int, recompute: Recompute = "attention") -> dict[str, float]:
    """Peaks of a fresh process, MB."""
    command = [sys.executable, __file__, "--child", kind, *map(str, sizes)]
    command += ["--threads", str(threads), "--recompute", recompute]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"memory.py: a step of {kind} {sizes} must end well, got status {done.returncode}:\n{done.stderr}"
        )
    found: dict[str, float] = json.loads(done.stdout)
    return found


# ------------------------------------------------------------ the tables


def layer_tables(args: argparse.Namespace) -> None:
    """Bytes by purpose, time, peak memory of one LSTM layer."""
    print(f"\nLSTM layer, forward and backward, MB by purpose; time: best of {args.turns} turns in turn; kept: numbers")
    print("for each step and row, by name (gates and tanh(c)); time in milliseconds")
    columns = " ".join(f"{name:>8s}" for name in ("states", "kept", "forward", "backward", "d_x", "time"))
    print(f"{'T,N,I,H':>14s} {'recompute':9s} {columns}")
    for T, N, D, H in args.shapes:
        note(f"bytes and time of {T},{N},{D},{H}")
        benches = {k: Bench(LSTMCell(D, H), T, N, threads=args.threads, recompute=k) for k in _KINDS}
        found = {kind: bench.results() for kind, bench in benches.items()}
        for name, array in found["attention"].items():
            check_close(f"{T},{N},{D},{H}: {name}", found["gates"][name], array, 1e-5)
        del found
        seconds = Turns({kind: bench.train for kind, bench in benches.items()}).take(args.turns)
        for kind, bench in benches.items():
            b = count(bench)
            sizes = [b.states, sum(b.kept.values()), b.forward, b.backward, b.d_x]
            line = " ".join(f"{n / _MB:8.2f}" for n in sizes)
            more = f"({100 * (seconds[kind] / seconds['attention'] - 1):+.1f} %)"
            names = ", ".join(f"{name} {n // (4 * T * N)}" for name, n in b.kept.items()) or "nothing"
            print(
                f"{f'{T},{N},{D},{H}':>14s} {kind:9s} {line} {1000 * seconds[kind]:8.2f} {more:9s} {names}", flush=True
            )


def peak_table(args: argparse.Namespace) -> None:
    """Peak memory of fresh processes."""
    print("\npeak resident memory of a process that does one step: MB before, then how much the peak rose with the")
    print("inputs, the forward pass and the backward pass, which also gives d_x")
    print(f"{'T,N,I,H':>14s} {'recompute':9s} {'before':>8s} {'inputs':>8s} {'forward':>8s} {'backward':>8s} less d_x")
    for T, N, D, H in args.shapes:
        for kind in _KINDS:
            note(f"peak of {T},{N},{D},{H} {kind}")
            p = in_child("layer", T, N, D, H, threads=args.threads, recompute=kind)
            rises = [p["start"], p["inputs"] - p["start"], p["forward"] - p["inputs"], p["backward"] - p["forward"]]
            rises.append(rises[-1] - 4 * T * N * D / _MB)
            print(f"{f'{T},{N},{D},{H}':>14s} {kind:9s} " + " ".join(f"{n:8.1f}" for n in rises), flush=True)


def attention_table(args: argparse.Namespace) -> None:
    """The block that is never stored."""
    S, T, B, H = (20, 20, 32, 512) if args.quick else _ATTENTION
    note("attention")
    p = in_child("attention", S, T, B, H, threads=args.threads)
    block = S * T * B * H * 4
    print(f"\nattention around an LSTM, S,T,B,H = {S},{T},{B},{H}: tanh(keys + query) of all steps, [S, T, B, H],")
    print(f"would be {block / _MB:.0f} MB ({block / 2**30:.2f} GiB); a whole training step's peak resident memory:")
    parts = ", ".join(f"{name} {p[name]:.0f}" for name in ("start", "inputs", "forward", "backward"))
    print(f"{parts} MB, so {p['backward'] - p['start']:.0f} MB above the start, inputs and results included")


_PARTS = {"layers": layer_tables, "peaks": peak_table, "attention": attention_table}


def main() -> None:
    """Print all tables, or in a child process do one step."""
    parser = options(__doc__)
    parser.add_argument("--turns", type=int, help="timed turns (7; 3 with --quick)")
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=list(_PARTS))
    parser.add_argument("--child", nargs="+", metavar="SIZE", help=argparse.SUPPRESS)
    parser.add_argument("--recompute", choices=_KINDS, default="attention", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        kind, sizes = args.child[0], [int(n) for n in args.child[1:]]
        if kind == "layer":
            T, N, D, H = sizes
            print(json.dumps(child_layer(T, N, D, H, args.threads, args.recompute)))
        else:
            S, T, B, H = sizes
            print(json.dumps(child_attention(S, T, B, H, args.threads)))
        return
    args.turns = args.turns or (3 if args.quick else 7)
    args.shapes = _SHAPES[:2] if args.quick else _SHAPES
    print_machine(args.threads)
    for part in args.parts:
        _PARTS[part](args)


if __name__ == "__main__":
    main()
