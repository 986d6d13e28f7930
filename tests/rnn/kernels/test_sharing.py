"""How threads share a single step, asked for once for any number of rows."""

from ctypes import c_int64

import numpy as np
import pytest

from nmt.rnn.kernels.loops.run_cpu import divisions
from nmt.rnn.rows import Sharing, split_rows


@pytest.mark.parametrize("division", [None, "rows", "units"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("weight_bytes", [0, 1 << 20])
def test_divisions_of_all_numbers_of_rows_are_those_of_each(threads, division, weight_bytes):
    sharing = Sharing(threads, division, weight_bytes, row_size=1 << 14 if weight_bytes else 0)
    table, held = divisions(sharing, 70)
    assert held and table.shape == (71, 3)
    for rows in range(71):
        units, bounds = sharing.of_step(rows)
        size = len(bounds)
        found = np.ctypeslib.as_array((c_int64 * size).from_address(int(table[rows, 2])))
        assert table[rows, :2].tolist() == [units, size - 1]
        assert found.tolist() == bounds.tolist() and bounds[-1] == rows


def test_many_rows_of_one_thread_are_not_asked_for_one_by_one(monkeypatch):
    def ask(self, rows):
        raise AssertionError("must not be asked")

    monkeypatch.setattr(Sharing, "of_step", ask)
    assert divisions(Sharing(1, None, 8, 1 << 13), 100_000)[0][-1, :2].tolist() == [0, 1]


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("lengths", [[0], [1], [40], [], [3, 2, 2, 0], [9, 1, 1, 1, 1]], ids=str)
def test_each_thread_has_about_as_many_steps(threads, lengths):
    """Bounds by counting: a thread ends with the row by which its share of all steps is reached."""
    costs = [n + 1 for n in lengths]
    ends = [
        next(b for b in range(len(costs) + 1) if threads * sum(costs[:b]) >= i * sum(costs)) for i in range(threads)
    ]
    bounds = split_rows(np.array(lengths, np.int64), threads)
    assert bounds.dtype == np.int64 and bounds.tolist() == [*ends, len(lengths)]
