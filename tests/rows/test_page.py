"""docs/engine-rows.md and the tests of this folder say the same."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = {"A": 25, "M": 28, "R": 32, "C": 26, "V": 22}
# What cannot be tested: another library's internals, and where its manual is.
MEANINGLESS = {"R28", "C26"}


@pytest.fixture(scope="module")
def engine_rows():
    spec = importlib.util.spec_from_file_location("engine_rows", ROOT / "docs" / "engine_rows.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def table(engine_rows):
    """What the page says of each row: promise, call, test."""
    page = engine_rows.PAGE.read_text("utf-8")
    lines = re.findall(r"(?m)^\| ([AMRCV]\d\d) \| (.+) \|$", page)
    assert len(lines) == len(dict(lines))
    return {row: [part.strip() for part in rest.split(" | ")] for row, rest in lines}


def test_every_row_is_there_once_and_in_order(table):
    assert list(table) == [f"{letter}{n:02}" for letter, count in ROWS.items() for n in range(1, count + 1)]
    for row, parts in table.items():
        assert len(parts) == 3 and all(parts), row


def test_the_page_names_the_tests_that_there_are(engine_rows, table):
    page = engine_rows.PAGE.read_text("utf-8")
    assert engine_rows.refreshed(page) == page, "run make docs"
    tests = engine_rows.tests_of_rows()
    assert set(tests) <= set(table), "a test of a row must be named test_R07_..., after a row of the page"


def test_a_row_without_a_test_says_why(table):
    without = {row: test for row, (_, _, test) in table.items() if not test.startswith("`test_")}
    assert not [row for row, test in without.items() if test == "pending"]
    assert {row for row, test in without.items() if test == "—"} == MEANINGLESS
    for row, test in without.items():
        if row not in MEANINGLESS:
            assert (ROOT / re.fullmatch(r"`(benchmarks/\w+\.py)`", test).group(1)).is_file(), row


def test_scripts_that_the_page_names_are_there(table):
    for _, here, test in table.values():
        for script in re.findall(r"`(benchmarks/\w+\.py)`", f"{here} {test}"):
            assert (ROOT / script).is_file()


def test_every_bug_says_whose_it_was(engine_rows):
    for function in engine_rows.test_functions(engine_rows.BUGS):
        story = engine_rows._bug(function)
        assert re.search(r"Caffe2|MXNet|oneDNN|cuDNN|Haste|Keras|Theano|ONNX|The same", story), function.name
