"""How fast are whole recurrent layers, compared with their peers and the machine's peak?

Every contender gets the same weights and inputs; outputs and gradients are compared first, then all
are timed in turn, one call after the other's, and the fastest of the turns counts. Contenders: our
operators, and PyTorch (`--torch-python`) in a process of its own, where it is installed.

Run: python benchmarks/rnn_ops.py [--quick] [--shapes A,B] [--cells A,B] [--modes A,B] [--json FILE]
"""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _cases import CELLS, MODES, QUICK_CELLS, QUICK_SHAPES, SHAPES, Arrays, Shape, make_inputs, operations
from _machine import describe
from _peer import Peer, PeerError
from peak import measure_peak

import nmt.rnn
from nmt.errors import NMTError
from nmt.rnn.cores import default_threads

# A turn repeats a call that is shorter than this.
_TURN_SECONDS = 0.05
# Before a short call's turn: OpenMP threads of the one before spin for up to a fifth of a second after their last
# work, on a core that the next one needs; and what the next one reads has left the caches.
_SETTLE_SECONDS = 0.25
# Then untimed calls for so long: after a pause a virtual processor is slow for a tenth of a second (calls of 12 ms
# took up to 23), whatever runs on it.
_WARM_SECONDS = 0.2
# Relative errors ||a - b|| / ||b|| allowed against our float32. Float32: other orders of sums, over up
# to 25,600 rows. Bfloat16 keeps 8 bits: 0.4 % for a rounding, several in a step. Such a rounding moves
# about every 256th unit across relu's corner, and that one's gradient is wrong by all of its size:
# 1 / sqrt(256) = 6 % for each step and layer it passes.
_TOLERANCES = {"float32": 1e-4, "bfloat16": 0.03}
# In float32 another order of sums moves some of five million units across: 2e-4 was seen over 300 steps.
_RELU_TOLERANCES = {"float32": 1e-3, "bfloat16": 0.25}
_OPERATORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (nmt.rnn.LSTM, {}),
    "gru": (nmt.rnn.GRU, {"reset_after": True}),
    "rnn_tanh": (nmt.rnn.RNN, {"nonlinearity": "tanh"}),
    "rnn_relu": (nmt.rnn.RNN, {"nonlinearity": "relu"}),
}


class Contender:
    """One implementation of one case."""

    def __init__(self, name: str, dtype: str = "float32") -> None:
        self.name, self.dtype = name, dtype

    def results(self) -> Arrays:
        """Outputs of both modes and all gradients."""
        raise NotImplementedError

    def time(self, mode: str, count: int) -> float:
        """Seconds of one call, the mean of `count`."""
        raise NotImplementedError

    def calibrate(self, mode: str) -> float:
        """About how many seconds one call takes."""
        return self.time(mode, 1)


class _Here(Contender):
    """One that runs in this process."""

    calls: dict[str, Callable[[], Any]]

    def time(self, mode: str, count: int) -> float:
        """Seconds of one call, the mean of `count`."""
        call, start = self.calls[mode], time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - start) / count


class Ours(_Here):
    """The operator people call: nmt.rnn.LSTM, GRU, RNN."""

    def __init__(self, cell: str, shape: Shape, params: Arrays, arrays: Arrays, threads: int, dtype: str) -> None:
        super().__init__("ours" if dtype == "float32" else "ours bf16", dtype)
        operator, options = _OPERATORS[cell]
        if dtype != "float32":
            options = options | {"compute_dtype": dtype}
        options = options | {"bidirectional": shape.bidirectional, "threads": threads}
        layer, frozen = (operator(shape.I, shape.H, shape.layers, **options) for _ in range(2))
        for name, array in params.items():
            layer.params[name][...] = array
            frozen.params[name][...] = array
        # Weights that stay the same are laid out once; in training each pass meets new ones.
        frozen.freeze()
        self.given = [arrays["x"], *(arrays[name] for name in ("hx", "cx") if name in arrays)]
        self.layer, self.frozen, self.d_y, self.lengths = layer, frozen, arrays["d_y"], shape.lengths()
        self.calls = {"inference": lambda: self.frozen(*self.given, lengths=self.lengths), "training": self._train}

    def _train(self) -> None:
        self._forward()
        self.layer.backward(self.d_y)

    def _forward(self) -> Any:
        return self.layer.forward(*self.given, lengths=self.lengths)

    def results(self) -> Arrays:
        """Both kinds of pass."""
        y, hy = self.frozen(*self.given, lengths=self.lengths)[:2]
        found = {"inference_y": y, "inference_hy": hy}
        found["training_y"], found["training_hy"] = (array.copy() for array in self._forward()[:2])
        gradients = self.layer.backward(self.d_y)
        found |= {"d_x": gradients.d_x, "d_hx": gradients.d_hx}
        if gradients.d_cx is not None:
            found["d_cx"] = gradients.d_cx
        return found | {f"d_{name}": array for name, array in gradients.params.items()}


