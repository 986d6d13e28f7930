"""How does the cost of a token grow with the work? One table, and one plot, for each size that may grow.

An LSTM layer's training step (forward and all gradients) over the steps T, the rows N and the hidden units
H, and the output layer with its loss and gradients over the vocabulary V. Checks results first. With
`--write` the plots go to docs/ as SVG, drawn by matplotlib (the extra [site]). Run: python benchmarks/scaling.py
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _plot import Plot, drawn
from _timing import Arrays, Bench, Turns, check_close, normal, note, options, print_machine
from peak import measure_peak

from nmt.rnn import interpreter
from nmt.rnn.cells import LSTMCell
from nmt.rnn.kernels.model.output import output_loss
from nmt.rnn.kernels.products.packing import pack, pack_transposed, packed_size
from nmt.rnn.kernels.threads.pool import run_parallel

_HIDDEN, _OUTPUT_ROWS = 512, 1024
# Turns are fewer where one takes long: seconds for all turns of a size, but never fewer than this.
_BUDGET, _LEAST = 2.0, 3


@dataclass(frozen=True)
class Study:
    """One size that grows; `make` gives the call to time, its tokens and its floating-point operations."""

    name: str
    title: str
    size_label: str
    sizes: list[int]
    make: Callable[[int, int], tuple[Callable[[], Any], int, float]]


def lstm(T: int, N: int, H: int, threads: int) -> tuple[Callable[[], Any], int, float]:
    """A training step of an LSTM layer of H units on inputs of width H, checked against the interpreter over two
    steps."""
    small = Bench(LSTMCell(H, H), 2, min(N, 3), threads=threads)
    found = small.results()
    for name, array in _interpreted(small).items():
        check_close(f"lstm {T},{N},{H}: {name}", found[name], array, 1e-4)
    bench = Bench(LSTMCell(H, H), T, N, threads=threads)
    return bench.train, T * N, 3 * 2.0 * T * N * 2 * H * 4 * H


def _interpreted(bench: Bench) -> Arrays:
    """What NumPy makes of the same step, in float64."""
    params = {name: array.astype("f8") for name, array in bench.weights.items()}
    zero = {name: np.zeros((bench.x.shape[1], n)) for name, n in bench.scan.states.items()}
    result = interpreter.forward(bench.scan.cell, params, bench.x.astype("f8"), zero)
    found = interpreter.backward(result, bench.d_y.astype("f8"), zero)
    return {"y": result.y, "d_x": found.x} | {f"d_{name}": array for name, array in found.params.items()}


def output(V: int, threads: int) -> tuple[Callable[[], Any], int, float]:
    """Output layer, loss and all gradients of 1,024 rows, checked against NumPy on four of them."""
    R, H = _OUTPUT_ROWS, _HIDDEN
    h, W, b = normal(R, H), normal(H, V) / 32, normal(V) / 32
    targets = np.random.default_rng(0).integers(0, V, R).astype(np.int32)
    packed, turned = np.empty(packed_size(H, V, "f4"), "f4"), np.empty(packed_size(V, H, "f4"), "f4")
    run_parallel(pack, threads, W, 0, H, packed)
    run_parallel(pack_transposed, threads, W, 0, H, turned)
    d_h, dW, db = np.zeros((R, H), "f4"), np.zeros((H, V), "f4"), np.zeros(V, "f4")

    def call(rows: int = R) -> float:
        parts = h[:rows], packed, turned, b, targets[:rows], 0.0, d_h[:rows], dW, db
        return output_loss(*parts, 1.0, threads)[0]

    few = 4
    nll = call(few)
    logits = h[:few].astype("f8") @ W + b
    logits -= logits.max(1, keepdims=True)
    p = np.exp(logits)
    p /= p.sum(1, keepdims=True)
    expected = -np.log(p[np.arange(few), targets[:few]]).sum()
    p[np.arange(few), targets[:few]] -= 1
    where = f"output layer {V}"
    check_close(f"{where}: loss", np.array([nll]), np.array([expected]), 1e-5)
    check_close(f"{where}: d_h", d_h[:few], p @ W.T, 1e-4)
    check_close(f"{where}: dW", dW, h[:few].T @ p, 1e-4)
    check_close(f"{where}: db", db, p.sum(0), 1e-4)
    return call, R, 3 * 2.0 * R * H * V


def studies(quick: bool) -> list[Study]:
    """T, N, H and V, each with the others fixed."""
    H, lstm_title = _HIDDEN, "LSTM layer, training step"
    grow = {
        "T": [10, 50, 200] if quick else [10, 25, 50, 100, 200, 400, 800],
        "N": [1, 16, 64] if quick else [2**n for n in range(10)],
        "H": [64, 256, 512] if quick else [2**n for n in range(6, 12)],
        "V": [1024, 8192] if quick else [2**n for n in range(10, 17)],
    }
    return [
        Study("steps", f"{lstm_title}: N 16, H {H}", "steps T", grow["T"], lambda T, n: lstm(T, 16, H, n)),
        Study("rows", f"{lstm_title}: T 25, H {H}", "rows N", grow["N"], lambda N, n: lstm(25, N, H, n)),
        Study("hidden", f"{lstm_title}: T 25, N 32", "hidden units H", grow["H"], lambda H, n: lstm(25, 32, H, n)),
        Study("vocabulary", f"Output layer, loss and gradients: {_OUTPUT_ROWS:,} rows, H {H}", "vocabulary V",
              grow["V"], output),
    ]  # fmt: skip


def run(study: Study, args: argparse.Namespace) -> Plot:
    """Check, time and print every size of a study."""
    print(f"\n{study.title}\n{study.size_label:>16s} us a token  GFLOP/s  of peak  turns", flush=True)
    micro, shares = [], []
    for size in study.sizes:
        note(f"{study.name} {size}")
        call, tokens, operations = study.make(size, args.threads)
        peak = measure_peak(args.threads, 5)
        turns = Turns({"": call})
        seconds = turns.take(_LEAST)[""]
        more = min(args.turns, int(_BUDGET / max(seconds, 0.02))) - _LEAST
        seconds = turns.take(max(0, more))[""]
        peak = max(peak, measure_peak(args.threads, 5))
        micro.append(1e6 * seconds / tokens)
        speed = operations / seconds / 1e9
        shares.append(100 * speed / peak)
        count = len(turns.seconds[""])
        print(f"{size:16d} {micro[-1]:10.3f} {speed:8.1f} {shares[-1]:6.1f} %  {count:5d}", flush=True)
    labels = study.size_label, "microseconds a token", "share of the peak"
    return Plot(study.title, *labels, study.sizes, micro, shares)


def main() -> None:
    """Print the tables and, where asked, write the plots."""
    parser = options(__doc__)
    parser.add_argument("--turns", type=int, help="timed turns of a size (9; 3 with --quick)")
    parser.add_argument("--only", choices=[study.name for study in studies(True)], nargs="+", help="these tables alone")
    parser.add_argument(
        "--write", type=Path, metavar="FOLDER", nargs="?", const=Path("docs"), help="write plots (to docs/)"
    )
    args = parser.parse_args()
    args.turns = args.turns or (3 if args.quick else 9)
    print_machine(args.threads)
    print("2 operations for each multiply-add of the products alone; peak measured around each size")
    for study in studies(args.quick):
        if args.only and study.name not in args.only:
            continue
        plot = run(study, args)
        if args.write:
            (args.write / f"scaling_{study.name}.svg").write_bytes(drawn(plot))


if __name__ == "__main__":
    main()
