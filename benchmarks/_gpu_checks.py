"""Checks of a GPU that need no test: whether CuPy's stream stays the runtime's, and products of odd sizes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from nmt.rnn.kernels.cuda.blas import Matrix
from nmt.rnn.kernels.cuda.rows import row_operations

SPIN = """extern "C" __global__ void spin(long long cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) { }
}"""
CYCLES = 50_000_000
"""Some 30 ms: an upload that is not ordered with the kernel that reads it comes later than that."""
KINDS = {"float64": ("f8", "f8", 1e-12), "float32": ("f4", "f4", 2e-5), "bfloat16": ("u2", "f4", 2e-2)}
SIZES = (1, 2, 3, 5, 6, 9, 12, 17, 18, 31, 33, 64, 65)


def check_stream(runtime: Any, *, spins: bool) -> None:
    """Raise SystemExit if CuPy's current stream is not the runtime's, or a kernel reads ids before they arrive: after a
    download of an array that is not contiguous, after another `with`, and inside of it."""
    plain, bad = runtime.packages.cupy, 0
    stream = plain.cuda.Stream(non_blocking=True).use()
    plain.asnumpy(plain.zeros((3, 4)).T, stream=stream)
    kept = plain.cuda.get_current_stream() is stream
    print(f"CuPy alone: after use() and asnumpy(x.T, stream=...) the stream is kept: {kept}")
    spin = plain.RawKernel(SPIN, "spin") if spins else lambda *given: None
    table = runtime.upload(np.arange(40.0).reshape(10, 4))
    for turn in ("at first", "after a download of x.T", "after a `with`", "inside of a `with`"):
        if turn == "after a download of x.T":
            np.testing.assert_array_equal(runtime.download(table.T), np.arange(40.0).reshape(10, 4).T)
        if turn == "after a `with`":
            with plain.cuda.Stream(non_blocking=True):
                pass
        if turn.startswith("inside"):
            plain.cuda.Stream(non_blocking=True).__enter__()
        wrong = sum(not _ids_arrive(runtime, table, spin) for _ in range(5 if spins else 1))
        now = plain.cuda.get_current_stream() is runtime.stream
        print(f"{turn}: CuPy's stream is the runtime's: {now}; {wrong} results wrong", flush=True)
        bad += wrong + (not now)
    if bad:
        raise SystemExit("CuPy's current stream must be the runtime's")


def _ids_arrive(runtime: Any, table: Any, spin: Any) -> bool:
    """Whether a kernel reads ids that are uploaded behind a kernel that spins, not what lay in their memory before."""
    stale = runtime.xp.empty(64, np.int32)
    stale[...] = 9
    runtime.synchronize()
    del stale
    ids, out = np.arange(64, dtype=np.int32) % 7, runtime.xp.empty((64, 4), np.float64)
    spin((1,), (1,), (np.int64(CYCLES),))
    row_operations.embedding_rows(runtime, runtime.upload(ids), table, out, 1.0)
    return np.array_equal(runtime.download(out), np.arange(40.0).reshape(10, 4)[ids])


def check_products(runtime: Any, seconds: float) -> None:
    """Multiply matrices of odd sizes, launched and recorded, for some seconds; raise SystemExit for a wrong one."""
    rng, count, end = np.random.default_rng(0), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        kind = str(rng.choice(list(KINDS)))
        factor, sums, bound = KINDS[kind]
        M, N, K = (int(rng.choice(SIZES)) for _ in range(3))
        turned_a, turned_b, adds = (bool(x) for x in rng.integers(0, 2, 3))
        given, host = [], []
        for number, (rows, columns) in enumerate(
            ((K, M) if turned_a else (M, K), (N, K) if turned_b else (K, N), (M, N))
        ):
            left, right = (int(x) * int(rng.integers(0, 2)) for x in rng.integers(0, 7, 2))  # other columns
            x = rng.standard_normal((rows, left + columns + right)).astype(sums)
            if number < 2 and kind == "bfloat16":
                x = (x.view(np.uint32) >> 16).astype(factor)
            given.append(Matrix(runtime.upload(x), 0, rows, left, columns))
            wide = (x.astype(np.uint32) << 16).view("f4") if x.dtype == np.uint16 else x
            host.append(wide[:, left : left + columns].astype("f8"))
        a, b, c = host
        expected = (a.T if turned_a else a) @ (b.T if turned_b else b) + (c if adds else 0)

        def multiply(
            given: Any = given, turned_a: bool = turned_a, turned_b: bool = turned_b, adds: bool = adds
        ) -> None:
            runtime.gemm(*given, transpose_a=turned_a, transpose_b=turned_b, accumulate=adds)

        (runtime.record(multiply) if rng.integers(0, 4) == 0 else multiply)()
        found = runtime.download(given[2].view())
        error = float(np.abs(found - expected).max() / max(1.0, np.abs(expected).max()))
        if not error < bound * K**0.5:
            raise SystemExit(f"{kind} {M} {N} {K}, transposed {turned_a} {turned_b}, added {adds}: off by {error:.1e}")
        count += 1
    print(f"{count} products, none wrong")
