"""Kernels written as the package writes its own, each with a mistake that must be reported, by the PTX of them."""

import numpy as np
import pytest
from numba import cuda, float32, uint32

from nmt.rnn.kernels.cuda.machine_code import ptx
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel
from tests.devices import ptx_runtime_with

FLOATS, WORDS = float32[::1], uint32[::1]
SEEDS = [0, 1, 2, 3]


def refused(function, size, what, *, kind=FLOATS, threads=32, seed=1):
    runtime = ptx_runtime_with(seed=seed)
    array = runtime.upload(np.zeros(size, str(kind.dtype)))
    with pytest.raises(AssertionError, match=what):
        runtime.launch(GPUKernel(function, (kind,), threads), 1, array)


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


@pytest.mark.parametrize("seed", SEEDS)
def test_a_missing_barrier_is_found_in_any_order(seed):
    def reverse(x):
        s = cuda.shared.array(64, float32)
        t = cuda.threadIdx.x
        s[t] = x[t]
        x[t] = s[63 - t]

    refused(reverse, 64, "a race|nobody wrote", threads=64, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_missing_barrier_before_shared_memory_is_used_again(seed):
    def again(x):
        s = cuda.shared.array(64, float32)
        t = cuda.threadIdx.x
        for _ in range(2):
            s[t] = x[t]
            cuda.syncthreads()
            x[t] = s[63 - t]

    refused(again, 64, "a race", threads=64, seed=seed)


def test_a_barrier_that_some_threads_never_reach():
    def some(x):
        if cuda.threadIdx.x < 3:
            cuda.syncthreads()
        x[cuda.threadIdx.x] = cuda.shfl_xor_sync(0xFFFFFFFF, x[cuda.threadIdx.x], 1)

    refused(some, 32, "never reach|waits for threads|not at the same instruction")


def test_a_wait_for_a_word_that_nobody_writes():
    def wait(flags):
        while ptx.load_acquire(flags, 0) < uint32(1):
            pass

    refused(wait, 1, "waits for a word that nobody writes", kind=WORDS)
