"""Cells x types x recomputation x schedules x steps that exist x directions x sizes.

Every choice meets every other: in the short run with cells in the types that SHORT names, as compiling is nearly all it
costs. `NMT_TEST_PRODUCTS=1` takes all cells with all types.
"""

import os
from itertools import combinations, product

import numpy as np
import pytest

from nmt.config.model_section import RNN_TYPES
from nmt.model.parts.cells import recurrent_cell
from nmt.rnn import tuning
from tests.oracle import compare
from tests.rnn import product_cases as products
from tests.rnn import scan_cases as cases

ROWS = products.rows(short=not os.environ.get("NMT_TEST_PRODUCTS"))


def test_every_choice_meets_every_other():
    rows = [row for of_cell in ROWS.values() for row in of_cell]
    for one, other in combinations(("cell", "schedule", "steps", "direction", "size"), 2):
        pairs = {(row[one], row[other]) for row in rows}
        choices = [{row[factor] for row in rows} - {products.LATER} for factor in (one, other)]
        assert pairs >= set(product(*choices)), (one, other)
    assert {(row["dtype"], row["recompute"], row["schedule"]) for row in rows} >= set(
        product(products.TYPES, products.POLICIES, set(products.SCHEDULES) - {products.LATER})
    )


def test_every_cell_of_the_settings_is_among_them():
    kinds = {type(make()) for make in products.CELLS.values()}
    for name in RNN_TYPES:
        assert kinds & set(type(recurrent_cell(name, cases.D, cases.H)).__mro__), name
        assert f"setting {name}" in products.ALL_CELLS


@pytest.mark.parametrize("name", ROWS)
def test_products(name, monkeypatch):
    """The program = the interpreter = the oracle; a schedule never shows in the bits."""
    for seed, row in enumerate(ROWS[name]):
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
    if row["cell"] in products.INFERRED and products.is_plain(row):
        compare.assert_all_close(*products.inferred(run), compare.tolerance_of(run.case.x.dtype), str(row))
    if row["dtype"] != "bfloat16" and products.oracle(row["cell"]):
        products.check_oracle(run, found, compare.tolerance_of(run.case.x.dtype))
