"""Quads of int8 against whole-number arithmetic, on every kind of row; panels in 4 bits have the same bits."""

import platform
from hashlib import sha256

import numpy as np
import pytest

from nmt.rnn.arrays.weights import QUADS, Quantised, Weights, quantise
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import kernel
from nmt.rnn.kernels.products import four_bits, int8, packing
from nmt.rnn.kernels.products import product as products
from nmt.rnn.kernels.products.four_bits import quantise_to_4_bits
from nmt.rnn.kernels.products.packing import PACKING, packed_size, packed_weight, words_of
from nmt.rnn.kernels.threads.pool import run_parallel
from tests.processes import python
from tests.rnn.kernels.company import normal, results_on

WIDTH = TARGET.panel_width("f4")
SIZES = [(1, 1), (7, 31), (13, 64), (32, WIDTH), (33, WIDTH + 1), (64, 2 * WIDTH), (129, 100), (514, 70)]


def in_whole_numbers(x, axis):
    """float32 -> q and scale along an axis, number by number as the module's docstring says."""
    moved = np.moveaxis(np.asarray(x, "f4"), axis, -1)
    q, scales = np.zeros(moved.shape, np.int64), np.zeros(moved.shape[:-1], "f4")
    for index in np.ndindex(moved.shape[:-1]):
        line = moved[index]
        if not np.isfinite(line).all():
            scales[index] = np.nan
            continue
        largest = np.abs(line).max(initial=0)
        if largest >= 2.0**-119:
            scales[index] = largest / np.float32(127)
            inverse = np.float32(127) / largest
            q[index] = np.rint(line * inverse)
    return np.moveaxis(q, -1, axis), scales


def expected_product(A, W):
    """Exact sums of whole numbers, scaled as the tile does it: float32(sum) * column * row."""
    (a, rows), (w, columns) = in_whole_numbers(A, 1), in_whole_numbers(W, 0)
    sums = a @ w
    assert np.abs(sums).max(initial=0) < 2**31
    return sums.astype("f4") * columns * rows[:, None]


def packed_of(weights, row0=0, row1=None, parts=1):
    row1 = len(weights) if row1 is None else row1
    q = quantise(weights, by_rows=False)
    out = np.full(packed_size(row1 - row0, weights.shape[1], "i4"), -1, "i4")
    run_parallel(packing.pack_int8, parts, q.numbers, q.scales, row0, row1, out)
    return out


@kernel
def _quads(source, out):
    rows, K = source.shape
    int8.to_quads(products.address(source, 0), K, rows, K, products.address(out, 0))


def rounded(x):
    """The bytes of each row as q, what lies behind the last number, and the scales."""
    words = words_of(x.shape[1], "i4")
    out = np.full((len(x), words), -1, "i4")
    _quads(x, out)
    read = (out[:, : words - int8.TAIL].view("u1") - np.uint8(int8.OFFSET)).view("i1").astype(int)
    return read[:, : x.shape[1]], read[:, x.shape[1] :], out[:, words - int8.TAIL].view("f4")


def hostile_rows(K):
    """Rows that are hard on a scale: special numbers first and last, extremes, ties, nothing at all."""
    rng = np.random.default_rng(K)
    rows = [np.zeros(K), np.full(K, 3.0), np.full(K, -0.0), np.full(K, 1e-45), np.full(K, 1e-39), np.full(K, 3.4e38)]
    rows += [normal(rng, K) * scale for scale in (1, 1e-37, 1.6e-36, 1e-30, 1e30, 3e37)]
    rows += [np.r_[254.0, np.arange(K - 1) + 0.5], np.r_[np.arange(K - 1) - 0.5, -254.0]]
    for value in (np.inf, -np.inf, np.nan, 3.4e38, 1e-45):
        rows += [np.r_[value, normal(rng, K - 1)], np.r_[normal(rng, K - 1), value]]
    return np.array(rows, "f4")


@pytest.mark.parametrize("K", [1, 2, 3, 4, 15, 16, 17, 31, 33, 64, 515])
def test_rows_become_the_nearest_whole_numbers(K):
    x = hostile_rows(K)
    found, behind, scales = rounded(x)
    q, expected = in_whole_numbers(x, 1)
    np.testing.assert_array_equal(scales, expected)
    finite = np.isfinite(scales)
    np.testing.assert_array_equal(found[finite], q[finite])
    assert np.abs(found[finite]).max() <= 127
    np.testing.assert_array_equal(behind[finite], 0)


@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("K", [1, 2, 17, 515])
def test_weights_become_the_nearest_whole_numbers_by_channel(K, by_rows):
    channels = hostile_rows(K)
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        found = quantise(channels if by_rows else np.ascontiguousarray(channels.T), by_rows=by_rows)
    q, scales = in_whole_numbers(channels, 1)
    np.testing.assert_array_equal(found.scales, scales)
    np.testing.assert_array_equal(found.numbers if by_rows else found.numbers.T, q)
    restored = found.restored() if by_rows else found.restored().T
    finite = np.isfinite(scales)
    # Half a step, and the rounding of the number in float32.
    most = (0.5 * scales[finite, None].astype("f8")) * (1 + 1e-5) + 2.0**-119
    assert (np.abs(restored - channels)[finite].astype("f8") <= most).all()
    assert np.isnan(restored[~finite]).all()


