"""What is said to cuBLAS, taken by a library that multiplies by columns as it does, on the processor."""

import numpy as np
import pytest

from nmt.errors import DeviceError, ShapeError
from nmt.rnn.kernels.cuda.blas import Blas, Matrix
from tests.cuda_standin.cublas import ByColumns


@pytest.fixture
def blas():
    return Blas(ByColumns(), 0, 0, address=lambda array: array.ctypes.data)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_every_way_to_lie(blas, transpose_a, transpose_b, accumulate, dtype):
    rng = np.random.default_rng(1)

    def part(rows, columns):
        return Matrix(rng.standard_normal((rows + 2, columns + 3)).astype(dtype), 1, rows, 2, columns)

    given = part(*((3, 5) if transpose_a else (5, 3))), part(*((7, 3) if transpose_b else (3, 7))), part(5, 7)
    (a, b, out), around = (m.view() for m in given), given[2].array.copy()
    expected = (a.T if transpose_a else a) @ (b.T if transpose_b else b) + (out if accumulate else 0)
    blas.gemm(*given, transpose_a, transpose_b, accumulate)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    around[1:-1, 2:-1] = out
    np.testing.assert_array_equal(given[2].array, around)


def test_nothing_to_add(blas):
    out = np.ones((2, 3))
    given = (Matrix.whole(array) for array in (np.ones((2, 0)), np.ones((0, 3)), out))
    a, b, c = given
    blas.gemm(a, b, c, False, False, True)
    np.testing.assert_array_equal(out, 1)
    blas.gemm(a, b, c, False, False, False)
    np.testing.assert_array_equal(out, 0)


def test_what_does_not_fit_is_refused(blas):
    square = np.ones((4, 4), np.float32)
    whole = Matrix.whole(square)
    with pytest.raises(ShapeError, match=r"\(4, 4\) @ \(3, 4\) into \(4, 4\)"):
        blas.gemm(whole, Matrix(square, 0, 3), whole, False, False, False)
    with pytest.raises(ShapeError, match="contiguous"):
        blas.gemm(Matrix(np.asfortranarray(np.ones((4, 4), np.float32)), 0, 4), whole, whole, False, False, False)
    with pytest.raises(ShapeError, match="float64"):
        blas.gemm(whole, whole, Matrix.whole(np.ones((4, 4))), False, False, False)


def test_a_failed_call_is_a_device_error(monkeypatch):
    monkeypatch.setattr(ByColumns, "status", 1)
    with pytest.raises(DeviceError, match="status 1"):
        Blas(ByColumns(), 0, 0)
