"""Products, weight gradients and sums on packed weights against NumPy in float64, at awkward sizes."""

import numpy as np
import pytest

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.products import packing
from nmt.rnn.kernels.products import product as products
from nmt.rnn.kernels.products.gradients import weight_gradient, weight_gradient_bf16
from nmt.rnn.kernels.products.packing import words_of
from nmt.rnn.kernels.threads.pool import run_parallel
from tests.rnn.kernels import test_bfloat16, test_int8
from tests.rnn.kernels.company import packed as _packed
from tests.rnn.kernels.company import segments_of

# Sums of K products of standard normal numbers: a few roundings of size eps * sqrt(K) each.
EPSILON = {"f4": 3e-6, "f8": 5e-15}
WIDTH = TARGET.panel_width("f4")
SIZES = [(1, 1), (7, 31), (13, 64), (40, 33), (129, 100)]
ROWS = [0, 1, 2, 3, 5, 11, 21, 23, 64, 247, 601]


def _normal(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


def _of_floats(A, W, start):
    return A.astype("f8") @ W + start, EPSILON[W.dtype.str[1:]] * len(W) ** 0.5


# The type of the arrays; how weights are packed; what a product adds to numbers, and its largest error.
KINDS = {
    "f4": ("f4", _packed, _of_floats),
    "f8": ("f8", _packed, _of_floats),
    "bf16": ("f4", test_bfloat16.packed_of, test_bfloat16.product_of),
    "int8": ("f4", test_int8.packed_of, lambda A, W, start: (start + test_int8.expected_product(A, W), 0)),
}


def sizes_of(kind):
    """Packed kinds have further sizes: of whole panels, and of blocks and tails of words."""
    more = [(32, WIDTH), (33, WIDTH + 1), (64, 2 * WIDTH), (45, 70), (512, 70), (514, 70)]
    return SIZES if kind in EPSILON else SIZES + more


@pytest.mark.parametrize(("kind", "K", "N"), [(k, *size) for k in ("f4", "f8", "bf16") for size in sizes_of(k)])
@pytest.mark.parametrize("parts", [1, 3])
def test_packing_is_panels_filled_with_zeros(kind, K, N, parts):
    """Of numbers, or of pairs of them."""
    (dtype, pack, _), is_paired = KINDS[kind], kind == "bf16"
    weights = _normal(np.random.default_rng(K), (K + 2, N), dtype)
    width, inside = TARGET.panel_width(dtype), weights[1 : K + 1]
    inside = test_bfloat16.paired(inside) if is_paired else inside
    words = words_of(K, "u4") if is_paired else K
    assert not is_paired or words == -(-K // (2 * TARGET.pairs_at_a_time)) * TARGET.pairs_at_a_time
    padded = np.zeros((words, -(-N // width) * width), inside.dtype)
    padded[: len(inside), :N] = inside
    expected = padded.reshape(words, -1, width).transpose(1, 0, 2).ravel()
    np.testing.assert_array_equal(pack(weights, 1, K + 1, parts), expected)
    transposed = np.ascontiguousarray(np.vstack([np.zeros((1, K), dtype), weights[1 : K + 1].T]))
    out = np.full_like(expected, 0xFFFFFFFF if is_paired else np.nan)
    pack_transposed = packing.pack_transposed_bf16 if is_paired else packing.pack_transposed
    run_parallel(pack_transposed, parts, transposed, 1, N + 1, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(("kind", "K", "N"), [(kind, *size) for kind in KINDS for size in sizes_of(kind)])
@pytest.mark.parametrize(("parts", "accumulate"), [(1, 0), (3, 1)])
def test_product_on_segments_and_column_offsets(kind, K, N, parts, accumulate):
    dtype, pack, product_of = KINDS[kind]
    for rows in (*range(24), 64, 247, 601):
        rng = np.random.default_rng(rows)
        A, W, C = (_normal(rng, shape, dtype) for shape in ((rows, K + 3), (K, N), (rows, N + 5)))
        segments, active = segments_of(rows)
        before = C.copy()
        run_parallel(products.product, parts, A, 2, pack(W), C, 3, K, N, segments, accumulate)
        start = before[active, 3 : 3 + N] * before.dtype.type(accumulate)
        expected, error = product_of(A[active, 2 : 2 + K], W, start)
        assert (np.abs(C[active, 3 : 3 + N] - expected) <= error).all(), rows
        before[active, 3 : 3 + N] = C[active, 3 : 3 + N]
        np.testing.assert_array_equal(C, before)


@pytest.mark.parametrize(
    ("kind", "K", "N"), [(k, *s) for k in ("f4", "f8", "bf16") for s in (*sizes_of(k), (300, 700))]
)
@pytest.mark.parametrize(("parts", "accumulate"), [(1, 1), (3, 0)])
def test_weight_gradient_and_row_sums(kind, K, N, parts, accumulate):
    dtype, _, product_of = KINDS[kind]
    for rows in ROWS:
        rng = np.random.default_rng(rows)
        X, G, dW = (_normal(rng, shape, dtype) for shape in ((rows, K + 3), (rows, N + 5), (K, N)))
        sums = _normal(rng, N, dtype)
        segments, active = segments_of(rows)
        gradient = G[active, 3 : 3 + N]
        expected, error = product_of(X[active, 2 : 2 + K].T, gradient, accumulate * dW.astype("f8"))
        expected_sums = accumulate * sums.astype("f8") + gradient.astype("f8").sum(axis=0)
        add = weight_gradient_bf16 if kind == "bf16" else weight_gradient
        run_parallel(add, parts, X, 2, K, G, 3, N, segments, dW, accumulate)
        run_parallel(products.sum_rows, parts, G, 3, N, segments, sums, accumulate)
        assert (np.abs(dW - expected) <= error).all(), rows
        np.testing.assert_allclose(sums, expected_sums, rtol=0, atol=2 * EPSILON[dtype] * (1 + rows) ** 0.5)


def test_a_product_over_nothing_is_zero_unless_it_is_added():
    A, B = np.zeros((4, 0), "f4"), np.zeros(0, "f4")
    for accumulate, expected in ((0, 0.0), (1, 7.0)):
        C = np.full((4, 9), 7, "f4")
        products.product(0, 1, A, 0, B, C, 0, 0, 9, np.array([[0, 4]]), accumulate)
        assert (C == expected).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("accumulate", [0, 1])
def test_a_lone_row_over_any_number_of_panels_has_the_bits_that_it_has_among_others(dtype, accumulate):
    rng, width = np.random.default_rng(5), TARGET.panel_width(dtype)
    for columns in [n * width + rest for n in range(12) for rest in (0, 1, width - 1) if n + rest]:
        A, W, C = (_normal(rng, shape, dtype) for shape in ((3, 21), (19, columns), (3, columns + 7)))
        packed, before = _packed(W), C.copy()
        alone, together = C[1:2].copy(), C.copy()
        products.product(0, 1, A, 2, packed, together, 3, 19, columns, np.array([[0, 3]]), accumulate)
        products.product(0, 1, A[1:2].copy(), 2, packed, alone, 3, 19, columns, np.array([[0, 1]]), accumulate)
        np.testing.assert_array_equal(alone[0], together[1])
        expected = A[1, 2:].astype("f8") @ W + accumulate * before[1, 3 : 3 + columns]
        np.testing.assert_allclose(alone[0, 3 : 3 + columns], expected, rtol=0, atol=EPSILON[dtype] * 19**0.5)
        np.testing.assert_array_equal(np.delete(alone[0], np.s_[3 : 3 + columns]), before[1, [0, 1, 2, -4, -3, -2, -1]])


def results(parts):
    """Bytes of a product and a gradient in float32."""
    rng = np.random.default_rng(4)
    X, G = _normal(rng, (500, 130), "f4"), _normal(rng, (500, 300), "f4")
    packed, segments = _packed(_normal(rng, (130, 300), "f4")), np.array([[0, 500]])
    C, dW = np.empty((500, 300), "f4"), np.empty((130, 300), "f4")
    run_parallel(products.product, parts, X, 0, packed, C, 0, 130, 300, segments, 0)
    run_parallel(weight_gradient, parts, X, 0, 130, G, 0, 300, segments, dW, 0)
    return C.tobytes() + dW.tobytes()


@pytest.mark.parametrize("of_type", [results, test_bfloat16.results, test_int8.results], ids=["f4", "bf16", "int8"])
def test_results_have_the_same_bits_for_any_number_of_parts(of_type):
    assert len({of_type(parts) for parts in (1, 2, 3, 5)}) == 1


@pytest.mark.parametrize("pack", [_packed, test_bfloat16.packed_of, test_int8.packed_of], ids=["f4", "bf16", "int8"])
@pytest.mark.parametrize("spread", [0, 9])
def test_a_row_has_the_same_bits_in_any_company(pack, spread):
    """Of numbers of one size, and of rows whose sizes differ."""
    rng = np.random.default_rng(3)
    A = (_normal(rng, (29, 77), "f4") * np.float32(10) ** rng.integers(-spread, spread + 1, (29, 1))).astype("f4")
    packed, whole, some = pack(_normal(rng, (77, 70), "f4")), np.empty((29, 70), "f4"), np.empty((29, 70), "f4")
    products.product(0, 1, A, 0, packed, whole, 0, 77, 70, np.array([[0, 29]]), 0)
    for runs in ([[3, 1]], [[0, 5], [20, 9]], [[28, 1], [0, 1], [7, 12]]):
        products.product(0, 1, A, 0, packed, some, 0, 77, 70, np.array(runs), 0)
        for start, count in runs:
            np.testing.assert_array_equal(some[start : start + count], whole[start : start + count])
