"""The device of these tests: the emulator, or the card of this machine where NMT_TEST_DEVICE is `cuda`."""

import os

import pytest


@pytest.fixture(scope="session")
def runtime():
    """What runs kernels. The emulator's threads take turns in a random order, another in every launch."""
    if os.environ.get("NMT_TEST_DEVICE") == "cuda":
        from nmt.rnn.kernels.cuda.runtime import CupyRuntime

        return CupyRuntime()
    pytest.importorskip("greenlet", reason="the emulator needs greenlet, of the extra [dev]")
    from tests.cuda_emulator import EmulatedRuntime

    return EmulatedRuntime(seed=1)


@pytest.fixture(scope="session")
def device(runtime):
    """Where arrays lie."""
    from nmt.rnn.kernels.cuda.device_cuda import CudaDevice

    return CudaDevice(runtime)
