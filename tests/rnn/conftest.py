"""What all tests of the engine share."""

import pytest

from nmt.rnn import tuning


@pytest.fixture(autouse=True)
def _small_work_is_divided_too(monkeypatch):
    """The cases of these tests are small; what holds for large ones is to be seen in them."""
    monkeypatch.setattr(tuning, "ALONE_BELOW", 0)
    monkeypatch.setattr(tuning, "ALONE_A_STEP", 0)
