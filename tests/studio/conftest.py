"""One studio for all tests that do not end it."""

import pytest


@pytest.fixture(scope="session")
def studio(tmp_path_factory):
    studios = pytest.importorskip("tests.studio.studios", reason="needs the extra [studio]")
    one = studios.Studio(tmp_path_factory.mktemp("studio"))
    yield one
    assert one.end() == 0
