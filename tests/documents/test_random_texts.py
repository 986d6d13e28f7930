"""Random texts, markup and translators: see `random_texts`, which `make witness` runs for longer."""

import pytest


@pytest.mark.parametrize("seed", range(4))
def test_no_rule_is_broken(seed):
    for library in ("markdown_it", "pyicumessageformat"):
        pytest.importorskip(library, reason="needs the extra [documents]")
    from tests.documents.random_texts import tried

    for number in range(300):
        case, found = tried(seed, number)
        assert not found, (number, case.text)
