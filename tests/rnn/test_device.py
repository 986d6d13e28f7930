"""Which device a name stands for, and what is said where there is no GPU."""

import logging

import numpy as np
import pytest

from nmt.errors import DeviceError
from nmt.rnn import devices
from nmt.rnn.device import Device
from nmt.rnn.devices import cpu


@pytest.fixture
def no_gpu(monkeypatch):
    def fail():
        raise DeviceError("cuda: the driver must show a GPU, it shows none; use --device cpu")

    monkeypatch.setattr(devices, "cuda", fail)


def test_the_processor_asks_for_no_gpu(no_gpu, caplog):
    assert devices.choose_device("cpu").name == "cpu"
    assert not caplog.records


def test_auto_falls_back_and_says_why(no_gpu, caplog):
    with caplog.at_level(logging.WARNING):
        assert devices.choose_device("auto") is devices.cpu()
    assert caplog.messages == ["device auto: the processor, for the driver must show a GPU, it shows none"]


def test_a_gpu_that_was_asked_for_must_be_there(no_gpu):
    with pytest.raises(DeviceError, match="must show a GPU"):
        devices.choose_device("cuda")


def test_auto_takes_a_gpu(monkeypatch):
    gpu = object()
    monkeypatch.setattr(devices, "cuda", lambda: gpu)
    assert devices.choose_device("auto") is gpu


@pytest.mark.parametrize("name", ["gpu", "", None, 1])
def test_a_name_of_no_device(name, no_gpu):
    with pytest.raises(DeviceError, match="device must be cpu, cuda or auto, got"):
        devices.choose_device(name)


@pytest.mark.parametrize("size", [0, 1, 16384, 40001])
def test_arrays_of_any_size_are_added_as_a_whole(size):
    """By blocks, with the bits of two operations on whole arrays."""
    rng = np.random.default_rng(size)
    total, other = (rng.normal(size=size).astype(np.float32) for _ in range(2))
    expected = total * np.float32(0.9) + np.float32(0.1) * other
    devices.choose_device("cpu").add_scaled(total, other, 0.1, 0.9)
    assert total.tobytes() == expected.tobytes()


def test_an_operation_of_another_kind_of_device_says_so_and_an_incomplete_device_cannot_be_made():
    with pytest.raises(RuntimeError, match="of a GPU alone, got the device cpu"):
        _ = cpu().search
    with pytest.raises(TypeError, match="abstract"):
        type("Half", (Device,), {"upload": lambda self, array: array})()