@pytest.mark.parametrize(("K", "N"), SIZES)
@pytest.mark.parametrize("parts", [1, 3])
def test_packing_is_panels_of_quads_with_starts_scales_and_no_distance_and_so_is_that_of_a_transpose(K, N, parts):
    weights = normal(np.random.default_rng(K), K + 2, N)
    q, scales = in_whole_numbers(weights, 0)
    words, panels = (K + 3) // 4, -(-N // WIDTH)
    padded = np.zeros((4 * words, panels * WIDTH), np.int8)
    padded[:K, :N] = q[1 : K + 1]
    quads = np.ascontiguousarray(padded.reshape(words, 4, -1).transpose(0, 2, 1)).view("i4")[..., 0]
    starts = -int8.OFFSET * padded.sum(0, dtype="i4")
    ends = np.zeros(panels * WIDTH, "f4")
    ends[:N] = scales
    whole = np.vstack([quads, starts, ends.view("i4"), np.zeros_like(starts)])
    expected = whole.reshape(-1, panels, WIDTH).transpose(1, 0, 2).ravel()
    np.testing.assert_array_equal(packed_of(weights, 1, K + 1, parts), expected)
    rows = np.ascontiguousarray(np.vstack([np.ones((1, K), "f4"), weights[:K].T]))
    q = quantise(rows, by_rows=True)
    out = np.full(packed_size(K, N, "i4"), -1, "i4")
    run_parallel(packing.pack_transposed_int8, parts, q.numbers, q.scales, 1, N + 1, out)
    np.testing.assert_array_equal(out, packed_of(weights[:K]))


def test_the_largest_sums_are_exact():
    """All bytes at their ends, 30,000 of them: no sum on the way may overflow or saturate."""
    K = 30_000
    A = np.where(np.arange(4)[:, None] % 2, np.float32(1), np.float32(-1)) * np.ones((4, K), "f4")
    A[2:, ::2] *= -1
    W = np.where(np.arange(6) % 2, np.float32(1), np.float32(-1)) * np.ones((K, 6), "f4")
    W[::2, 3:] *= -1
    C = np.empty((4, 6), "f4")
    products.product(0, 1, A, 0, packed_of(W), C, 0, K, 6, np.array([[0, 4]]), 0)
    np.testing.assert_array_equal(C, expected_product(A, W))
    np.testing.assert_allclose(C, A @ W, rtol=1e-5)


@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_what_is_not_finite_stays_visible_and_in_its_row_and_column(special):
    rng = np.random.default_rng(2)
    A, W, C = normal(rng, 23, 33), normal(rng, 33, 50), np.empty((23, 50), "f4")
    A[7, 0], A[9, 32], W[5, 3] = special, -special, special
    products.product(0, 1, A, 0, packed_of(W), C, 0, 33, 50, np.array([[0, 23]]), 0)
    assert np.isnan(C[[7, 9]]).all()
    assert np.isnan(C[:, 3]).all()
    assert np.isfinite(np.delete(np.delete(C, [7, 9], axis=0), 3, axis=1)).all()


def results(parts):
    """Bytes of products of ordinary and of hostile rows."""
    rng = np.random.default_rng(4)
    hostile = hostile_rows(131)
    A, W = np.vstack([normal(rng, 300, 131), hostile[np.isfinite(hostile).all(1)]]), normal(rng, 131, 300)
    C = np.empty((len(A), 300), "f4")
    run_parallel(products.product, parts, A, 0, packed_of(W), C, 0, 131, 300, np.array([[7, len(A) - 7], [0, 7]]), 0)
    return sha256(C.tobytes()).hexdigest()


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="names of x86 targets")
@pytest.mark.parametrize(
    ("name", "sums"),
    [
        ("avx512_vnni", "vnni"),
        ("avx512", "pairs"),
        ("avx2_vnni", "vnni"),
        ("avx2", "pairs"),
        ("generic", "pairs"),
        ("generic", "bytes"),
    ],
)
def test_every_target_gives_the_same_bits(name, sums, tmp_path):
    lanes = {"avx512_vnni": 16, "avx512": 16, "avx2_vnni": 8, "avx2": 8}.get(name, 0)
    if lanes > TARGET.lanes or (sums == "vnni" and TARGET.byte_sums != "vnni"):
        pytest.skip(f"this machine has no {name}")
    changed = f"from nmt.rnn.kernels.machine_code.features import TARGET; assert TARGET.byte_sums == {sums!r}; "
    environment = {}
    if sums == "bytes":
        changed = (
            "from dataclasses import replace; from nmt.rnn.kernels.machine_code import features; "
            f"features.TARGET = replace(features.TARGET, byte_sums={sums!r}); "
        )
        environment = {"NUMBA_CACHE_DIR": str(tmp_path)}  # the target's name stands for other code there
    assert results_on(name, "test_int8", changed, **environment) == results(1)


