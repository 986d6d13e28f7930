"""Optimizer steps, norms, embedding rows and dropout masks against NumPy."""

import numpy as np
import pytest

from nmt.rnn.kernels.model import update
from nmt.rnn.kernels.threads.pool import run_parallel

SIZES = [1, 63, 64, 65, 1000]
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
    assert set(np.unique(mask)) <= {dtype_of(0, dtype), dtype_of(1 / keep, dtype)}
    share = (mask > 0).mean()
    # Five standard deviations of a binomial share: the seed is fixed, so this never fails by
    # chance.
    assert abs(share - keep) <= 5 * np.sqrt(keep * (1 - keep) / mask.size)


def dtype_of(value, dtype):
    return np.dtype(dtype).type(value)


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
