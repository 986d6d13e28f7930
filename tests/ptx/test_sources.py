"""Indices outside of arrays, which Numba changes on the way to PTX; other mistakes are planted in PTX (test_machine.py)
and in the kernels of the package (test_kernels.py)."""

import numpy as np
import pytest
from numba import cuda, float32

from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel
from tests.devices import ptx_runtime_with

FLOATS = float32[::1]


def refused(function, size, what):
    runtime = ptx_runtime_with(seed=1)
    array = runtime.upload(np.zeros(size, np.float32))
    with pytest.raises(AssertionError, match=what):
        runtime.launch(GPUKernel(function, (FLOATS,), 32), 1, array)


def test_an_index_outside_of_an_array():
    """Numba adds the length of the array to an index below zero, as Python does."""

    def beyond(x):
        x[cuda.grid(1)] = 1.0

    def before(x):
        x[cuda.threadIdx.x - 1] = 1.0

    def read_before(x):
        x[cuda.threadIdx.x] = x[cuda.threadIdx.x - 1]

    refused(beyond, 31, "writes outside of every array")
    refused(before, 32, "writes outside of every array")
    refused(read_before, 32, "reads outside of every array|a race")


def test_a_number_beyond_those_of_a_thread():
    """It is no number: what a kernel computes of it is wrong."""

    def beyond(x):
        a = cuda.local.array(4, float32)
        for i in range(4):
            a[i] = x[i]
        total = float32(0)
        for i in range(5):
            total += a[i]
        x[0] = total

    runtime = ptx_runtime_with(seed=1)
    x = runtime.upload(np.ones(4, np.float32))
    runtime.launch(GPUKernel(beyond, (FLOATS,), 1), 1, x)
    assert np.isnan(runtime.download(x)[0])
