"""The device of these tests: a stand-in, or the GPU of this machine (see `tests.devices`)."""

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


@pytest.fixture
def one_analysis(monkeypatch):
    """Numba's analysis of a function, which takes most of the time, is made once for all GPUs. What it gives does not
    depend on them: `test_compile.test_the_analysis_of_a_kernel_is_that_of_all_gpus`."""
    from numba.cuda import compiler

    analyse, made = compiler._compile_pyfunc_with_fixup, {}

    def analysed(function, signature, *, cc, **options):
        key = function, signature, str(options)
        if key not in made:
            made[key] = analyse(function, signature, cc=cc, **options)
        return made[key]

    monkeypatch.setattr(compiler, "_compile_pyfunc_with_fixup", analysed)
