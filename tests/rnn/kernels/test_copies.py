"""Copies of rows and columns: what NumPy's indexing gives, by any number of threads, for small and large arrays."""

import numpy as np
import pytest

from nmt.rnn import tuning
from nmt.rnn.devices import cpu

WIDTHS = {"small": 3, "large": 1 + tuning.ROW_WORK_ALONE_BELOW // 20}
"""Of arrays on both sides of the size from which threads share them."""


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype("f4")


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("outer", [(), (4,), (2, 3)])
def test_take_rows(outer, width, threads):
    array, index = numbers(*outer, 7, width), np.array([2, 6, 0, 2, 1])
    out = np.full((*outer, 5, width), np.nan, "f4")
    given = cpu().take_rows(array, index, out, threads)
    assert given is out
    np.testing.assert_array_equal(out, array[..., index, :])
    np.testing.assert_array_equal(cpu().take_rows(array, index), out)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_spread_rows(width, threads):
    rows, places = numbers(11, width), np.array([4, 1, 2, 30, 9, 8, 7, 6, 5, 29, 0])
    out = np.full((31, width), np.nan, "f4")
    cpu().spread_rows(rows, places, out, threads)
    expected = np.zeros_like(out)
    expected[places] = rows
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_columns_are_joined_and_taken(width, threads):
    parts = [numbers(5, 4, width), -numbers(5, 4, 2), numbers(5, 4, width + 1)]
    out = np.full((5, 4, 2 * width + 3), np.nan, "f4")
    cpu().join_columns(parts, out, threads)
    np.testing.assert_array_equal(out, np.concatenate(parts, axis=-1))
    for part, first in zip(parts, (0, width, width + 2), strict=True):
        again = np.full_like(part, np.nan)
        cpu().take_columns(out, first, again, threads)
        np.testing.assert_array_equal(again, part)


def test_nothing_is_nothing_to_do():
    assert cpu().take_rows(np.zeros((3, 0, 4), "f4"), np.zeros(0, np.int64)).shape == (3, 0, 4)
    cpu().spread_rows(np.zeros((0, 4), "f4"), np.zeros(0, np.int64), out := np.ones((2, 4), "f4"))
    assert not out.any()
