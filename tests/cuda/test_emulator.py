"""The emulator finds what kernels must not do, and gives the right numbers where they do right."""

import numpy as np
import pytest
from numba import cuda, float32, int32, uint32

from nmt.rnn.kernels.cuda.machine_code import ptx
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel

pytest.importorskip("greenlet", reason="the emulator needs greenlet, of the extra [dev]")

from tests.cuda_emulator import EmulatedRuntime, EmulationError  # noqa: E402

FLOATS, WORDS = float32[::1], uint32[::1]
SEEDS = [None, 1, 2, 3]


def refused(function, *arguments, signature=(FLOATS,), threads=32, grid=1, seed=None, cooperative=False):
    with pytest.raises(EmulationError) as caught:
        EmulatedRuntime(seed).launch(GPUKernel(function, signature, threads, cooperative=cooperative), grid, *arguments)
    return str(caught.value)


def test_index_outside_is_an_error():
    def beyond(x):
        x[cuda.grid(1)] = 1.0

    def before(x):
        x[cuda.threadIdx.x - 1] = 1.0

    assert "index 31 of an array of 31" in refused(beyond, np.zeros(31, np.float32))
    assert "index -1 of an array of 32" in refused(before, np.zeros(32, np.float32))


@pytest.mark.parametrize("seed", SEEDS)
def test_missing_barrier_is_found_in_any_order(seed):
    def reverse(x):
        s = cuda.shared.array(64, float32)
        t = cuda.threadIdx.x
        s[t] = x[t]
        x[t] = s[63 - t]

    message = refused(reverse, np.zeros(64, np.float32), threads=64, seed=seed)
    assert "no barrier since" in message or "nobody has written" in message


@pytest.mark.parametrize("seed", SEEDS)
def test_missing_barrier_before_shared_memory_is_used_again(seed):
    def kernel(x):
        s = cuda.shared.array(64, float32)
        t = cuda.threadIdx.x
        for _ in range(2):
            s[t] = x[t]
            cuda.syncthreads()
            x[t] = s[63 - t]

    assert "no barrier since" in refused(kernel, np.zeros(64, np.float32), threads=64, seed=seed)


def test_local_memory_is_poisoned():
    def kernel(x):
        a = cuda.local.array(4, float32)
        a[0] = x[0]
        x[0] = a[0] + a[3]

    x = np.ones(1, np.float32)
    EmulatedRuntime().launch(GPUKernel(kernel, (FLOATS,), 1), 1, x)
    assert np.isnan(x[0])


def test_barrier_that_some_threads_never_reach():
    def kernel(x):
        if cuda.threadIdx.x < 3:
            cuda.syncthreads()
        cuda.shfl_xor_sync(0xFFFFFFFF, 1, 1)

    assert "wait at a barrier" in refused(kernel, np.zeros(1, np.float32))


def test_wait_for_a_word_that_nobody_writes():
    def kernel(flags):
        while ptx.load_acquire(flags, 0) < uint32(1):
            pass

    assert "nobody writes" in refused(kernel, np.zeros(1, np.uint32), signature=(WORDS,))


@pytest.mark.parametrize("seed", SEEDS)
def test_grid_barrier(seed):
    def kernel(x, y, n):
        grid = cuda.cg.this_grid()
        i = cuda.grid(1)
        x[i] = float32(i + 1)
        grid.sync()
        y[i] = x[n - 1 - i]

    x, y = np.zeros(8, np.float32), np.zeros(8, np.float32)
    EmulatedRuntime(seed).launch(GPUKernel(kernel, (FLOATS, FLOATS, int32), 4, cooperative=True), 2, x, y, 8)
    np.testing.assert_array_equal(y, np.arange(8, 0, -1))


def test_arguments_must_be_as_declared():
    def kernel(x):
        x[0] = 1.0

    assert "must be an array of float32, got float64" in refused(kernel, np.zeros(1))
    assert "must be C-contiguous" in refused(kernel, np.zeros((4, 4), np.float32)[:, :2])
    assert "1 arguments, got 2" in refused(kernel, np.zeros(1, np.float32), 1)