class Foreign(Contender):
    """A network inside a peer's processes, which differ in how their threads wait: the faster one counts."""

    def __init__(self, name: str, peers: list[Peer], request: dict[str, Any], arrays: Arrays, dtype: str) -> None:
        super().__init__(name, dtype)
        self.peers, self.chosen = peers, {mode: peers for mode in MODES}
        for peer in peers:
            peer.load(name, request | {"dtype": dtype}, arrays)

    def results(self) -> Arrays:
        """What the peer computes."""
        return [peer.results(self.name) for peer in self.peers][0]

    def calibrate(self, mode: str) -> float:
        """Of the processes, leave those out that are clearly slower."""
        seconds = [min(peer.time(self.name, mode, 1) for _ in range(2)) for peer in self.peers]
        pairs = zip(self.peers, seconds, strict=True)
        self.chosen[mode] = [peer for peer, needed in pairs if needed <= 1.3 * min(seconds)]
        return min(seconds)

    def time(self, mode: str, count: int) -> float:
        """As the peer itself measures it, without the pipe."""
        return min(peer.time(self.name, mode, count) for peer in self.chosen[mode])


def note(text: str) -> None:
    """A line about what happens, outside the table."""
    print(text, file=sys.stderr, flush=True)


def contenders(cell: str, shape: Shape, peers: list[Peer], args: argparse.Namespace) -> list[Contender]:
    """All that can run this case; ours in float32 comes first."""
    params, arrays = make_inputs(cell, shape)
    found: list[Contender] = [Ours(cell, shape, params, arrays, args.threads, "float32")]
    if args.bfloat16:
        try:
            found.append(Ours(cell, shape, params, arrays, args.threads, "bfloat16"))
        except NMTError as e:
            note(f"{shape.name} {cell}: ours in bfloat16 skipped: {e}")
    lengths = shape.lengths()
    sent = params | arrays | ({} if lengths is None else {"lengths": lengths})
    request = {"cell": cell, "layers": shape.layers, "bidirectional": shape.bidirectional}
    for name, dtype in (("torch", "float32"), ("torch bf16", "bfloat16")):
        if not peers or (dtype == "bfloat16" and not args.bfloat16):
            continue
        try:
            found.append(Foreign(name, peers, request, sent, dtype))
        except PeerError as e:
            note(f"{shape.name} {cell}: {name} skipped: {e}")
    return found


def check(found: list[Contender], where: str, relu: bool) -> dict[str, float]:
    """Compare everything with our float32 run; the largest relative error of each. Exits on a wrong result."""
    reference = found[0].results()
    worst = {found[0].name: 0.0}
    for one in found[1:]:
        results = one.results()
        if set(results) - set(reference):
            raise SystemExit(f"{where}: {one.name} must give {sorted(reference)}, got {sorted(results)}")
        missing = sorted(set(reference) - set(results))
        if missing:
            note(f"{where}: {one.name} gives no {', '.join(missing)}; the rest is compared")
        for name, array in results.items():
            expected = reference[name]
            error = float(np.linalg.norm(array - expected) / max(float(np.linalg.norm(expected)), 1e-30))
            tolerance = (_RELU_TOLERANCES if relu else _TOLERANCES)[one.dtype]
            if array.shape != expected.shape or not error < tolerance:
                message = f"must agree with ours within {tolerance}, got {array.shape} and an error of {error:.1e}"
                raise SystemExit(f"{where}: {name} of {one.name} {message}")
            worst[one.name] = max(worst.get(one.name, 0.0), error)
    return worst


def take_turns(found: list[Contender], mode: str, turns: int) -> dict[str, list[float]]:
    """Seconds of a call, of each contender in each turn."""
    calls = {one.name: max(one.calibrate(mode), 1e-6) for one in found}
    times: dict[str, list[float]] = {one.name: [] for one in found}
    for _ in range(turns):
        for one in found:
            call = calls[one.name]
            if call < _WARM_SECONDS:
                time.sleep(_SETTLE_SECONDS)
                one.time(mode, math.ceil(_WARM_SECONDS / call))
            times[one.name].append(one.time(mode, max(1, round(_TURN_SECONDS / call))))
    return times


