"""The fused output layer and loss against log-softmax in float64; optimizer steps, norms, embeddings and dropout masks
against NumPy."""

import numpy as np
import pytest

from nmt.errors import ShapeError
from nmt.rnn.arrays.device_operations import OutputGradients, OutputLayer
from nmt.rnn.arrays.weights import PAIRS, Weights
from nmt.rnn.devices import cpu
from nmt.rnn.kernels.cuda.machine_code.divergence import add_divergence
from nmt.rnn.kernels.model import update
from nmt.rnn.kernels.model.output import chunk_rows, output_loss
from nmt.rnn.kernels.threads.pool import run_parallel
from tests.oracle import compare
from tests.refusals import refused
from tests.rnn.kernels.test_bfloat16 import rounded

TOLERANCE = {"f4": 3e-5, "f8": 1e-12}  # sums of up to 300 roundings of numbers around 10
SIZES = [(0, 5, 7), (1, 5, 7), (33, 20, 101), (300, 32, 64)]


def _case(rows, hidden, vocab, dtype, seed=0):
    rng = np.random.default_rng(seed)
    h, W, b = (rng.standard_normal(shape).astype(dtype) for shape in ((rows, hidden), (hidden, vocab), vocab))
    return h, W, b, rng.integers(0, vocab, rows).astype(np.int32)


def _loss(case, eps=0.0, *, scale=1.0, tied=False, packed=None, **options):
    """The sums, and the gradients of h, W and b, the last two added to ones."""
    h, W, b, targets = case
    matrix = np.ascontiguousarray(W.T) if tied else W
    layer = OutputLayer(Weights({"W": matrix, "b": b}), "W", "b", tied, np.dtype(packed or W.dtype))
    into = OutputGradients(np.full(h.shape, np.nan, h.dtype), np.ones_like(matrix), np.ones_like(b))
    found = output_loss(h, layer, targets, eps, into, scale, **{"threads": 1, **options})
    alone = output_loss(h, layer, targets, eps, None, scale, 1)
    if not options.get("divergence"):
        np.testing.assert_allclose(alone, found, rtol=1e-6)
    return found, into.h, into.matrix.T if tied else into.matrix, into.bias


def _exact(h, W, b):
    """h and W in float64, and their log-probabilities."""
    h, W = h.astype("f8"), W.astype("f8")
    logits = h @ W + b
    logits -= logits.max(axis=1, keepdims=True)
    return h, W, logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def _reference(h, W, b, targets, eps, scale):
    h, W, log_p = _exact(h, W, b)
    rows = np.arange(len(h))
    nll = -log_p[rows, targets]
    gradient = np.exp(log_p) - eps / len(b)
    gradient[rows, targets] -= 1 - eps
    gradient *= scale
    smoothed = (1 - eps) * nll - eps * log_p.mean(axis=1)
    correct = (log_p.argmax(axis=1) == targets).sum()
    return (nll.sum(), smoothed.sum(), correct), (gradient @ W.T, h.T @ gradient, gradient.sum(axis=0))


def _divergence(h, W, b, weight, scale):
    """R-Drop's equation 3 over neighbouring rows, and its gradients."""
    h, W, log_p = _exact(h, W, b)
    one, other = log_p[0::2], log_p[1::2]
    p, q = np.exp(one), np.exp(other)
    of_one, of_other = (p * (one - other)).sum(1, keepdims=True), (q * (other - one)).sum(1, keepdims=True)
    gradient = np.empty_like(log_p)
    gradient[0::2] = p * (one - other - of_one) + p - q
    gradient[1::2] = q * (other - one - of_other) + q - p
    gradient *= 0.5 * weight * scale
    return 0.5 * weight * (of_one + of_other).sum(), (gradient @ W.T, h.T @ gradient, gradient.sum(axis=0))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("rows", "hidden", "vocab"), [(2, 5, 7), (34, 20, 101), (300, 32, 64)])
def test_pairs_of_rows_that_should_predict_alike(dtype, threads, rows, hidden, vocab):
    h, W, b, targets = _case(rows, hidden, vocab, dtype)
    (nll, smoothed, correct), plain = _reference(h, W, b, targets, 0.1, 0.5)
    extra, more = _divergence(h, W, b, 5.0, 0.5)
    found, d_h, dW, db = _loss((h, W, b, targets), 0.1, scale=0.5, threads=threads, chunk=32, divergence=5.0)
    np.testing.assert_allclose(found, (nll, smoothed + extra, correct), rtol=10 * TOLERANCE[dtype])
    for name, got, want in zip("hWb", (d_h, dW - 1, db - 1), map(np.add, plain, more), strict=True):
        compare.assert_close(got, want, 10 * TOLERANCE[dtype], name)


