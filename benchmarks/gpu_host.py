"""What does the host do for one update on a GPU? Counted without one.

The package's own runtime works on the stand-in of the tests (`tests/cuda_standin`), which counts launches, products,
recordings that are replayed, operations of CuPy and copies to the GPU, and computes nothing. Updates have one size
(T, B, S) and other lengths each. Milliseconds are of Python on this machine, the stand-in's share included: they
compare two versions, they do not say what a GPU's host takes.

Run: python benchmarks/gpu_host.py [--updates 5]   (with the extra [dev])
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

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
    from tests.cuda_standin.runtime import idle_runtime

    runtime = idle_runtime(multiprocessors=132)
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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=5)
    options = parser.parse_args()
    cases = [(name, compute_dtype) for name in SIZES for compute_dtype in ("float32", "bfloat16")]
    print("| model | update | kernels | persistent | products | replays | CuPy | copies | ms |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case in cases:
        print(*updates(*case, options.updates), sep="\n", flush=True)


if __name__ == "__main__":
    main()
