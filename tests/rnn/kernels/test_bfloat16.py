"""bfloat16 pairs: rounding, layouts, products and weight gradients, against NumPy on rounded numbers."""

import platform
from functools import partial
from hashlib import sha256

import numpy as np
import pytest

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import kernel
from nmt.rnn.kernels.products import bfloat16, microkernel, packing
from nmt.rnn.kernels.products import product as products
from nmt.rnn.kernels.products.gradients import weight_gradient_bf16
from nmt.rnn.kernels.products.packing import packed_size, words_of
from nmt.rnn.kernels.threads.pool import run_parallel
from tests.rnn.kernels.company import normal, packed, results_on

WIDTH = TARGET.panel_width("f4")
# Products of bfloat16 are exact in float32; what remains is the rounding of sums of up to 600, relative to
# the sum of the products' magnitudes.
EPSILON = 2e-6


def rounded(x):
    """float32 -> the nearest bfloat16, ties to even, as float32; what is below normal numbers is zero."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    upper = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    upper = np.where(bits & 0x7FFFFFFF < 0x00800000, bits & np.uint32(0x80000000), upper)
    upper = np.where(np.isnan(x), np.uint32(0x7FC00000), upper)
    return upper.astype(np.uint32).view(np.float32)


def paired(x):
    """Rows 2k and 2k + 1 of a matrix as one row of pairs; an odd last one with zeros."""
    even = np.vstack([x, np.zeros((len(x) % 2, x.shape[1]), "f4")])
    upper = rounded(even).view(np.uint32) >> 16
    return upper[0::2] | upper[1::2] << 16


packed_of = partial(packed, pack=packing.pack_bf16, kind="u4")


def as_exact(x):
    return rounded(x).astype("f8")


@kernel
def _columns(source, out):
    bfloat16.pair_columns(products.address(out, 0), products.address(source, 0), source.size)


@kernel
def _rows(earlier, later, out):
    first, second = products.address(earlier, 0), products.address(later, 0)
    bfloat16.pair_rows(products.address(out, 0), first, second, earlier.size)


def numbers():
    """Ordinary numbers of all sizes, ties between two neighbours, and everything that is special."""
    rng = np.random.default_rng(0)
    some = normal(rng, 400) * np.float32(10) ** rng.integers(-36, 36, 400)
    ties = (np.arange(0x3F80_0000, 0x3F84_0000, 0x8000, np.uint32)).view("f4")
    almost = np.array([0x3F807FFF, 0x3F808001, 0x3F817FFF, 0x3F818001, 0x7F7FFFFF, 0x007FFFFF, 0x00800000], "u4")
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3.4e38], "f4")
    return np.concatenate([some, ties, almost.view("f4"), special]).astype("f4")


@pytest.mark.parametrize("count", [1, 2, 15, 16, 31, 32, 33, 47, 423])
def test_rounding_to_the_nearest_even(count):
    for x in (numbers()[:count], numbers()[-count:]):
        out = np.full(count, 0xFFFFFFFF, "u4")
        _columns(x, out)
        np.testing.assert_array_equal(out[(count + 1) // 2 :], 0xFFFFFFFF)
        halves = (out[: (count + 1) // 2].view("u2").astype("u4") << 16).view("f4")
        np.testing.assert_array_equal(halves[:count], rounded(x))
        np.testing.assert_array_equal(halves[count:], 0)
        _rows(x, x[::-1].copy(), out)
        np.testing.assert_array_equal((out << 16).view("f4"), rounded(x))
        np.testing.assert_array_equal((out & np.uint32(0xFFFF0000)).view("f4"), rounded(x[::-1]))


def product_of(A, W, start):
    """What a product adds to `start`, and the largest error of it."""
    a, w = as_exact(A), as_exact(W)
    return start + a @ w, EPSILON * (np.abs(start) + np.abs(a) @ np.abs(w))


@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_what_is_no_number_stays_in_its_row_and_is_seen(special):
    rng = np.random.default_rng(1)
    A, W, C = normal(rng, 23, 33), np.abs(normal(rng, 33, 50)) + 1, np.empty((23, 50), "f4")
    A[7, 32] = A[9, 0] = special
    products.product(0, 1, A, 0, packed_of(W), C, 0, 33, 50, np.array([[0, 23]]), 0)
    np.testing.assert_array_equal(C[[7, 9]], np.full((2, 50), special))
    assert np.isfinite(np.delete(C, [7, 9], axis=0)).all()
    dW, G = np.zeros((33, 50), "f4"), np.abs(normal(rng, 23, 50)) + 1
    weight_gradient_bf16(0, 1, A, 0, 33, G, 0, 50, np.array([[0, 23]]), dW, 1)
    np.testing.assert_array_equal(dW[[0, 32]], np.full((2, 50), special))
    assert np.isfinite(dW[1:32]).all()


def results(parts):
    """Bytes of a product and a gradient whose order of sums could show."""
    rng = np.random.default_rng(4)
    X, G, W = normal(rng, 501, 131), normal(rng, 501, 300), normal(rng, 131, 300)
    C, dW, segments = np.empty((501, 300), "f4"), np.empty((131, 300), "f4"), np.array([[7, 494], [0, 7]])
    run_parallel(products.product, parts, X, 0, packed_of(W), C, 0, 131, 300, segments, 0)
    run_parallel(weight_gradient_bf16, parts, X, 0, 131, G, 0, 300, segments, dW, 0)
    return sha256(C.tobytes() + dW.tobytes()).hexdigest()


def test_the_division_of_rows_into_segments_does_not_show_in_a_gradient():
    rng = np.random.default_rng(5)
    X, G = normal(rng, 600, 20), normal(rng, 600, 40)
    found = []
    for runs in ([[0, 600]], [[0, 1], [1, 256], [257, 343]], [[n, 1] for n in range(600)]):
        dW = np.empty((20, 40), "f4")
        weight_gradient_bf16(0, 1, X, 0, 20, G, 0, 40, np.array(runs), dW, 0)
        found.append(dW.tobytes())
    assert len(set(found)) == 1


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="names of x86 targets")
@pytest.mark.parametrize("name", ["avx512_bf16", "avx512", "avx2"])
def test_every_target_without_a_matrix_unit_gives_the_same_bits(name):
    """Products of bfloat16 are exact in float32, so that only the order of the sums could differ."""
    if {"avx2": 8}.get(name, 16) > TARGET.lanes or (name == "avx512_bf16" and not TARGET.has_bf16):
        pytest.skip(f"this machine has no {name}")
    assert results_on(name, "test_bfloat16") == results_on("generic", "test_bfloat16")


@pytest.mark.parametrize("accumulate", [0, 1])
@pytest.mark.parametrize("segments", [[[0, 300]], [[0, 40], [60, 7], [100, 200]]])
def test_a_product_over_many_numbers_has_the_bits_of_one_block(segments, accumulate):
    rng, (K, N) = np.random.default_rng(1), (2 * 1100 + 1, 3 * WIDTH + 5)
    A, W, C = normal(rng, 300, K), normal(rng, K, N), normal(rng, 300, N)
    words = words_of(K, "u4")
    a, b, whole = np.empty(300 * words, "u4"), packed_of(W), np.empty(300 * N, "f4")
    run_parallel(products.product, 2, A, 0, b, C, 0, K, N, np.array(segments), 0)
    _rows_of_pairs(A, a, b, whole, 0, N, 300, N, K, words)
    active = np.concatenate([np.arange(first, first + rows) for first, rows in segments])
    np.testing.assert_array_equal(C[active], whole.reshape(300, N)[active])
    if accumulate:
        before, exact = C.copy(), as_exact(A) @ as_exact(W)
        run_parallel(products.product, 1, A, 0, b, C, 0, K, N, np.array(segments), 1)
        np.testing.assert_allclose(C[active], (before + exact)[active], rtol=0, atol=2e-3)


@pytest.mark.parametrize(("K", "N"), [(1000, 100), (500, 13 * WIDTH + 3)])
def test_a_gradient_of_many_rows_has_the_bits_of_its_parts(K, N):
    rng, rows = np.random.default_rng(2), 2048 + 37
    X, G = normal(rng, rows, K), normal(rng, rows, N)
    whole, sums = (np.zeros((K, N), "f4") for _ in range(2))
    run_parallel(weight_gradient_bf16, 1, X, 0, K, G, 0, N, np.array([[0, rows]]), whole, 1)
    for first in range(0, rows, 1024):
        part = np.array([[first, min(1024, rows - first)]])
        run_parallel(weight_gradient_bf16, 2, X, 0, K, G, 0, N, part, sums, 1)
    np.testing.assert_array_equal(whole, sums)
    np.testing.assert_allclose(whole, as_exact(X).T @ as_exact(G), rtol=0, atol=2e-3)


@pytest.mark.skipif(not TARGET.has_amx, reason="this processor has no AMX, or the system does not let us use it")
@pytest.mark.parametrize("rows", [1, 15, 16, 17, 31, 33, 64])
@pytest.mark.parametrize(("K", "N"), [(1, 1), (31, 16), (33, 17), (64, 33)])
def test_tiles_touch_nothing_beside_their_rows_and_columns(rows, K, N):
    """What surrounds C in memory stays, and what lies behind A and B does not matter."""
    rng = np.random.default_rng(rows)
    words, size = words_of(K, "u4"), packed_size(K, N, "u4")
    A, W = normal(rng, rows, K), normal(rng, K, N)
    fence = np.full(64 + rows * (N + 3) + 64, 7, "f4")
    a, b = np.full(rows * words + 512, 0x7FC07FC0, "u4"), np.full(size + 512, 0x7FC07FC0, "u4")
    b[:size] = packed_of(W)
    _rows_of_pairs(A, a, b, fence, 64, N + 3, rows, N, K, words)
    C = fence[64 : 64 + rows * (N + 3)].reshape(rows, N + 3)
    np.testing.assert_allclose(C[:, :N], as_exact(A) @ as_exact(W), rtol=0, atol=2e-5)
    assert (C[:, N:] == 7).all()
    assert (fence[:64] == 7).all()
    assert (fence[-64:] == 7).all()


@kernel
def _rows_of_pairs(A, a, b, out, start, ldc, M, N, K, words):
    bfloat16.to_pairs(products.address(A, 0), K, M, K, products.address(a, 0))
    c = products.address(out, start)
    microkernel.product_rows_bf16(products.address(a, 0), words, products.address(b, 0), c, ldc, M, N, words, 0)
