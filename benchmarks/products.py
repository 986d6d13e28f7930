"""How near do the products come to the machine's peak at the sizes of a recurrent net?

Checks each result against NumPy first (of int8 against whole numbers, to the bit), times after, and prints the
share of the peak that was measured in the same run. Run: python benchmarks/products.py [threads]
"""

import sys
import time
from collections.abc import Callable

import numpy as np
from peak import measure_byte_peak, measure_peak

from nmt.rnn.arrays.weights import quantise
from nmt.rnn.cores import default_threads
from nmt.rnn.kernels.products import packing
from nmt.rnn.kernels.products import product as products
from nmt.rnn.kernels.products.gradients import weight_gradient
from nmt.rnn.kernels.products.packing import packed_size
from nmt.rnn.kernels.threads.pool import run_parallel

PRODUCTS = [(1, 512, 2048), (5, 512, 2048), (20, 800, 3200), (64, 512, 2048), (1920, 512, 2048), (1920, 2048, 512)]
GRADIENTS = [(2000, 800, 3200), (6000, 800, 3200), (2000, 512, 2048), (2000, 256, 1024)]


def best_time(run: Callable[[], None], seconds: float = 1.0) -> float:
    """Seconds of the fastest of the runs that fit into `seconds`, at least five."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def normal(shape: tuple[int, int]) -> np.ndarray:
    """Standard normal float32 numbers, the same for the same shape."""
    return np.random.default_rng(0).standard_normal(shape, "f4")


def report(
    name: str, run: Callable[[], None], found: np.ndarray, expected: np.ndarray, flops: int, peak: float
) -> None:
    """Check, time and print one line."""
    run()
    error = float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    if not error < 1e-5:
        raise SystemExit(f"{name}: must agree with NumPy, got a relative error of {error:.1e}")
    speed = flops / best_time(run) / 1e9
    print(f"{name:34s} {speed:7.1f} GFLOP/s  {100 * speed / peak:5.1f} % of the peak")


def product_line(M: int, K: int, N: int, threads: int, peak: float) -> None:
    """[M, K] x [K, N] on packed weights."""
    A, W = normal((M, K)), normal((K, N))
    C, packed = np.empty((M, N), "f4"), np.empty(packed_size(K, N, "f4"), "f4")
    run_parallel(packing.pack, threads, W, 0, K, packed)
    rows = np.array([[0, M]])

    def run() -> None:
        run_parallel(products.product, threads, A, 0, packed, C, 0, K, N, rows, 0)

    report(f"[{M}, {K}] x [{K}, {N}]", run, C, A @ W, 2 * M * K * N, peak)


def int8_line(M: int, K: int, N: int, threads: int, peak: float) -> None:
    """The same in int8; rounding the rows is part of the time."""
    A, W = normal((M, K)), normal((K, N))
    weights, rows_of_a = quantise(W, by_rows=False), quantise(A, by_rows=True)
    sums = (rows_of_a.numbers.astype("f8") @ weights.numbers.astype("f8")).astype("f4")  # whole numbers below 2**53
    expected = sums * weights.scales * rows_of_a.scales[:, None]
    C, packed = np.empty((M, N), "f4"), np.empty(packed_size(K, N, "i4"), "i4")
    run_parallel(packing.pack_int8, threads, weights.numbers, weights.scales, 0, K, packed)
    rows = np.array([[0, M]])

    def run() -> None:
        run_parallel(products.product, threads, A, 0, packed, C, 0, K, N, rows, 0)

    run()
    if not (expected == C).all():
        raise SystemExit(f"int8 [{M}, {K}] x [{K}, {N}]: must be exact, got other numbers")
    report(f"int8 [{M}, {K}] x [{K}, {N}]", run, C, expected, 2 * M * K * N, peak)


def gradient_line(R: int, K: int, N: int, threads: int, peak: float) -> None:
    """[R, K].T x [R, N], the gradient of a weight matrix."""
    X, G, dW, rows = normal((R, K)), normal((R, N)), np.empty((K, N), "f4"), np.array([[0, R]])

    def run() -> None:
        run_parallel(weight_gradient, threads, X, 0, K, G, 0, N, rows, dW, 0)

    report(f"[{R}, {K}].T x [{R}, {N}]", run, dW, X.T @ G, 2 * R * K * N, peak)


def main() -> None:
    """Print one line for each size."""
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else default_threads()
    peak = measure_peak(threads)
    print(f"peak: {peak:.0f} GFLOP/s on {threads} threads")
    for size in PRODUCTS:
        product_line(*size, threads, peak)
    byte_peak = measure_byte_peak(threads)
    print(f"peak on int8: {byte_peak:.0f} GOP/s on {threads} threads")
    for size in PRODUCTS:
        int8_line(*size, threads, byte_peak)
    for size in GRADIENTS:
        gradient_line(*size, threads, peak)


if __name__ == "__main__":
    main()
