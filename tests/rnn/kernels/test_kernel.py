"""Calls of kernels from Python: what their arguments may be."""

import struct

import numpy as np
import pytest

from nmt.rnn.kernels.machine_code.jit import kernel
from nmt.rnn.kernels.threads.pool import run_parallel


@kernel
def _write(x, number, out):
    out[0] = x[x.shape[0] - 1] + number


@kernel
def _parts(part, parts, flag, x, out):
    out[part] = x[part] if flag else parts


def written(x, number):
    _write(x, number, out := np.zeros(1))
    return out[0]


@pytest.mark.parametrize(
    "number", [2, True, 2.5, np.float32(2.5), np.float64(2.5), np.int32(-3), np.int64(-3), np.uint64(3), np.bool_(True)]
)
def test_numbers_of_python_and_numpy_are_themselves(number):
    for dtype in ("f4", "f8", "i4", "i8"):
        assert written(np.array([7, 5], dtype), number) == 5 + number


def test_an_array_may_be_read_only_and_empty():
    x = np.array([7, 5], "f4")
    x.setflags(write=False)
    assert written(x, 1) == 6
    _parts(0, 3, False, np.empty(0, "f4"), out := np.zeros(3))
    assert out.tolist() == [3, 0, 0]


@pytest.mark.parametrize("x", [np.ones((3, 2), "f4")[:, 0], np.ones((3, 2), "f4").T[0], np.ones(4, "f4")[::-1]])
def test_an_array_that_is_not_contiguous_is_refused(x):
    with pytest.raises(RuntimeError, match="contiguous arrays"):
        written(x, 1)


@pytest.mark.parametrize("x", [np.ones(2, "f4"), np.ones(2, "i8")])
@pytest.mark.parametrize("call_before", [True, False])
def test_another_order_of_bytes_is_refused_and_does_no_harm(x, call_before):
    """Both before and after the kernel was compiled for this machine's order."""

    @kernel
    def write(x, out):
        out[0] = x[1]

    out = np.zeros(1)
    if call_before:
        write(x, out)
    with pytest.raises(TypeError, match="byte order"):
        write(x.astype(x.dtype.newbyteorder()), out)
    out[0] = 0
    write(x, out)
    assert out[0] == 1


@pytest.mark.parametrize("number", [np.float16(1), np.int8(1), np.array(1.0), "1", None, [1]])
def test_what_has_no_place_in_a_table_is_refused(number):
    """The address of a number of NumPy's is that of a copy, which is gone when compiled code reads it."""
    with pytest.raises(TypeError, match="_write: takes arrays"):
        written(np.ones(2, "f4"), number)


def test_a_number_that_is_too_large_is_refused():
    with pytest.raises(struct.error, match="out of range"):
        written(np.ones(2, "f4"), 1 << 64)


@pytest.mark.parametrize("parts", [0, 1, 3])
def test_parts_of_a_kernel_are_all_run(parts):
    out = np.zeros(4)
    run_parallel(_parts, parts, True, np.arange(1.0, 5), out)
    assert out.tolist() == [n + 1 if n < max(1, parts) else 0 for n in range(4)]
