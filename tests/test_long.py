"""Every row of the table of long tests names a test."""

from pathlib import Path

import pytest

from tests.long import LONG

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("test", LONG)
def test_the_table_names_a_test(test):
    file, name = test.split("::")
    assert f"def {name}(" in (ROOT / "tests" / file).read_text("utf-8")
