"""Cells x types x recomputation x schedules x steps that exist x directions x sizes, by a covering array.

Every choice meets every other at least once: in the short run with cells in the types that SHORT names, as compiling is
nearly all it costs. `NMT_TEST_PRODUCTS=2` multiplies all cells with everything, `NMT_TEST_PRODUCTS=3` lets every three
choices meet.
"""

import os
from functools import cache

import numpy as np
import pytest

from nmt.config.model_section import RNN_TYPES
from nmt.model.parts.cells import recurrent_cell
from nmt.rnn import tuning
from tests.oracle import compare
from tests.rnn import product_cases as products
from tests.rnn import scan_cases as cases
from tests.rnn.product_cases import all_meetings, covering_array, meetings

ASKED = os.environ.get("NMT_TEST_PRODUCTS", "")
SHORT, STRENGTH = not ASKED, int(ASKED or 2)


@cache
def rows():
    """The array of this run; of one cell each row has another seed."""
    return covering_array(products.groups(short=SHORT), STRENGTH)


def test_whatever_can_meet_meets():
    """By counting afresh: every set of choices of some row there could be is in a row there is."""
    groups = products.groups(short=SHORT)
    found = set().union(*(meetings(row, STRENGTH) for row in rows()))
    assert found == all_meetings(groups, STRENGTH)
    free = ("cell", "steps"), ("cell", "direction"), ("dtype", "recompute"), ("dtype", "schedule"), ("steps", "size")
    for factors in free:
        sizes = [len({part[f] for group in groups for part in group if f in part}) for f in factors]
        some = {tuple(row[f] for f in factors) for row in rows()}
        assert len(some) == sizes[0] * sizes[1], factors


def test_a_covering_array_is_near_the_smallest():
    """Three factors of 2, 3 and 4 choices, a part of two that must not come with another: all pairs in 12 rows."""
    groups = [[{"a": 0, "b": k} for k in range(3)] + [{"a": 1, "b": 0}], [{"c": k} for k in range(4)]]
    found = covering_array(groups)
    assert {frozenset(row) for row in found} == {frozenset("abc")}
    assert {(row["a"], row["b"]) for row in found} == {(0, 0), (0, 1), (0, 2), (1, 0)}
    pairs = {(f, row[f], row["c"]) for row in found for f in "ab"}
    assert len(pairs) == 20 and 12 <= len(found) <= 16
    assert len(covering_array(groups, 3)) == 16  # all products
    assert covering_array(groups, seed=1) != found == covering_array(groups)


def test_every_cell_of_the_settings_is_among_them():
    kinds = {type(make()) for make in products.CELLS.values()}
    for name in RNN_TYPES:
        assert kinds & set(type(recurrent_cell(name, cases.D, cases.H)).__mro__), name
        assert f"setting {name}" in products.ALL_CELLS


@pytest.mark.parametrize("name", products.CELLS if SHORT else products.ALL_CELLS)
def test_products(name, monkeypatch):
    """The program = the interpreter = the oracle; a schedule never shows in the bits."""
    chosen = [(seed, row) for seed, row in enumerate(rows()) if row["cell"] == name]
    assert {row["schedule"] for _, row in chosen} >= set(products.SCHEDULES) - {products.LATER}
    for seed, row in chosen:
        with monkeypatch.context() as patch:
            check(products.draw(row, seed), patch)


def check(run, monkeypatch):
    row = run.row
    one, masks = products.program(run, threads=1)
    if row["schedule"] == "blocks of time":
        monkeypatch.setattr(tuning, "BLOCK_ROWS", 2 * run.there.shape[1])
    found, _ = products.program(run, **products.SCHEDULES[row["schedule"]])
    if row["dtype"] == "bfloat16":
        products.round_products(monkeypatch)
    expected = products.interpreted(run, masks)
    assert set(found) == set(expected) == set(one), row
    for name, value in expected.items():
        what = f"{row} {name}"
        if products.grouped_anew(run, name):
            compare.assert_close(found[name], one[name], compare.tolerance_of(run.case.x.dtype), what)
        else:
            np.testing.assert_array_equal(found[name], one[name], what)
        if row["dtype"] == "bfloat16":
            assert compare.norm_error(found[name], value) < compare.BFLOAT16_TOLERANCE, what
        else:
            compare.assert_close(found[name], value, compare.tolerance_of(run.case.x.dtype), what)
        if name.endswith((" y", " d_x")):
            assert not found[name][~run.there].any(), what
    if row["dtype"] != "bfloat16" and products.oracle(row["cell"]):
        complaints = products.check_oracle(run, found, compare.tolerance_of(run.case.x.dtype))
        assert not complaints, f"{row}: {complaints}"
