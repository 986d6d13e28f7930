"""The device of these tests: the emulator, or the GPU of this machine (see `tests.devices`)."""

import pytest

from tests.devices import device_at


@pytest.fixture(scope="session")
def device():
    """Where arrays lie."""
    return device_at("cuda")


@pytest.fixture(scope="session")
def runtime(device):
    """What runs kernels."""
    return device.runtime
