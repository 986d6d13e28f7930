"""Which device a name stands for, and how many cores there are to use: affinity, and quotas of control groups."""

import logging
import os
from unittest.mock import Mock

import numpy as np
import pytest

from nmt.errors import DeviceError
from nmt.rnn import devices
from nmt.rnn.cores import default_threads, granted_cores, usable_threads
from nmt.rnn.device import Device
from nmt.rnn.devices import cpu
from tests.refusals import refused


def test_without_a_gpu_auto_falls_back_and_says_why_and_cuda_is_refused(monkeypatch, caplog):
    lacking = DeviceError("cuda: the driver must show a GPU, it shows none; use --device cpu")
    monkeypatch.setattr(devices, "cuda", Mock(side_effect=lacking))
    with caplog.at_level(logging.WARNING):
        assert devices.choose_device("cpu").name == "cpu" and not caplog.records
        assert devices.choose_device("auto") is devices.cpu()
    assert caplog.messages == ["device auto: the processor, for the driver must show a GPU, it shows none"]
    refused(DeviceError, "must show a GPU", devices.choose_device, "cuda")
    for name in ("gpu", "", None, 1):
        refused(DeviceError, "device must be cpu, cuda or auto, got", devices.choose_device, name)


def test_auto_takes_a_gpu(monkeypatch):
    gpu = object()
    monkeypatch.setattr(devices, "cuda", lambda: gpu)
    assert devices.choose_device("auto") is gpu


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
    refused(TypeError, "abstract", type("Half", (Device,), {"upload": lambda self, array: array}))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_threads_follow_affinity():
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(cores)})
        assert default_threads() == 1
        assert usable_threads(64) == 1
    finally:
        os.sched_setaffinity(0, cores)


def test_no_more_threads_than_cores_are_usable():
    assert usable_threads(None) == usable_threads(100_000) == default_threads()
    assert usable_threads(1) == 1 <= default_threads()


V1 = "5:memory:/box\n4:cpu,cpuacct:/box\n"
INNER = {"box/inner/cpu.max": "max 100000"}
QUOTA, PERIOD = (f"cpu,cpuacct/box/cpu.cfs_{name}_us" for name in ("quota", "period"))


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/box/inner\n", INNER | {"box/cpu.max": "200000 100000"}, 2),
        ("0::/box/inner\n", INNER | {"box/cpu.max": "150000 100000"}, 2),
        ("0::/box/inner\n", INNER | {"box/cpu.max": "50000 100000"}, 1),
        ("0::/box/inner\n", INNER | {"box/cpu.max": "max 100000"}, None),
        ("0::/box/inner\n", INNER | {"box/cpu.max": "nonsense"}, None),
        # A container sees its own group at the root; the tightest quota counts.
        ("0::/not/to/be/seen\n", {"cpu.max": "300000 100000"}, 3),
        ("0::/not/to/be/seen\n", {"cpu.max": "300000 100000", "not/cpu.max": "100000 100000"}, 1),
        (V1, {QUOTA: "400000", PERIOD: "100000"}, 4),
        (V1, {QUOTA: "-1", PERIOD: "100000"}, None),
        (None, {}, None),
    ],
)
def test_quotas_of_control_groups(tmp_path, groups, files, cores):
    """Of version 2, of version 1, and where there are none."""
    if groups is not None:
        (tmp_path / "cgroup").write_text(groups)
    for name, text in files.items():
        (tmp_path / "fs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fs" / name).write_text(text)
    assert granted_cores(tmp_path / "cgroup", tmp_path / "fs") == cores
