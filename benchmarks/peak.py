"""How many float32 operations a second this machine can do at all: multiply-adds on registers, no
memory.

Every benchmark reports its speed as a share of this. Run: python benchmarks/peak.py [threads]
"""

import sys
import time
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils

from nmt.rnn.kernels.features import TARGET
from nmt.rnn.kernels.jit import intrinsic, numba_types
from nmt.rnn.kernels.threads import default_threads, run_parallel

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


@numba.njit(nogil=True)  # not cached: this file is a script as well as a module, under two names
def _spin(part, parts, start, count, out):  # type: ignore[no-untyped-def]
    out[part] = _chains(start, count)  # type: ignore[call-arg]


def measure_peak(num_threads: int, repeats: int = 15) -> float:
    """GFLOP/s of `num_threads` threads together, the best of several short runs."""
    count, out, start = 1_000_000, np.zeros(num_threads, np.float32), np.float32(0.5)
    run_parallel(_spin, num_threads, start, 1, out)
    seconds = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        run_parallel(_spin, num_threads, start, count, out)
        seconds = min(seconds, time.perf_counter() - begin)
    return 2 * TARGET.lanes * _CHAINS * count * num_threads / seconds / 1e9


if __name__ == "__main__":
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else default_threads()
    print(f"{TARGET.name}: {measure_peak(threads):.0f} GFLOP/s in float32 on {threads} threads")
