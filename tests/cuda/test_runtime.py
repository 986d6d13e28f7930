"""A GPU that does not suffice is one line that says what to do."""

import sys
from types import SimpleNamespace

import pytest

from nmt.errors import DeviceError
from nmt.rnn.kernels.cuda.machine_code import runtime


class CUDARuntimeError(RuntimeError):
    pass


def fake_cupy(gpus=1, major=9, free=100 << 30, error=None):
    facts = {"ComputeCapabilityMajor": major, "ComputeCapabilityMinor": 0, "MultiProcessorCount": 132}
    facts["MaxSharedMemoryPerBlockOptin"] = 232448
    names = list(facts)

    def count():
        if error:
            raise CUDARuntimeError(error)
        return gpus

    calls = SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        getDeviceCount=count,
        getDeviceProperties=lambda gpu: {"name": b"GPU"},
        deviceGetAttribute=lambda which, gpu: facts[names[which]],
        memGetInfo=lambda: (free, 140 << 30),
        **{f"cudaDevAttr{name}": i for i, name in enumerate(names)},
    )
    return SimpleNamespace(cuda=SimpleNamespace(runtime=calls))


@pytest.mark.parametrize(
    ("gpu", "message"),
    [
        ({"error": "driver version is insufficient"}, "a driver for CUDA 13.0 .* got driver version is insufficient; "),
        ({"gpus": 0}, "the driver must show a GPU, it shows none; use --device cpu"),
        ({"major": 7}, "GPU: the GPU's compute capability must be at least 8.0, it is 7.0; use --device cpu"),
        ({"free": 1 << 20}, "GPU: at least 1.0 GiB of its memory must be free, 0.0 GiB of 140.0 GiB are; "),
    ],
)
def test_what_a_gpu_lacks(monkeypatch, gpu, message):
    monkeypatch.setattr(runtime, "_import_cupy", lambda: fake_cupy(**gpu))
    with pytest.raises(DeviceError, match=message) as caught:
        runtime.CupyRuntime()
    assert "\n" not in str(caught.value)


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    runtime._import_cupy.cache_clear()
    with pytest.raises(DeviceError, match=r"pip install -e '.\[cuda\]', or use --device cpu"):
        runtime.CupyRuntime()
