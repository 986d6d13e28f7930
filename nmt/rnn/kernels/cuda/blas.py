"""Matrix products by cuBLAS, called directly: CuPy's wrapper does not work while a graph is recorded."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nmt.errors import DeviceError, ShapeError
from nmt.system.extras import how_to_install

__all__ = ["WORKSPACE", "Blas", "GemmLayout", "gemm_layout", "load_library"]

WORKSPACE = 32 << 20  # bytes: what cuBLAS's manual recommends for GPUs of capability 9.0


@dataclass(frozen=True)
class GemmLayout:
    """Sizes of out [rows, columns] = a [rows, inner] @ b [inner, columns], and the strides between stored rows."""

    rows: int
    columns: int
    inner: int
    stride_a: int
    stride_b: int
    stride_out: int


def gemm_layout(a: Any, b: Any, out: Any, transpose_a: bool, transpose_b: bool) -> GemmLayout | None:
    """Return the layout of a product; None if there is nothing to multiply. Raises ShapeError for operands that do not
    fit."""
    rows, inner = a.shape[::-1] if transpose_a else a.shape
    inner_b, columns = b.shape[::-1] if transpose_b else b.shape
    if inner != inner_b or out.shape != (rows, columns):
        raise ShapeError(
            f"gemm: shapes must fit, got {tuple(a.shape)}{'^T' * transpose_a} @ {tuple(b.shape)}{'^T' * transpose_b} "
            f"into {tuple(out.shape)}; correct the caller"
        )
    if not rows * columns * inner:
        return None
    return GemmLayout(rows, columns, inner, _stride(a), _stride(b), _stride(out))


def _stride(matrix: Any) -> int:
    row, column = (step // matrix.itemsize for step in matrix.strides)
    rows, columns = matrix.shape
    if (columns > 1 and column != 1) or (rows > 1 and row < columns):
        raise ShapeError(
            f"gemm: a row's elements must lie side by side and rows apart, got strides {matrix.strides} of "
            f"{tuple(matrix.shape)}; copy the array first"
        )
    return int(row) if rows > 1 else int(columns)


class Blas:
    """A cuBLAS handle for one stream, with a separate workspace, so that the same product always has the same bits.

    library: libcublas, loaded. stream: address of a stream. workspace: address of WORKSPACE bytes on the GPU.
    address: returns the address of an array's first element. Raises DeviceError if cuBLAS does not start.
    """

    def __init__(
        self, library: Any, stream: int, workspace: int, address: Callable[[Any], int] = lambda array: array.data.ptr
    ) -> None:
        self.library, self.address = library, address
        self.handle = ctypes.c_void_p()
        self._check(library.cublasCreate_v2(ctypes.byref(self.handle)))
        self._check(library.cublasSetStream_v2(self.handle, ctypes.c_void_p(stream)))
        self._check(library.cublasSetWorkspace_v2(self.handle, ctypes.c_void_p(workspace), ctypes.c_size_t(WORKSPACE)))

    def gemm(self, a: Any, b: Any, out: Any, transpose_a: bool, transpose_b: bool, accumulate: bool) -> None:
        """Multiply as `Runtime.gemm`.

        cuBLAS reads by columns, so it computes out^T = b^T @ a^T with both as stored.
        """
        layout = gemm_layout(a, b, out, transpose_a, transpose_b)
        if layout is None:
            if not accumulate:
                out[...] = 0
            return
        given, sums, compute, kind = _types(a, b, out)
        self._check(
            self.library.cublasGemmEx(
                self.handle,
                int(transpose_b),
                int(transpose_a),
                layout.columns,
                layout.rows,
                layout.inner,
                ctypes.byref(kind(1)),
                ctypes.c_void_p(self.address(b)),
                given,
                layout.stride_b,
                ctypes.c_void_p(self.address(a)),
                given,
                layout.stride_a,
                ctypes.byref(kind(accumulate)),
                ctypes.c_void_p(self.address(out)),
                sums,
                layout.stride_out,
                compute,
                _ANY_ALGORITHM,
            )
        )

    def _check(self, status: int) -> None:
        if status:
            raise DeviceError(f"cuBLAS: every call must succeed, got status {status}; run `make test-gpu` here")


_ANY_ALGORITHM = -1
# Element types of the factors and of the result -> cudaDataType of both, cublasComputeType, and the type of scales.
# float32 factors are never rounded to fewer bits.
_TYPES: dict[tuple[str, str, str], tuple[int, int, int, Any]] = {
    ("float32", "float32", "float32"): (0, 0, 68, ctypes.c_float),
    ("float64", "float64", "float64"): (1, 1, 70, ctypes.c_double),
    ("uint16", "uint16", "float32"): (14, 0, 68, ctypes.c_float),
}


def _types(a: Any, b: Any, out: Any) -> tuple[int, int, int, Any]:
    names = (a.dtype.name, b.dtype.name, out.dtype.name)
    if names not in _TYPES:
        raise ShapeError(
            f"gemm: factors must be float32, float64 or bfloat16 (as uint16) with a float32 result, got "
            f"{names[0]} @ {names[1]} into {names[2]}; correct the caller"
        )
    return _TYPES[names]


def load_library() -> Any:
    """Load libcublas from the packages or from the system. Raises DeviceError."""
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    try:
        return ctypes.CDLL(load_nvidia_dynamic_lib("cublas").abs_path)
    except DynamicLibNotFoundError as error:
        raise DeviceError(f"cuda: cuBLAS must be installed, it is not; {how_to_install('cuda')}") from error