def test_the_divergence_by_array_operations_is_the_same():
    """What a card adds to a loss without it."""
    h, W, b, targets = _case(34, 20, 101, "f8")
    layer = OutputLayer(Weights({"W": W, "b": b}), "W", "b", False, W.dtype)
    found = []
    for fused in (5.0, 0.0):
        into = OutputGradients(np.empty_like(h), np.zeros_like(W), np.zeros_like(b))
        sums = cpu().output_loss(h, layer, targets, 0.1, into, 0.5, 1, fused)
        if not fused:
            sums[1] += add_divergence(cpu(), layer, h, into, weight=5.0, scale=0.5, threads=1)
        found.append((sums, into.h, into.matrix, into.bias))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_rows_of_a_divergence_are_pairs():
    refused(ShapeError, "rows must be even, got 3", _loss, _case(3, 5, 7, "f4"), divergence=1.0)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("rows", "hidden", "vocab"), SIZES)
@pytest.mark.parametrize("eps", [0.0, 0.1])
@pytest.mark.parametrize("tied", [False, True])
def test_loss_and_gradients(dtype, rows, hidden, vocab, eps, tied):
    case = _case(rows, hidden, vocab, dtype)
    losses, (want_h, want_W, want_b) = _reference(*case, eps, 0.5)
    found, d_h, dW, db = _loss(case, eps, scale=0.5, threads=2, chunk=50, tied=tied)
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(found, losses, rtol=tolerance)
    np.testing.assert_allclose(d_h, want_h, atol=tolerance)
    np.testing.assert_allclose(dW - 1, want_W, atol=tolerance)
    np.testing.assert_allclose(db - 1, want_b, atol=tolerance)


def test_the_number_of_threads_does_not_change_a_bit():
    case = _case(77, 20, 130, "f4")
    results = [[a.tobytes() for a in _loss(case, 0.1, threads=threads, chunk=32)] for threads in (1, 2, 3)]
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("size", [1e4, 1e30])
def test_huge_logits_are_safe(size):
    W = np.eye(4, dtype="f4") * np.float32(size)
    h, b, targets = np.eye(4, dtype="f4"), np.zeros(4, "f4"), np.arange(4, dtype=np.int32)
    nll, _, correct = _loss((h, W, b, targets))[0]
    assert (nll, correct) == (0.0, 4)
    nll, _, correct = _loss((h, W, b, targets[::-1].copy()))[0]
    assert nll == pytest.approx(4 * size, rel=1e-6)
    assert correct == 0


def test_of_equal_logits_the_first_is_the_prediction():
    case = np.ones((5, 3), "f4"), np.zeros((3, 5), "f4"), np.zeros(5, "f4"), np.arange(5, dtype=np.int32)
    assert _loss(case)[0][2] == 1


def test_a_nan_reaches_the_loss_and_the_gradient():
    h, W, b, targets = _case(3, 4, 40, "f4")
    h[1, 2] = np.nan
    (nll, smoothed, _), d_h, _, _ = _loss((h, W, b, targets), 0.1)
    assert np.isnan(nll) and np.isnan(smoothed)
    assert np.isnan(d_h[1]).all() and np.isfinite(d_h[[0, 2]]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": np.array([0, 1], np.int32)}, "targets must be int32 .3."),
        ({"targets": np.array([0, 1, 6], np.int32)}, "below 6"),
        ({"targets": np.array([0, -1, 5], np.int32)}, "below 6"),
        ({"b": np.zeros(6, "f8")}, "b must be float32"),
        ({"h": np.zeros((4, 3), "f4").T}, "h must be"),
    ],
)
def test_wrong_arrays_are_refused(change, message):
    h, W, b, targets = _case(3, 4, 6, "f4")
    given = {"h": h, "W": W, "b": b, "targets": targets} | change
    refused(ShapeError, message, _loss, given.values())