FORCED = [
    pytest.param("avx512_vnni", marks=pytest.mark.skipif(not TARGET.name.startswith("avx512"), reason="other machine")),
    pytest.param("avx2_vnni", marks=pytest.mark.skipif(TARGET.byte_sums != "vnni", reason="other machine")),
    "generic",
]
reads_4_bits = pytest.mark.skipif(not four_bits.MOST_ROWS, reason="without instructions for sums of bytes")


def matrix(K: int, N: int, transposed: bool) -> Quantised:
    numbers = np.random.default_rng(K + N).standard_t(3, (N, K) if transposed else (K, N)).astype("f4")
    return quantise_to_4_bits(numbers, by_rows=transposed)


def packed(found: Quantised, start: int, rows: int, threads: int = 1) -> np.ndarray:
    weights = Weights()
    weights.hold_quantised("W", found)
    return packed_weight(weights, "W", start, rows, found.by_rows, threads=threads, dtype=QUADS)


def product(A: np.ndarray, weights: np.ndarray, N: int) -> np.ndarray:
    C = np.zeros((len(A), N), "f4")
    run_parallel(products.product, 1, A, 0, weights, C, 0, A.shape[1], N, np.array([[0, len(A)]]), 0)
    return C


def check(K: int, N: int, transposed: bool) -> bool:
    """Compare products; return whether there were panels in 4 bits."""
    found, start = matrix(K, N, transposed), 0 if transposed else 32 * (K > 32)
    rows = found.shape[0] - start
    inputs = K - start
    numbers = found.numbers[start:].T if transposed else found.numbers[start:]
    out = packed(found, start, rows)
    plain = np.zeros(packed_size(inputs, N, "i4"), "i4")
    run_parallel(PACKING[QUADS, transposed], 1, found.numbers, found.scales, start, start + rows, plain)
    has_room = out.size > plain.size
    if has_room:  # a product of a few rows must read the panels in 4 bits alone
        width = TARGET.panel_width("f4")
        panels = out[: plain.size].reshape(-1, plain.size // (-(-N // width)))
        panels[:, : inputs // 4 * width] = 0x55555555
    for M in range(1, four_bits.MOST_ROWS + 1):
        A = np.random.default_rng(M).standard_normal((M, inputs)).astype("f4")
        expected = product(A, plain, N)
        np.testing.assert_array_equal(product(A, out, N), expected)
        exact = A.astype("f8") @ (numbers * found.scales.astype("f8"))
        assert np.abs(expected - exact).max() < 0.05 * np.abs(exact).max()
    return has_room


SIZES_OF_4_BITS = [(32, 1, False), (64, 70, False), (256, 65, True), (96, 513, False), (544, 33, True)]


@reads_4_bits
@pytest.mark.parametrize(("K", "N", "transposed"), SIZES_OF_4_BITS)
def test_products_of_few_rows_have_the_bits_of_int8(K: int, N: int, transposed: bool) -> None:
    assert check(K, N, transposed)


@reads_4_bits
def test_any_number_of_threads_packs_the_same() -> None:
    found = matrix(128, 300, False)
    for threads in (2, 3):
        np.testing.assert_array_equal(packed(found, 0, 128, threads), packed(found, 0, 128))


@reads_4_bits
def test_a_panel_that_does_not_fit_is_read_in_int8() -> None:
    """The first block of each channel fits, the second one of one channel does not."""
    found = matrix(64, 300, False)
    found.numbers[40:42, 100] = 127, 126
    A = np.random.default_rng(1).standard_normal((2, 64)).astype("f4")
    plain = np.zeros(packed_size(64, 300, "i4"), "i4")
    run_parallel(packing.pack_int8, 1, found.numbers, found.scales, 0, 64, plain)
    np.testing.assert_array_equal(product(A, packed(found, 0, 64), 300), product(A, plain, 300))


@pytest.mark.parametrize(("K", "is_rounded"), [(64, False), (33, True)])
def test_other_matrices_have_no_room_for_it(K: int, is_rounded: bool) -> None:
    found = matrix(K, 40, False)
    if not is_rounded:
        found = quantise(found.restored() + np.random.default_rng(0).random((K, 40), "f4"), by_rows=False)
    assert packed(found, 0, K).size == packed_size(K, 40, "i4")


@pytest.mark.parametrize("forced", FORCED)
def test_every_level_has_the_bits_of_int8(forced: str) -> None:
    code = "from tests.rnn.kernels.test_int8 import *; print([check(*size) for size in SIZES_OF_4_BITS])"
    assert python(code, NMT_CPU=forced).stdout.split() == str([forced != "generic"] * len(SIZES_OF_4_BITS)).split()
