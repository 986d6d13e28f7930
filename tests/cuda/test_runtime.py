"""A GPU that does not suffice is one line that says what to do."""

import sys

import pytest

from nmt.errors import DeviceError
from nmt.rnn.kernels.cuda.machine_code import runtime
from tests.cuda_standin.gpu import CUDARuntimeError, Gpu
from tests.cuda_standin.runtime import packages_of
from tests.refusals import refused


def no_driver():
    raise CUDARuntimeError("driver version is insufficient")


@pytest.mark.parametrize(
    ("facts", "calls", "message"),
    [
        ({}, {"getDeviceCount": no_driver}, "a driver for CUDA 13.0 .* got driver version is insufficient; "),
        ({}, {"getDeviceCount": lambda: 0}, "the driver must show a GPU, it shows none; use --device cpu"),
        ({"capability": (7, 0)}, {}, "GPU: the GPU's compute capability must be at least 8.0, it is 7.0; use --device"),
        ({"free": 1 << 20}, {}, "GPU: at least 1.0 GiB of its memory must be free, 0.0 GiB of 80.0 GiB are; "),
    ],
)
def test_what_a_gpu_lacks(facts, calls, message):
    gpu = Gpu()
    vars(gpu).update({"name": b"GPU", **facts})
    packages = packages_of(gpu)
    vars(packages.cupy.cuda.runtime).update(calls)
    with pytest.raises(DeviceError, match=message) as caught:
        runtime.CupyRuntime(packages=packages)
    assert "\n" not in str(caught.value)


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    runtime._installed.cache_clear()
    refused(DeviceError, r"pip install -e '.\[cuda\]', or use --device cpu", runtime.CupyRuntime)
