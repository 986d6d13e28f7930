"""Products of whole matrices on a card, in the type of the computation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, float32, int64, uint16

from nmt.rnn.kernels.cuda import ptx
from nmt.rnn.kernels.cuda.blocks import THREADS
from nmt.rnn.kernels.cuda.kernel import Kernel, Runtime
from nmt.rnn.kernels.cuda.rows import blocks_for


def _round(x, out, size):  # type: ignore[no-untyped-def]
    """out = x rounded to bfloat16, held as uint16."""
    for i in range(int64(cuda.grid(1)), size, int64(cuda.gridsize(1))):
        out[i] = uint16(ptx.to_bfloat16(x[i]))


ROUND = Kernel(_round, (float32[::1], uint16[::1], int64), THREADS, registers=32)


def rounded(runtime: Runtime, x: Any, out: Any = None) -> Any:
    """A contiguous float32 array rounded to bfloat16, held as uint16; in `out` where that is given."""
    out = runtime.xp.empty(x.shape, np.uint16) if out is None else out
    if x.size:
        runtime.launch(ROUND, blocks_for(x.size), x.reshape(-1), out.reshape(-1), x.size)
    return out


class RoundedProducts:
    """`Runtime.gemm` of float32 matrices with both sides rounded to bfloat16; what is uint16 already is taken as it
    is."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def __call__(
        self, a: Any, b: Any, out: Any, *, transpose_a: bool = False, transpose_b: bool = False, accumulate: bool = False
    ) -> None:
        """out = a @ b, or added to it; see `Runtime.gemm`."""
        a, b = (m if m.dtype == np.uint16 else rounded(self.runtime, m) for m in (a, b))
        self.runtime.gemm(a, b, out, transpose_a=transpose_a, transpose_b=transpose_b, accumulate=accumulate)
