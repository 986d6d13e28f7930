"""What is compiled for a kernel, and how often."""

import numba
import numpy as np
import pytest
from numba.core import event

from nmt.rnn.kernels import candidates, packing, search
from nmt.rnn.kernels.jit import inner_kernel

f4, i8 = numba.float32, numba.int64
VECTOR, MATRIX = f4[::1], f4[:, ::1]


class Compiled(event.Listener):
    """Modules of the functions that are compiled."""

    def __init__(self):
        self.modules = []

    def on_start(self, one):
        self.modules.append(one.data["dispatcher"].py_func.__module__)

    def on_end(self, one):
        pass


@pytest.mark.parametrize(
    ("kernel", "types"),
    [
        (packing.pack, (i8, i8, MATRIX, i8, i8, VECTOR)),
        (packing.pack_transposed, (i8, i8, MATRIX, i8, i8, VECTOR)),
        (packing.pack_bf16, (i8, i8, MATRIX, i8, i8, numba.uint32[::1])),
        (packing.pack_int8, (i8, i8, numba.int8[:, ::1], VECTOR, i8, i8, numba.int32[::1])),
        (search._store_chunks, (i8, i8, MATRIX, VECTOR, VECTOR, MATRIX, MATRIX, MATRIX)),
        (candidates._store_logits, (i8, i8, MATRIX, VECTOR, i8, MATRIX)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_no_text_of_error_messages_is_compiled(kernel, types):
    """Numba writes one wherever it cannot prove that the shapes of two arrays are equal: seconds of unicode."""
    anew = numba.njit(error_model="numpy")(kernel.py_func)
    with event.install_listener("numba:compile", listener := Compiled()):
        anew.compile(types)
    assert listener.modules
    assert not [name for name in listener.modules if "unicode" in name]


def test_text_is_noticed():
    @numba.njit
    def assign(target, source, n):
        target[:n] = source[n:]

    with event.install_listener("numba:compile", listener := Compiled()):
        assign.compile((VECTOR, VECTOR, i8))
    assert [name for name in listener.modules if "unicode" in name]


def test_a_kernel_is_not_compiled_once_more_for_each_number():
    @inner_kernel
    def twice(x, n):
        return x * n

    @numba.njit
    def caller(x, n):
        return twice(x, 2) + twice(x, 3) + twice(x, n)

    assert caller(np.float32(1), 4) == 9
    assert len(twice.signatures) == 1
