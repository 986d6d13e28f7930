"""How many operations a second this machine can do at all: multiply-adds on registers, no memory, in float32 and on
int8; in bfloat16 a product whose operands stay in the second cache.

Every benchmark reports its speed as a share of one of these. Run: python benchmarks/peak.py [threads]
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from nmt.rnn.arrays.workspace import aligned
from nmt.rnn.cores import default_threads
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import kernel, numba_types
from nmt.rnn.kernels.memory.moves import address
from nmt.rnn.kernels.products.int8 import byte_sums
from nmt.rnn.kernels.products.microkernel import product_rows_bf16
from nmt.rnn.kernels.products.packing import words_of
from nmt.rnn.kernels.threads.pool import run_parallel

# Enough independent chains to hide the latency of a multiply-add, few enough to stay in registers.
_CHAINS = 10


@intrinsic
def _chains(typing_context: Any, start: Any, count: Any) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = ir.VectorType(ir.FloatType(), TARGET.lanes)
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), TARGET.lanes), None)
        undefined = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(undefined, args[0], ir.Constant(ir.IntType(32), 0))
        x = builder.shuffle_vector(first, undefined, zeros)
        slots = [cgutils.alloca_once_value(builder, x) for _ in range(_CHAINS)]
        name = f"llvm.fma.v{TARGET.lanes}f32"
        fma = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)
        with cgutils.for_range(builder, args[1]):
            for slot in slots:
                value = builder.load(slot)
                if TARGET.has_fma:
                    builder.store(builder.call(fma, [value, x, x]), slot)
                else:
                    builder.store(builder.fadd(builder.fmul(value, x), x), slot)
        total = builder.load(slots[0])
        for slot in slots[1:]:
            total = builder.fadd(total, builder.load(slot))
        return builder.extract_element(total, ir.Constant(ir.IntType(32), 0))

    return numba_types.float32(numba_types.float32, numba_types.int64), codegen


@intrinsic
def _byte_chains(typing_context: Any, start: Any, count: Any) -> Any:
    """The same of products of bytes, as many instructions as this target takes for them."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        vector = ir.VectorType(ir.IntType(32), TARGET.lanes)
        zero = ir.Constant(ir.IntType(32), 0)
        undefined = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(undefined, args[0], zero)
        x = builder.shuffle_vector(first, undefined, ir.Constant(vector, None))
        slots = [cgutils.alloca_once_value(builder, x) for _ in range(_CHAINS)]
        operands = [(step, step.of_rows(builder, x), step.of_weights(builder, x)) for step in byte_sums()]
        with cgutils.for_range(builder, args[1]):
            # Behind an empty assembly statement, or the sum of all turns would be one multiplication.
            for slot in slots:
                for step, rows, weights in operands:
                    kind = ir.FunctionType(rows.type, [rows.type])
                    hidden = builder.asm(kind, "", "=v,0" if TARGET.lanes == 16 else "=x,0", [rows], side_effect=False)
                    builder.store(step.add(builder, builder.load(slot), hidden, weights), slot)
        total = builder.load(slots[0])
        for slot in slots[1:]:
            total = builder.add(total, builder.load(slot))
        return builder.extract_element(total, zero)

    return numba_types.int32(numba_types.int32, numba_types.int64), codegen


@numba.njit(nogil=True)  # not cached: this file is a script as well as a module, under two names
def _spin(part, parts, start, count, out):  # type: ignore[no-untyped-def]
    out[part] = _chains(start, count)  # type: ignore[call-arg]


@numba.njit(nogil=True)
def _spin_bytes(part, parts, start, count, out):  # type: ignore[no-untyped-def]
    out[part] = _byte_chains(start, count)  # type: ignore[call-arg]


def measure_peak(num_threads: int, repeats: int = 15) -> float:
    """GFLOP/s of `num_threads` threads together, the best of several short runs."""
    return 2 * TARGET.lanes * _chains_a_second(_spin, np.float32(0.5), num_threads, repeats) / 1e9


def measure_byte_peak(num_threads: int, repeats: int = 15) -> float:
    """The same of products of int8, which are four in each lane."""
    return 8 * TARGET.lanes * _chains_a_second(_spin_bytes, np.int32(0x01010101), num_threads, repeats) / 1e9


def measure_pair_peak(num_threads: int, repeats: int = 15) -> float:
    """The same of products of bfloat16, of some rows with some panels."""
    rows, columns, K, count = 96, 8 * TARGET.panel_width("f4"), 384, 1000
    words = words_of(K, "u4")
    shapes = (rows, words), (columns, words), (rows, columns)
    operands = [
        [aligned(shape, kind, zeros=True) for shape, kind in zip(shapes, ("u4", "u4", "f4"), strict=True)]
        for _ in range(num_threads)
    ]
    seconds = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        with ThreadPoolExecutor(num_threads) as threads:
            list(threads.map(lambda arrays: _spin_pairs(*arrays, count), operands))
        seconds = min(seconds, time.perf_counter() - begin)
    return 2 * rows * columns * K * count * num_threads / seconds / 1e9


@kernel
def _spin_pairs(a, b, c, count):  # type: ignore[no-untyped-def]
    rows, words, columns = a.shape[0], a.shape[1], b.shape[0]
    for _ in range(count):
        left, right, target = address(a, 0), address(b, 0), address(c, 0)
        product_rows_bf16(left, words, right, target, columns, rows, columns, words, 0)


def _chains_a_second(spin: Any, start: Any, num_threads: int, repeats: int) -> float:
    count, out = 1_000_000, np.zeros(num_threads, type(start))
    run_parallel(spin, num_threads, start, 1, out)
    seconds = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        run_parallel(spin, num_threads, start, count, out)
        seconds = min(seconds, time.perf_counter() - begin)
    return _CHAINS * count * num_threads / seconds


if __name__ == "__main__":
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else default_threads()
    print(f"{TARGET.name}: {measure_peak(threads):.0f} GFLOP/s in float32 on {threads} threads")
    print(f"{TARGET.name}: {measure_pair_peak(threads):.0f} GFLOP/s in bfloat16 on {threads} threads")
    print(f"{TARGET.name}: {measure_byte_peak(threads):.0f} GOP/s on int8 on {threads} threads")
