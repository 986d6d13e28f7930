"""Tests that are named exist: by results/engine-rows.md, every row of which has one, or a script that measures it, or a
dash; and by the table of long tests."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.long import LONG

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "results" / "engine-rows.md").read_text("utf-8")
TABLE = dict(re.findall(r"(?m)^\| ([AMRCV]\d\d) \| (.+) \|$", PAGE))
ROWS = {"A": 25, "M": 28, "R": 32, "C": 26, "V": 22}
# Another library's internals and its manual, and what holds by construction.
UNTESTED = {"R12", "R28", "C26"}


@cache
def functions(path):
    """Return the names of a file's functions."""
    tree = ast.parse((ROOT / "tests" / path).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("test", LONG)
def test_the_table_of_long_tests_names_a_test(test):
    path, name = test.split("::")
    assert name in functions(path)


def test_every_row_is_there_once_and_in_order():
    found = re.findall(r"(?m)^\| ([AMRCV]\d\d) \|", PAGE)
    assert found == [f"{letter}{n:02}" for letter, count in ROWS.items() for n in range(1, count + 1)]


@pytest.mark.parametrize("row", TABLE)
def test_a_row_names_what_shows_it(row):
    promised, here, proof = TABLE[row].split(" | ")
    assert promised and here
    tests = re.findall(r"`([\w/]+\.py)::(test_\w+)`", proof)
    for path, name in tests:
        assert name in functions(path)
    for script in re.findall(r"`(benchmarks/\w+\.py)`", f"{here} {proof}"):
        assert (ROOT / script).is_file()
    if proof == "—":
        assert row in UNTESTED
    else:
        assert tests or re.fullmatch(r"`(\w+:)?benchmarks/\w+\.py`", proof)


def test_every_test_of_this_folder_is_named():
    """Tests of bugs and of error messages are of no row."""
    for name in functions("rows/test_rows.py"):
        assert not name.startswith("test_") or "one_line" in name or f"`rows/test_rows.py::{name}`" in PAGE, name
