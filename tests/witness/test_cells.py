"""Random cells find a gradient that is wrong."""

import dataclasses

import pytest

from nmt.rnn import ops
from tests.rnn.random_cells import check, random_cell


def test_a_planted_gradient_is_found_by_differences(monkeypatch):
    right = ops.OPS["tanh"]
    wrong = dataclasses.replace(right, gradient=lambda g, v: iter([(v.args[0], g * (1 - v))]))
    monkeypatch.setitem(ops.OPS, "tanh", wrong)
    with pytest.raises(AssertionError, match="gradients by differences"):
        for seed in range(990_001, 990_005):  # no other test's: compiled programs are kept
            check(random_cell(seed))
