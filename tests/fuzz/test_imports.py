"""A few broken models of other systems; `python -m tests.fuzz.imports --files 5000` does as many of each kind."""

import pytest

from tests.fuzz.imports import KINDS, check_imports


@pytest.mark.parametrize("kind", KINDS)
def test_broken_models_are_refused_in_a_line_or_written(tmp_path, kind):
    done = check_imports(kind, tmp_path / "models", 0, 25)
    assert sum(done.values()) == 25 and done.get("refused", 0) >= 5
