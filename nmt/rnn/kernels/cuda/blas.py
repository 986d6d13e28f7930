"""Matrix products by cuBLAS, called directly: CuPy's wrapper does not work while a graph is recorded."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

from nmt.errors import DeviceError, ShapeError, how_to_install

WORKSPACE = 32 << 20  # bytes: what cuBLAS's manual recommends for GPUs of capability 9.0


class Matrix:
    """Rows [first, first + rows) of a contiguous array [..., n] of rows of n, and `width` columns from `column` on; -1:
    all columns. stride: the number of elements from row to row; size: the number of columns in the range; start: the
    index of the first element."""

    __slots__ = ("array", "column", "first", "rows", "size", "start", "stride")

    def __init__(self, array: Any, first: int, rows: int, column: int = 0, width: int = -1) -> None:
        self.array, self.first, self.rows, self.column = array, first, rows, column
        self.stride: int = array.shape[-1]
        self.size = self.stride if width < 0 else width
        self.start = first * self.stride + column

    def columns(self, column: int, width: int) -> Matrix:
        """Return the same rows of some columns."""
        return Matrix(self.array, self.first, self.rows, column, width)

    @property
    def is_inside(self) -> bool:
        """Return whether all of it lies in the array."""
        rows = (self.first + self.rows) * self.stride <= self.array.size
        return rows and min(self.first, self.column) >= 0 and self.column + self.size <= self.stride

    def view(self) -> Any:
        """Return the matrix as an array."""
        rows = self.array.reshape(-1, self.stride)
        return rows[self.first : self.first + self.rows, self.column : self.column + self.size]

    @classmethod
    def whole(cls, array: Any) -> Matrix:
        """Return all of a contiguous array [..., n] as rows of n."""
        return cls(array, 0, math.prod(array.shape[:-1]))


class Blas:
    """A cuBLAS handle for one stream, with a separate workspace, so that the same product always has the same bits.
    library: libcublas, loaded. stream: address of a stream. workspace: address of WORKSPACE bytes on the GPU. address:
    returns the address of an array's first element. Raises DeviceError if cuBLAS does not start."""

    def __init__(
        self, library: Any, stream: int, workspace: int, address: Callable[[Any], int] = lambda array: array.data.ptr
    ) -> None:
        self.library, self.address = library, address
        self.handle = ctypes.c_void_p()
        self._check(library.cublasCreate_v2(ctypes.byref(self.handle)))
        self._check(library.cublasSetStream_v2(self.handle, ctypes.c_void_p(stream)))
        self._check(library.cublasSetWorkspace_v2(self.handle, ctypes.c_void_p(workspace), ctypes.c_size_t(WORKSPACE)))

    def gemm(self, a: Matrix, b: Matrix, out: Matrix, transpose_a: bool, transpose_b: bool, accumulate: bool) -> None:
        """Multiply as `CupyRuntime.gemm`. Raises ShapeError for operands that do not fit. cuBLAS reads by columns, so
        it computes out^T = b^T @ a^T with both as stored."""
        rows, inner = (a.size, a.rows) if transpose_a else (a.rows, a.size)
        inner_b, columns = (b.size, b.rows) if transpose_b else (b.rows, b.size)
        contiguous = a.array.flags.c_contiguous and b.array.flags.c_contiguous and out.array.flags.c_contiguous
        if inner != inner_b or out.rows != rows or out.size != columns or not contiguous:
            shapes = [(x.rows, x.size) for x in (a, b, out)]
            raise ShapeError(
                f"gemm: shapes must fit and arrays be contiguous, got {shapes[0]}{'^T' * transpose_a} @ "
                f"{shapes[1]}{'^T' * transpose_b} into {shapes[2]}; correct the caller"
            )
        if not (a.is_inside and b.is_inside and out.is_inside):
            lie = [f"{x.first}+{x.rows}, {x.column}+{x.size} of {list(x.array.shape)}" for x in (a, b, out)]
            raise ShapeError(
                f"gemm: columns and rows must lie in their arrays, got {'; '.join(lie)}; correct the caller"
            )
        types = [x.array.dtype for x in (a, b, out)]
        known = _TYPES.get("".join(kind.char for kind in types))
        if known is None:
            raise ShapeError(
                f"gemm: factors must be float32, float64 or bfloat16 (as uint16) with a float32 result, got "
                f"{types[0]} @ {types[1]} into {types[2]}; correct the caller"
            )
        kind, sums, compute, scale = known
        if not rows * columns * inner:
            if rows * columns and not accumulate:
                out.view()[...] = 0
            return
        self._check(
            self.library.cublasGemmEx(
                *(self.handle, int(transpose_b), int(transpose_a), columns, rows, inner, scale[1]),
                *(self._place(b), kind, b.stride, self._place(a), kind, a.stride),
                *(scale[accumulate], self._place(out), sums, out.stride, compute, _ANY_ALGORITHM),
            )
        )

    def _place(self, matrix: Matrix) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.address(matrix.array) + matrix.start * matrix.array.itemsize)

    def _check(self, status: int) -> None:
        if status:
            raise DeviceError(f"cuBLAS: every call must succeed, got status {status}; run `make test-gpu` here")


_ANY_ALGORITHM = -1
_FLOATS, _DOUBLES = ([ctypes.byref(kind(n)) for n in (0, 1)] for kind in (ctypes.c_float, ctypes.c_double))
# NumPy's characters of the factors' and the result's types -> cudaDataType of both, cublasComputeType, the scales 0 and
# 1. float32 factors are never rounded to fewer bits.
_TYPES: dict[str, tuple[int, int, int, list[Any]]] = {
    "fff": (0, 0, 68, _FLOATS),
    "ddd": (1, 1, 70, _DOUBLES),
    "HHf": (14, 0, 68, _FLOATS),
}


def load_library() -> Any:
    """Load libcublas from the packages or from the system. Raises DeviceError."""
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    try:
        return ctypes.CDLL(load_nvidia_dynamic_lib("cublas").abs_path)
    except DynamicLibNotFoundError as error:
        raise DeviceError(f"cuda: cuBLAS must be installed, it is not; {how_to_install('cuda')}") from error
