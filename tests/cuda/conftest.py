"""The device of these tests: the emulator, or the card of this machine (see `runtimes`)."""

import pytest

from tests.cuda.runtimes import ON_CARD, runtime_with


@pytest.fixture(scope="session")
def runtime():
    """What runs kernels. The emulator's threads take turns in a random order, another in every launch."""
    if not ON_CARD:
        pytest.importorskip("greenlet", reason="the emulator needs greenlet, of the extra [dev]")
    return runtime_with(seed=1)


@pytest.fixture(scope="session")
def device(runtime):
    """Where arrays lie."""
    from nmt.rnn.kernels.cuda.device_cuda import CudaDevice

    return CudaDevice(runtime)