def run_case(cell: str, shape: Shape, peers: list[Peer], args: argparse.Namespace) -> list[dict[str, Any]]:
    """Check, time and print one shape of one cell."""
    where, start = f"{shape.name} {cell}", time.perf_counter()
    found = contenders(cell, shape, peers, args)
    errors = check(found, where, cell == "rnn_relu")
    records = []
    for mode in args.modes:
        before = measure_peak(args.threads)
        times = take_turns(found, mode, args.turns)
        peak = max(before, measure_peak(args.threads))
        for one in found:
            seconds = min(times[one.name])
            record: dict[str, Any] = {"shape": shape.name, "label": shape.label, "cell": cell, "mode": mode}
            record |= {"contender": one.name, "dtype": one.dtype, "seconds": seconds, "turns": times[one.name]}
            gflops = operations(cell, shape, mode) / seconds / 1e9
            record |= {"samples_per_second": shape.N / seconds, "gflops": gflops}
            record |= {"peak": peak, "share_of_peak": gflops / peak}
            for base in ("ours", "ours bf16"):
                if base in times:
                    record[f"times_slower_than_{base.replace(' ', '_')}"] = seconds / min(times[base])
            record["relative_error"] = errors[one.name]
            records.append(record)
            print(row(record), flush=True)
    for peer in peers:
        peer.ask(op="drop")
    note(f"{where}: {time.perf_counter() - start:.0f} s")
    return records


_HEAD = (
    f"{'T,N,I,H x layers':24s} {'cell':8s} {'mode':9s} {'contender':13s} {'ms':>10s} {'samples/s':>10s} "
    f"{'GFLOP/s':>8s} {'of peak':>7s} {'ours is':>8s} {'bf16 is':>8s} {'error':>7s}"
)


def row(r: dict[str, Any]) -> str:
    """One line of the table; "ours is 2.00x" says that our float32 takes half the time, "bf16 is" our bfloat16."""
    ratios = [r.get(f"times_slower_than_{base}") for base in ("ours", "ours_bf16")]
    shown = " ".join(f"{ratio:7.2f}x" if ratio else f"{'-':>8s}" for ratio in ratios)
    return (
        f"{r['label']:24s} {r['cell']:8s} {r['mode']:9s} {r['contender']:13s} {1000 * r['seconds']:10.3f} "
        f"{r['samples_per_second']:10.1f} {r['gflops']:8.1f} {100 * r['share_of_peak']:6.1f}% {shown} "
        f"{r['relative_error']:7.0e}"
    )


def start_peers(args: argparse.Namespace) -> list[Peer]:
    """PyTorch's processes, none where it is not installed.

    OpenMP's threads spin between two parallel loops. That is fastest on cores of one's own and many
    times slower where anything else runs, so there is a process of either kind.
    """
    if not args.torch_python:
        note("torch: skipped; name a Python that has it with --torch-python or NMT_TORCH_PYTHON")
        return []
    kinds = {"spin": [{}], "sleep": [{"OMP_WAIT_POLICY": "PASSIVE"}]}
    kinds["best"] = kinds["spin"] + kinds["sleep"]
    try:
        found = [Peer(args.torch_python, "_torch_worker.py", args.threads, e) for e in kinds[args.peers_wait]]
    except PeerError as e:
        note(f"torch: skipped: {e}")
        return []
    note(f"torch: {found[0].version}")
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def names(of: Any) -> Callable[[str], list[str]]:
        def read(text: str) -> list[str]:
            asked = text.split(",")
            for name in asked:
                if name not in of:
                    raise argparse.ArgumentTypeError(f"must be among {','.join(of)}, got {name}")
            return asked

        return read

    parser.add_argument("--shapes", type=names(SHAPES), help=f"among {','.join(SHAPES)}")
    parser.add_argument("--cells", type=names(CELLS), help=f"among {','.join(CELLS)}")
    parser.add_argument("--modes", type=names(MODES), default=list(MODES), help=f"among {','.join(MODES)}")
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--turns", type=int, help="timed turns of each contender (7; 2 with --quick)")
    parser.add_argument("--quick", action="store_true", help="five minutes: fewer shapes, cells and turns")
    parser.add_argument("--no-bfloat16", dest="bfloat16", action="store_false", help="float32 only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--torch-python", default=os.environ.get("NMT_TORCH_PYTHON"), metavar="PATH")
    parser.add_argument("--peers-wait", choices=("spin", "sleep", "best"), default="best", help="their OpenMP threads")
    args = parser.parse_args()
    args.turns = args.turns or (2 if args.quick else 7)
    args.cells = args.cells or list(QUICK_CELLS if args.quick else CELLS)
    args.shapes = args.shapes or list(QUICK_SHAPES if args.quick else SHAPES)
    return args


def main() -> None:
    """Print the table."""
    args = arguments()
    machine = describe(args.threads)
    peers = start_peers(args)
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    print(f"best of {args.turns} turns; GFLOP/s of the products only; peak: float32, measured around each case")
    print(_HEAD, flush=True)
    records: list[dict[str, Any]] = []
    try:
        for shape in args.shapes:
            for cell in args.cells:
                records += run_case(cell, SHAPES[shape], peers, args)
    finally:
        for peer in peers:
            peer.close()
    peaks = [record["peak"] for record in records]
    print(f"peak: {min(peaks):.0f} to {max(peaks):.0f} GFLOP/s")
    if args.json:
        versions = {"torch": peers[0].version} if peers else {}
        whole = {"machine": machine | versions, "records": records}
        args.json.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
