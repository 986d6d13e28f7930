from tests.cli.conftest import model, run, setup, trained  # noqa: F401 - fixtures
