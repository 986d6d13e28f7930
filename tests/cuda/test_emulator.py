"""The emulator finds what kernels must not do, and gives the right numbers where they do right."""

import math

import numpy as np
import pytest
from numba import cuda, float32, float64, int32, uint32

from nmt.rnn.kernels.cuda.machine_code import ptx
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel, device_function

pytest.importorskip("greenlet", reason="the emulator needs greenlet, of the extra [dev]")

from tests.cuda_emulator import EmulatedRuntime, EmulationError  # noqa: E402

FLOATS, WORDS = float32[::1], uint32[::1]
SEEDS = [None, 1, 2, 3]


@device_function
def warp_sum(value):
    for distance in (16, 8, 4, 2, 1):
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, distance)
    return value


def block_sum(x, out, n):
    parts = cuda.shared.array(4, float32)
    thread = cuda.threadIdx.x
    i = cuda.grid(1)
    value = warp_sum(x[i] if i < n else float32(0))
    if thread % 32 == 0:
        parts[thread // 32] = value
    cuda.syncthreads()
    if thread == 0:
        total = float32(0)
        for w in range(4):
            total += parts[w]
        out[cuda.blockIdx.x] = total


@pytest.mark.parametrize("seed", SEEDS)
def test_block_sum(seed):
    x = np.arange(300, dtype=np.float32)
    out = np.zeros(3, np.float32)
    EmulatedRuntime(seed).launch(GPUKernel(block_sum, (FLOATS, FLOATS, int32), 128), 3, x, out, 300)
    np.testing.assert_array_equal(out, [x[:128].sum(), x[128:256].sum(), x[256:].sum()])


def test_number_types_stay():
    def kernel(x, y, out):
        out[0] = math.exp(x) * float32(2)
        out[1] = y

    out = np.zeros(2, np.float64)
    EmulatedRuntime().launch(GPUKernel(kernel, (float32, float64, float64[::1]), 1), 1, 0.1, 0.1, out)
    assert out[0] == np.exp(np.float32(0.1)) * np.float32(2) != np.exp(0.1) * 2
    assert out[1] == 0.1


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


def test_within_a_warp_its_own_barrier_suffices():
    def kernel(x):
        s = cuda.shared.array(64, float32)
        t = cuda.threadIdx.x
        s[t] = x[t]
        cuda.syncwarp()
        x[t] = s[t ^ 31]

    x = np.arange(64, dtype=np.float32)
    EmulatedRuntime(5).launch(GPUKernel(kernel, (FLOATS,), 64), 1, x)
    np.testing.assert_array_equal(x, np.arange(64) ^ 31)


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
def test_blocks_wait_for_one_another(seed):
    def kernel(x, flags):
        b = cuda.blockIdx.x
        if b > 0:
            while ptx.load_acquire(flags, b - 1) < uint32(1):
                pass
            x[b] = x[b - 1] + float32(1)
        ptx.add_release(flags, b, uint32(1))

    x = np.zeros(6, np.float32)
    kernel = GPUKernel(kernel, (FLOATS, WORDS), 1, cooperative=True)
    EmulatedRuntime(seed).launch(kernel, 6, x, np.zeros(6, np.uint32))
    np.testing.assert_array_equal(x, np.arange(6))


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


@pytest.mark.parametrize(("name", "k", "bits"), [("mma_bfloat16", 16, 16), ("mma_tf32", 8, 13)])
def test_tensor_core_products(name, k, bits):
    """Against a plain product of the numbers that the instruction reads, laid out as the manual has it."""
    rng = np.random.default_rng(3)
    A, B, C = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, k), (k, 8), (16, 8)))
    A, B = ((x.view(np.uint32) & np.uint32(-1 << bits & 0xFFFFFFFF)).view(np.float32) for x in (A, B))
    a, b = (x.view(np.uint32) for x in (A, B))
    lanes, per = [], 2 if k == 16 else 1
    for g, t in np.ndindex(8, 4):
        places = [(a, g, t * per), (a, g + 8, t * per), (a, g, t * per + k // 2), (a, g + 8, t * per + k // 2)]
        places += [(b.T, g, t * per), (b.T, g, t * per + k // 2)]
        words = [m[r, c] if per == 1 else (m[r, c] >> 16) | m[r, c + 1] for m, r, c in places]
        lanes.append([*words, *C[[g, g, g + 8, g + 8], [2 * t, 2 * t + 1] * 2]])
    product = getattr(ptx, name)

    def kernel(words, sums, out):
        i = cuda.threadIdx.x
        w, c = 6 * i, 4 * i
        r = product(
            words[w], words[w + 1], words[w + 2], words[w + 3], words[w + 4], words[w + 5],
            sums[c], sums[c + 1], sums[c + 2], sums[c + 3],
        )  # fmt: skip
        for n in range(4):
            out[c + n] = r[n]

    out = np.zeros((8, 4, 4), np.float32)
    words = np.array([lane[:6] for lane in lanes], np.uint32)
    sums = np.array([lane[6:] for lane in lanes], np.float32)
    EmulatedRuntime().launch(GPUKernel(kernel, (WORDS, FLOATS, FLOATS), 32), 1, words, sums, out)
    made = np.empty((16, 8), np.float32)
    made[:8, 0::2], made[:8, 1::2], made[8:, 0::2], made[8:, 1::2] = np.moveaxis(out, 2, 0)
    np.testing.assert_allclose(made, A @ B + C, rtol=1e-6, atol=1e-6)
