"""Arrays of a generated function beyond the number of alias scopes."""

import numpy as np
import pytest

from nmt.rnn import AttentionCell, LayerNormLSTMCell
from nmt.rnn.compiler.plan import make_plan
from nmt.rnn.compiler.trace import trace
from nmt.rnn.devices import cpu
from nmt.rnn.kernels.loops import loop_code
from nmt.rnn.kernels.machine_code import recipes
from nmt.rnn.scan import scan_setup as engine
from tests.oracle import compare
from tests.rnn import scan_cases as cases


def test_a_decoder_of_normalised_cells_can_be_trained():
    """It uses more arrays in one function than there are scopes, which was an error."""
    cell = AttentionCell(LayerNormLSTMCell(5 + 11, 7), 6, 11)
    plan = make_plan(trace(cell, training=True), training=True)
    cpu().executable(plan, np.dtype("float32"), np.dtype("float32"))


@pytest.mark.parametrize("scopes", [1, 4])
def test_arrays_that_share_a_scope_give_the_same_numbers(scopes, monkeypatch):
    case = cases.draw(cases.CELLS["gru"](), "float64", cases.LENGTHS["mixed"])
    expected = cases.compiled(case)
    engine.compile_step.cache_clear()
    recipes.generated_loop.cache_clear()
    # Machine code is named by its source, which is the same: it would not be compiled again.
    monkeypatch.setattr(recipes.GeneratedLoop, "_types", property(lambda loop: f"{scopes} scopes"))
    monkeypatch.setattr(loop_code, "MAX_SCOPES", scopes)
    found = cases.compiled(case, threads=2, division="units")
    engine.compile_step.cache_clear()
    recipes.generated_loop.cache_clear()
    for one, other in zip(found[:2], expected[:2], strict=True):
        assert set(one) == set(other)
        for name, array in other.items():
            compare.assert_close(one[name], array, 1e-12, name)
