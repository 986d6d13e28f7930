"""The calls of cuBLAS that `Blas` makes, by a library that multiplies by columns as cuBLAS does."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

# cudaDataType -> element type; types of factors and sums -> the cublasComputeType that goes with them.
NUMBERS = {0: np.float32, 1: np.float64, 14: np.uint16}
COMPUTE = {(0, 0): 68, (1, 1): 70, (14, 0): 68}


class ByColumns:
    """memory: bytes at an address, (start, size, handle); submit: does work for a handle's stream."""

    status = 0

    def __init__(
        self,
        memory: Callable[[int, int, Any], np.ndarray] | None = None,
        submit: Callable[[Any, Callable[[Any], None]], None] = lambda handle, work: work(None),
    ) -> None:
        self.memory, self.submit = memory or _raw, submit
        self.handles = 0
        self.streams: dict[int, int] = {}
        self.workspaces: dict[int, int] = {}  # address to size

    def cublasCreate_v2(self, handle: Any) -> int:  # noqa: N802
        self.handles += 1
        handle._obj.value = self.handles
        return self.status

    def cublasSetStream_v2(self, handle: Any, stream: Any) -> int:  # noqa: N802
        self.streams[handle.value] = stream.value
        return 0

    def cublasSetWorkspace_v2(self, handle: Any, workspace: Any, size: Any) -> int:  # noqa: N802
        start = workspace.value
        assert all(start + size.value <= at or at + n <= start for at, n in self.workspaces.items()), "another handle's"
        self.workspaces[start] = size.value
        return 0

    def cublasGemmEx(  # noqa: N802
        self,
        handle: Any,
        op_a: int,
        op_b: int,
        m: int,
        n: int,
        k: int,
        alpha: Any,
        A: Any,
        kind_a: int,
        lda: int,
        B: Any,
        kind_b: int,
        ldb: int,
        beta: Any,
        C: Any,
        kind_c: int,
        ldc: int,
        compute: int,
        algorithm: int,
    ) -> int:
        assert kind_a == kind_b and compute == COMPUTE[kind_a, kind_c]
        one, other = alpha._obj.value, beta._obj.value  # on the host, read at the call

        def matrix(at: Any, kind: int, rows: int, columns: int, stride: int, stream: Any) -> np.ndarray:
            assert stride >= max(1, rows), "the leading dimension"
            size = np.dtype(NUMBERS[kind]).itemsize
            flat = self.memory(at.value, ((columns - 1) * stride + rows) * size, stream).view(NUMBERS[kind])
            return np.lib.stride_tricks.as_strided(flat, (rows, columns), (size, size * stride))

        def work(stream: Any) -> None:
            a = _wide(matrix(A, kind_a, *((k, m) if op_a else (m, k)), lda, stream))
            b = _wide(matrix(B, kind_b, *((n, k) if op_b else (k, n)), ldb, stream))
            c = matrix(C, kind_c, m, n, ldc, stream)
            product = (a.T if op_a else a) @ (b.T if op_b else b)
            c[...] = one * product + (other * c if other else 0)

        self.submit(handle, work)
        return 0


def _raw(start: int, size: int, stream: Any) -> np.ndarray:
    return np.ctypeslib.as_array(ctypes.cast(start, ctypes.POINTER(ctypes.c_uint8)), shape=(size,))


def _wide(matrix: np.ndarray) -> np.ndarray:
    return (matrix.astype(np.uint32) << 16).view(np.float32) if matrix.dtype == np.uint16 else matrix
