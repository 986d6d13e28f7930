"""Every row of the table of long tests names a test, and `make test` and `make test-long` are together all tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.long import LONG

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("test", LONG)
def test_the_table_names_a_test(test):
    file, name = test.split("::")
    assert f"def {name}(" in (ROOT / "tests" / file).read_text("utf-8")


def test_each_case_is_run_by_one_of_the_commands():
    def collected(*options):
        words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
        ran = subprocess.run(
            [*words, "tests/model/test_gradients.py"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return {line for line in ran.stdout.splitlines() if "::" in line}

    usual, long, every = collected(), collected("-m", "long"), collected("-m", "")
    assert usual and long and not usual & long
    assert usual | long == every
