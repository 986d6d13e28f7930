"""The device of the tests: the emulator, or a card where NMT_TEST_GPU is set."""

import os

import pytest

pytest.importorskip("greenlet", reason="the emulator needs greenlet, of the extra [dev]")

from nmt.rnn.kernels.cuda.device_cuda import CudaDevice  # noqa: E402
from tests.cuda_emulator import EmulatedRuntime  # noqa: E402


def card(seed=None):
    """A device; with a seed its threads run in an order of chance, where they are emulated."""
    if os.environ.get("NMT_TEST_GPU"):
        from nmt.rnn.device import choose_device

        return choose_device("cuda")
    return CudaDevice(EmulatedRuntime(seed))


ON_CARD = bool(os.environ.get("NMT_TEST_GPU"))
