"""Runs of equal neighbours, and different numbers."""

import numpy as np
import pytest

from nmt.rnn.kernels.memory.arrays import FEW, distinct, run_bounds


@pytest.mark.parametrize("numbers", [[], [3], [3, 3], [5, 2, 2, 2, 9, 9, 2], list(range(7)), [4] * 40])
def test_runs_end_where_the_next_number_is_another(numbers):
    bounds = run_bounds(np.array(numbers, np.int64))
    pieces = [numbers[low:high] for low, high in zip(bounds[:-1], bounds[1:], strict=True)]
    assert sum(pieces, []) == numbers
    assert all(len(set(piece)) == 1 for piece in pieces)
    assert all(one[-1] != other[0] for one, other in zip(pieces, pieces[1:], strict=False))


@pytest.mark.parametrize("count", [0, 1, FEW, FEW + 1, 60])
def test_what_is_different_and_where_it_is_make_the_numbers_again(count):
    numbers = np.random.default_rng(count).integers(0, 9, count).astype(np.int32)
    different, place = distinct(numbers)
    np.testing.assert_array_equal(different[place], numbers)
    assert place.dtype == np.int64
    if count > FEW:
        assert len(set(different.tolist())) == len(different)