@pytest.mark.parametrize(("rows", "hidden", "vocab"), SIZES)
@pytest.mark.parametrize("tied", [False, True])
def test_products_in_bfloat16(rows, hidden, vocab, tied):
    """Rounded numbers in, float32 out: the loss is that of rounded h and W, softmax and bias are exact."""
    h, W, b, targets = case = _case(rows, hidden, vocab, "f4")
    results = []
    for threads in (1, 3):
        found = losses, d_h, dW, db = _loss(case, 0.1, scale=0.5, threads=threads, chunk=50, tied=tied, packed=PAIRS)
        results.append([array.tobytes() for array in found])
    assert results[0] == results[1]
    near_h, near_W = rounded(h), rounded(W)
    wanted, (want_h, want_W, want_b) = _reference(near_h, near_W, b, targets, 0.1, 0.5)
    np.testing.assert_allclose(losses, wanted, rtol=TOLERANCE["f4"])
    np.testing.assert_allclose(db - 1, want_b, atol=TOLERANCE["f4"])
    for found, want in ((d_h, want_h), (dW - 1, want_W)):
        assert compare.norm_error(found, want) < compare.BFLOAT16_TOLERANCE
    if rows:
        exact = _reference(h, W, b, targets, 0.1, 0.5)[0]
        assert abs(losses[0] - exact[0]) > 10 * abs(losses[0] - wanted[0])


def test_rows_at_a_time_follow_the_type_of_the_products():
    case = _case(700, 6, 40, "f4")
    for packed in (np.dtype("f4"), PAIRS):
        given, found = (_loss(case, 0.1, packed=packed, chunk=chunk)[2] for chunk in (chunk_rows(packed), None))
        np.testing.assert_array_equal(found, given)
    assert chunk_rows(PAIRS) == 2 * chunk_rows(np.dtype("f4"))


LENGTHS = [1, 63, 64, 65, 1000]
RELATIVE = {"f4": 1e-5, "f8": 1e-12}


def _normal(seed, size, dtype):
    return np.random.default_rng(seed).standard_normal(size).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_square_norm(dtype, parts):
    g, sums = _normal(0, 777, dtype), np.full(parts, np.nan)
    run_parallel(update.square_norm, parts, g, sums)
    assert sums.sum() == pytest.approx((g.astype("f8") ** 2).sum(), rel=1e-12)


@pytest.mark.parametrize(("value", "check"), [(np.nan, np.isnan), (np.inf, np.isposinf), (-np.inf, np.isposinf)])
def test_a_broken_gradient_shows_in_the_norm(value, check):
    g, sums = np.zeros(300, "f4"), np.empty(2)
    g[123] = value
    run_parallel(update.square_norm, 2, g, sums)
    assert check(sums.sum())


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("parts", [1, 3])
def test_embedding_rows_and_their_gradient(dtype, parts):
    table = _normal(0, (11, 130), dtype)
    ids = np.array([3, 0, 3, 10, 3, 3], np.int32)
    out = np.empty((6, 130), dtype)
    run_parallel(update.embedding_rows, parts, ids, table, out, 2.0)
    np.testing.assert_array_equal(out, table[ids] * 2)
    d_out, d_table = _normal(1, (6, 130), dtype), np.ones((11, 130), dtype)
    run_parallel(update.embedding_gradient, parts, ids, d_out, d_table, 2.0)
    expected = np.ones((11, 130))
    np.add.at(expected, ids, d_out.astype("f8") * 2)
    np.testing.assert_allclose(d_table, expected, rtol=RELATIVE[dtype], atol=RELATIVE[dtype])


def _mask(size, keep, seed, offset=0, parts=1, dtype="f4"):
    out = np.full(size, np.nan, dtype)
    run_parallel(update.dropout_mask, parts, out, keep, np.uint64(seed), np.uint64(offset))
    return out


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9, 1.0])
def test_dropout_keeps_its_share_and_the_mean(dtype, keep):
    mask = _mask(200_000, keep, 7, dtype=dtype)
    assert set(np.unique(mask)) <= set(np.array([0, 1 / keep], dtype))
    share = (mask > 0).mean()
    # Five standard deviations of a binomial share: the seed is fixed, so this never fails by chance.
    assert abs(share - keep) <= 5 * np.sqrt(keep * (1 - keep) / mask.size)


def test_a_mask_depends_on_seed_and_index_alone():
    whole = _mask(1000, 0.5, 3)
    for parts in (2, 3, 7):
        np.testing.assert_array_equal(_mask(1000, 0.5, 3, parts=parts), whole)
    np.testing.assert_array_equal(_mask(900, 0.5, 3, offset=100), whole[100:])


def test_neighbouring_seeds_and_indices_are_independent():
    size = 100_000
    centred = {seed: _mask(size, 0.5, seed) - 1 for seed in (0, 1, 2, 2**63)}
    limit = 5 / np.sqrt(size)
    for seed, mask in centred.items():
        for lag in (1, 2, 8, 64, 512):
            assert abs((mask[lag:] * mask[:-lag]).mean()) < limit, (seed, lag)
        for other, second in centred.items():
            if other > seed:
                for lag in range(4):
                    assert abs((mask[lag:] * second[: size - lag]).mean()) < limit, (seed, other, lag)
