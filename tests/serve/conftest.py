"""One server for all tests that do not end it."""

import pytest

from nmt import Translator
from tests.saved_models import sentences


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    servers = pytest.importorskip("tests.serve.servers", reason="needs the extra [serve]")
    return servers.model_folder(tmp_path_factory.mktemp("served") / "model")


@pytest.fixture(scope="session")
def server(folder, tmp_path_factory):
    from tests.serve.servers import model_folder, running

    other = model_folder(tmp_path_factory.mktemp("served") / "other", "fr", "de", "other", seed=5)
    with running(folder, other, "--threads", 2, "--max-characters", 20000, "--no-split") as one:
        yield one


@pytest.fixture(scope="session")
def learns(tmp_path_factory):
    """A server that learns from corrections."""
    from tests.serve.servers import model_folder, running

    pytest.importorskip("rapidfuzz", reason="needs the extra [learn]")
    with running(model_folder(tmp_path_factory.mktemp("learns") / "model"), "--learn", "--no-split") as one:
        yield one


@pytest.fixture(scope="session")
def lines():
    return sentences(60, seed=5)


@pytest.fixture(scope="session")
def expected(folder, lines):
    """What the model's translator says of the lines."""
    return dict(zip(lines, Translator.load(folder).translate(lines), strict=True))
