"""The devices that a test may be parametrised over: the processor, and a GPU, or what stands for one.

`place` is a name, `cpu` or `cuda`. The GPU is that of this machine where NMT_TEST_DEVICE is `cuda`, else a stand-in:
the package's own runtime on `tests/cuda_standin`, kernels by the PTX that NVVM makes of them (`tests/ptx`), with few
sizes unless NMT_TEST_DEVICE is `ptx`.
"""

import os
from functools import lru_cache

import pytest

ON_GPU = os.environ.get("NMT_TEST_DEVICE") == "cuda"
ON_PTX = os.environ.get("NMT_TEST_DEVICE") == "ptx"
AT_FULL_SIZE = ON_GPU or ON_PTX
"""Whether the place `cuda` is asked for what a GPU is used for; without one that takes half an hour."""


@lru_cache(maxsize=1)
def _first_gpu():
    from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime

    return CupyRuntime()


def wait_for_gpu():
    """Wait for the work of this machine's GPU, if any test has used it: what fails there is then the fault of the test
    that launched it, whatever its stream. Does nothing for the stand-in, which computes at once."""
    if _first_gpu.cache_info().currsize:
        _first_gpu().synchronize()
        _first_gpu().packages.cupy.cuda.runtime.deviceSynchronize()


def runtime_with(multiprocessors=None, seed=None):
    """A runtime; the stand-in with this many multiprocessors, its threads in the order of `seed`."""
    if ON_GPU:
        return _first_gpu()
    return ptx_runtime_with(multiprocessors, seed)


def ptx_runtime_with(multiprocessors=None, seed=None, **given):
    """The stand-in with kernels by their PTX; skips where NVVM or a C++ compiler is missing."""
    for package in ("cuda.bindings.nvjitlink", "numba.cuda"):
        pytest.importorskip(package, reason="PTX needs numba-cuda and NVVM: pip install -e .[cuda-compiler]")
    from tests.ptx.machine import compiler

    if compiler() is None:
        pytest.skip("the machine of tests/ptx needs a C++ compiler: g++ or clang++")
    from tests.ptx.gpu import ptx_runtime

    return ptx_runtime(seed, multiprocessors, **given)


@lru_cache(maxsize=2)
def device_at(place):
    """The device of a place; None is the processor. The stand-in's threads take turns in a random order, another in
    every launch. At full size there are as many multiprocessors as a GPU has."""
    if place == "cpu":
        return None
    runtime = runtime_with(132 if ON_PTX else None, seed=1)
    from nmt.rnn.kernels.cuda.device_cuda import CudaDevice

    return CudaDevice(runtime)
