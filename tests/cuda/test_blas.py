"""What is said to cuBLAS, taken by a library that multiplies by columns as it does, on the processor."""

import numpy as np
import pytest

from nmt.errors import DeviceError, ShapeError
from nmt.rnn.kernels.cuda.blas import Blas
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

    def view(rows, columns):
        return rng.standard_normal((rows, columns + 3)).astype(dtype)[:, 2 : 2 + columns]

    a, b, out = view(*((3, 5) if transpose_a else (5, 3))), view(*((7, 3) if transpose_b else (3, 7))), view(5, 7)
    expected = (a.T if transpose_a else a) @ (b.T if transpose_b else b) + (out if accumulate else 0)
    blas.gemm(a, b, out, transpose_a, transpose_b, accumulate)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_nothing_to_add(blas):
    out = np.ones((2, 3))
    blas.gemm(np.ones((2, 0)), np.ones((0, 3)), out, False, False, True)
    np.testing.assert_array_equal(out, 1)
    blas.gemm(np.ones((2, 0)), np.ones((0, 3)), out, False, False, False)
    np.testing.assert_array_equal(out, 0)


def test_what_does_not_fit_is_refused(blas):
    square = np.ones((4, 4), np.float32)
    with pytest.raises(ShapeError, match="shapes must fit"):
        blas.gemm(square, np.ones((3, 4), np.float32), square, False, False, False)
    with pytest.raises(ShapeError, match="side by side"):
        blas.gemm(square.T[:, :2].T.copy(order="F"), square, np.ones((2, 4), np.float32), False, False, False)
    with pytest.raises(ShapeError, match="float64"):
        blas.gemm(square, square, np.ones((4, 4)), False, False, False)


def test_a_failed_call_is_a_device_error(monkeypatch):
    monkeypatch.setattr(ByColumns, "status", 1)
    with pytest.raises(DeviceError, match="status 1"):
        Blas(ByColumns(), 0, 0)
