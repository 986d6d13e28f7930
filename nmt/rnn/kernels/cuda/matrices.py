"""Products on a GPU: rows of arrays by weights, and sums over rows; in bfloat16 both factors are rounded first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.kernels.cuda import tuning
from nmt.rnn.kernels.cuda.blas import Matrix
from nmt.rnn.kernels.cuda.gpu_base import GPUBase
from nmt.rnn.kernels.cuda.rows import row_kernels
from nmt.rnn.kernels.loops.row_writer import Weight

BITS = np.dtype(np.uint32)
BFLOAT16 = np.dtype(np.uint16)


class Matrices:
    """The products of one pass, and the memory for rounded and gathered factors."""

    def __init__(self, device: GPUBase, dtype: np.dtype, in_bfloat16: bool, weights: Weights) -> None:
        self.device, self.dtype, self.in_bfloat16, self.weights = device, dtype, in_bfloat16, weights
        self.runtime = device.runtime
        self._kept: dict[str, tuple[Any, Any]] | None = None  # by role, that of the last use last

    @contextmanager
    def keeping_factors(self) -> Iterator[None]:
        """Return a context in which a factor that is rounded or gathered is made once, for as long as its memory is not
        needed for another; nothing that is read may change inside."""
        self._kept = {"left": (None, None), "right": (None, None)}
        try:
            yield
        finally:
            self._kept = None

    # ------------------------------------------------------------ by weights

    def multiply(self, left: Matrix, key: Weight, out: Matrix, index: Array | None = None) -> None:
        """Compute out = left @ rows of a parameter, or their transpose. index: the rows whose results are needed, on
        the GPU; the others' are arbitrary, or not written."""
        name, start, rows, transposed = key
        weight = self.weight(name)
        if index is not None and len(index) >= tuning.GATHER_BELOW * left.rows:
            index = None
        a = self._factor(left, index, "left")
        c = out if index is None else self._matrix("product", len(index), out.size, self.dtype)
        self.runtime.gemm(a, Matrix(weight, start, rows), c, transpose_b=transposed)
        if index is not None:
            self.put_rows(c.array, index, out)

    def reserve(self, count: int, width: int, key: Weight) -> list[Array]:
        """Allocate the memory of a product of `count` rows in advance; return the arrays it reads and rounds into."""
        left = [self.device.buffer("left", (count * width,), BFLOAT16)] if self.in_bfloat16 else []
        return [self.weight(key[0]), *left]

    def weight(self, name: str) -> Array:
        """Return a whole parameter as products read it."""
        return rounded(self.device, self.weights, name) if self.in_bfloat16 else self.weights[name]

    def keep(self, array: Array, old: int, t: int, lengths: Array, count: int) -> None:
        """Copy slot `old` of [2, B, n] to the other slot, for rows below `count` that ended before step t."""
        _, B, width = array.shape
        given = array, old, B, width, t, lengths, count
        row_kernels.launch(self.runtime, row_kernels.keep_rows, self.dtype, count * width, *given)

    # ------------------------------------------------------------ sums over rows

    def add_outer(self, left: Matrix, right: Matrix, index: Array | None, out: Matrix) -> None:
        """Add to out [K, N] the sum over rows in `index` (None: all) of outer products of left [., K], right [., N]."""
        a = self._factor(left, index, "left")
        b = self._factor(right, index, "right", a)
        self.runtime.gemm(a, b, out, transpose_a=True, accumulate=True)

    def add_sum(self, rows: Matrix, index: Array | None, out: Array) -> None:
        """Add to out [N] the sum of the rows in `index`: of 64 rows at a time, then of these sums, in order."""
        if not self.in_bfloat16:  # then they may be there as a factor
            rows, index = self._factor(rows, index, "right"), None
        count = rows.rows if index is None else len(index)
        chunks = -(-count // row_kernels.SUM_ROWS)
        if not chunks:
            return
        threads = row_kernels.threads_for(rows.size)
        blocks = -(-rows.size // threads)
        parts = self.device.buffer("sums", (chunks, rows.size), self.dtype)
        given = rows.array, rows.start, rows.stride, rows.size, count, row_kernels.SUM_ROWS, 0.0
        make = row_kernels.sum_columns if index is None else row_kernels.sum_gathered
        last = (parts,) if index is None else (index, parts)
        self.runtime.launch(make(self.dtype, threads), (blocks, chunks), *given, *last)
        self.runtime.launch(row_kernels.add_columns(self.dtype, threads), blocks, parts, rows.size, chunks, out)

    def _factor(self, rows: Matrix, index: Array | None, role: str, other: Matrix | None = None) -> Matrix:
        """Return the rows in `index` as a factor, rounded if products are in bfloat16; `other`: the other factor."""
        rounds = self.in_bfloat16 and rows.array.dtype != BFLOAT16
        if index is None and not rounds:
            return rows
        if self._kept is None:
            return self._made(rows, role, index, rounds)
        key = rows.array.data.ptr, rows.start, rows.rows, rows.size, id(index)
        role = next((role for role, (of, _) in self._kept.items() if of == key), "")
        if not role:
            role = next(role for role, (_, made) in self._kept.items() if made is None or made is not other)
            self._kept[role] = key, self._made(rows, role, index, rounds)
        used = self._kept.pop(role)  # put back as the last
        self._kept[role] = used
        return used[1]

    # ------------------------------------------------------------ copies

    def _made(self, rows: Matrix, role: str, index: Array | None, rounds: bool) -> Matrix:
        """Return a copy of the rows, or of those in `index`; as bfloat16 if it `rounds`."""
        count = rows.rows if index is None else len(index)
        out = self._matrix(role, count, rows.size, BFLOAT16 if rounds else rows.array.dtype)
        make = row_kernels.gather
        if rounds:
            make = row_kernels.round_rows if index is None else row_kernels.round_gathered
        last = (out.array,) if index is None else (index, out.array)
        given = rows.array.view(BITS) if rounds else rows.array, rows.start, rows.stride, rows.size, count
        row_kernels.launch(self.runtime, make, out.array.dtype, out.array.size, *given, *last)
        return out

    def _matrix(self, role: str, rows: int, columns: int, dtype: np.dtype) -> Matrix:
        return Matrix(self.device.buffer(role, (rows, columns), dtype), 0, rows)

    def put_rows(self, given: Array, index: Array, out: Matrix) -> None:
        """Write the rows of `given` [., n] to the rows `index` (on the GPU) of `out`."""
        size = out.start, out.stride, out.size, len(given)
        row_kernels.launch(self.runtime, row_kernels.scatter, self.dtype, given.size, given, *size, index, out.array)


def rounded(device: GPUBase, weights: Weights, name: str) -> Array:
    """Return a whole parameter in bfloat16, made at first use and after a change: all at once if in one memory."""
    whole = weights.whole

    def round_all(array: Array, out: Array | None) -> Array:
        out, size = device.xp.empty(array.shape, BFLOAT16) if out is None else out, array.size
        given = array.view(BITS), 0, size, size, 1, out
        row_kernels.launch(device.runtime, row_kernels.round_rows, BFLOAT16, size, *given)
        return out

    def make(out: Array | None) -> Array:
        matrix: Array = weights[name]
        at = -1 if whole is None else (matrix.data.ptr - whole.data.ptr) // matrix.itemsize
        if whole is None or not 0 <= at < whole.size:
            return round_all(matrix, out)
        of_whole = weights.of_whole(("bfloat16",), lambda former: round_all(whole, former))
        return of_whole[at : at + matrix.size].reshape(matrix.shape) if out is None else out

    return weights.derived(name, ("bfloat16",), make)
