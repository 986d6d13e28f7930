"""What does the host do for one update on a GPU? Counted without one.

The package's own runtime works on the stand-in of the tests (`tests/cuda_standin`), which counts launches, products,
recordings that are replayed, operations of CuPy and copies to the GPU, and computes nothing. Updates have one size
(T, B, S) and other lengths each. Milliseconds are of Python on this machine, the stand-in's share included: they
compare two versions, they do not say what a GPU's host takes.

With --cupy arrays are CuPy's own (pip install cupy-cuda13x; it needs no GPU), and the driver, cuBLAS and operations on
arrays do nothing: milliseconds are then of our Python, CuPy's views and the calls themselves. Checkouts take turns,
four updates each; the ratio is the median of those of all turns.

Run: python benchmarks/gpu_host.py [--updates 5] [--cupy [--also NAME=CHECKOUT] [--turns 60]]   (with the extra [dev])
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gpu_model
import numpy as np

from nmt.data.batching.batches import Batch, make_batch
from nmt.rnn.kernels.cuda.device_cuda import CudaDevice
from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime
from nmt.storage.model_folder import build_model
from nmt.train.updates.optimizer import make_optimizer
from nmt.train.updates.update import Updater

sys.path.insert(0, str(Path(__file__).parents[1]))  # for tests.cuda_standin

SIZES = {"Multi30k": (19, 120, 22), "4x1024, 32k words": (30, 140, 33)}
"""T, B and S of a batch of each model."""
COUNTED = ("kernel", "cooperative", "product", "graph", "cupy", "upload")
_COUNTED_IDLE = ("kernels", "persistent", "products", "replays", "CuPy", "copies")
_TURN, _BATCHES = 4, 24


def batch_of(size: tuple[int, int, int], vocab: int, seed: int) -> Batch:
    """Return a batch of this size with lengths of its own, most of them near the longest, as in training."""
    T, B, S = size
    rng = np.random.default_rng(seed)

    def side(longest: int, shortest: int) -> list[list[int]]:
        lengths = [longest, *rng.integers(shortest, longest + 1, B - 1).tolist()]
        return [rng.integers(4, vocab, n).tolist() for n in lengths]

    return make_batch(side(S - 1, S // 2), side(T - 1, T * 17 // 20), np.arange(B))


def updater_of(name: str, compute_dtype: str, runtime: CupyRuntime) -> Updater:
    """Return what updates a model on this runtime."""
    case = gpu_model.CASES[name]
    config, device = case.config(compute_dtype), CudaDevice(runtime)
    model = build_model(config, case.vocab, case.vocab, device=device)
    return Updater(config, model, make_optimizer(config.training, model.params, 1, device), 1)


def updates(name: str, compute_dtype: str, count: int) -> list[str]:
    """Return a row of the table for each update."""
    from tests.cuda_standin.runtime import standin_runtime

    runtime = standin_runtime(multiprocessors=132)
    runtime.gpu.idle = True
    updater = updater_of(name, compute_dtype, runtime)
    rows = []
    for number in range(count):
        batch = batch_of(SIZES[name], gpu_model.CASES[name].vocab, number)
        runtime.gpu.counts.clear()
        began = time.perf_counter()
        updater.update_with(batch, number + 1, 1e-4)
        took = 1e3 * (time.perf_counter() - began)
        found = " | ".join(str(runtime.gpu.counts[what]) for what in COUNTED)
        rows.append(f"| {name}, {compute_dtype} | {number + 1} | {found} | {took:.0f} |")
    return rows


def serve(name: str, compute_dtype: str) -> None:
    """For each line of standard input do a turn of updates, all of one size, and print milliseconds and counts of an
    update."""
    from _idle_cupy import counts, packages

    updater = updater_of(name, compute_dtype, CupyRuntime(packages=packages()))
    batches = [batch_of(SIZES[name], gpu_model.CASES[name].vocab, number) for number in range(_BATCHES)]
    done = 0
    for _ in sys.stdin:
        counts.clear()
        began = time.perf_counter()
        for _ in range(_TURN):
            done += 1
            updater.update_with(batches[done % _BATCHES], done, 1e-4)
        each = 1e3 * (time.perf_counter() - began) / _TURN
        print(json.dumps([each, {what: round(count / _TURN) for what, count in counts.items()}]), flush=True)


def take_turns(name: str, compute_dtype: str, checkouts: dict[str, str], turns: int) -> list[str]:
    """Return a row of the table for each checkout."""

    def start(checkout: str) -> Any:
        command = [sys.executable, __file__, "--serve", name, compute_dtype]
        environment = os.environ | {"PYTHONPATH": checkout}
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def ask(process: Any) -> Any:
        process.stdin.write("\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    processes = [start(checkout) for checkout in checkouts.values()]
    found = [[ask(process) for process in processes] for _ in range(turns + 2)][2:]  # sizes are new twice
    for process in processes:
        process.stdin.close()
        process.wait()
    rows = []
    for number, checkout in enumerate(checkouts):
        times = [turn[number][0] for turn in found]
        ratio = statistics.median(turn[number][0] / turn[-1][0] for turn in found)
        counts = " | ".join(str(found[-1][number][1].get(what, 0)) for what in _COUNTED_IDLE)
        best, middle = min(times), statistics.median(times)
        rows.append(f"| {name}, {compute_dtype} | {checkout} | {counts} | {best:.2f} | {middle:.2f} | {ratio:.3f} |")
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--cupy", action="store_true", help="arrays of CuPy, and nothing behind them")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=CHECKOUT", help="another version")
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    cases = [(name, compute_dtype) for name in SIZES for compute_dtype in ("float32", "bfloat16")]
    if options.serve:
        serve(*options.serve)
        return
    if options.cupy:
        checkouts = {"this": str(Path(__file__).parents[1])} | dict(one.split("=", 1) for one in options.also)
        print("| model | checkout | kernels | persistent | products | replays | CuPy | copies | ms | median | ratio |")
        print("|---|---|---|---|---|---|---|---|---|---|---|")
        for case in cases:
            print(*take_turns(*case, checkouts, options.turns), sep="\n", flush=True)
        return
    print("| model | update | kernels | persistent | products | replays | CuPy | copies | ms |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case in cases:
        print(*updates(*case, options.updates), sep="\n", flush=True)


if __name__ == "__main__":
    main()
