"""What surrounds the tests of a GPU by fences and records: its bookkeeping on a driver that counts, its runtime on the
stand-in."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nmt.errors import DeviceError
from nmt.rnn.arrays.device_operations import ADD_SCALED
from nmt.rnn.kernels.cuda import optimizer
from nmt.rnn.kernels.cuda.blas import Matrix
from tests import gpu_fence
from tests.cuda_standin.gpu import CUDARuntimeError
from tests.cuda_standin.runtime import packages_of
from tests.devices import ptx_runtime_with
from tests.gpu_fence import POISON, Fence, Flight, WatchedRuntime

PAGE = 1 << 21
ROOT = Path(__file__).parents[2]


class Driver:
    """cuda.bindings.driver: virtual addresses, physical memory and what is mapped where."""

    def __init__(self):
        self.calls = Counter()
        self.reserved, self.mapped, self.access, self.poisoned = {}, {}, set(), {}
        self.made, self.top = [], 1 << 40
        for name in ("CUmemAllocationProp", "CUmemAccessDesc"):
            setattr(self, name, lambda: SimpleNamespace(location=SimpleNamespace()))
        for name in ("CUmemAllocationType", "CUmemLocationType", "CUmemAccess_flags"):
            setattr(self, name, SimpleNamespace(**dict.fromkeys(NAMES[name], 1)))
        self.CUmemAllocationGranularity_flags = SimpleNamespace(CU_MEM_ALLOC_GRANULARITY_MINIMUM=0)

    def __getattr__(self, name):
        def call(*given):
            self.calls[name] += 1
            return (0, *(() if (found := getattr(self, f"do_{name}")(*given)) is None else (found,)))

        if not name.startswith("cu"):
            raise AttributeError(name)
        return call

    def do_cuMemGetAllocationGranularity(self, kind, least):  # noqa: N802
        return PAGE

    def do_cuMemAddressReserve(self, size, alignment, address, flags):  # noqa: N802
        start, self.top = self.top, self.top + size
        self.reserved[start] = size
        return start

    def do_cuMemCreate(self, size, kind, flags):  # noqa: N802
        self.made.append(size)
        return len(self.made) - 1

    def do_cuMemMap(self, start, size, offset, memory, flags):  # noqa: N802
        assert memory not in [one for _, one in self.mapped.values()], "mapped twice"
        assert any(at < start and start + size < at + n for at, n in self.reserved.items()), "no guards"
        assert self.made[memory] == size
        self.mapped[start] = size, memory

    def do_cuMemSetAccess(self, start, size, access, count):  # noqa: N802
        assert self.mapped[start][0] == size
        self.access.add(start)

    def do_cuMemsetD8(self, start, value, size):  # noqa: N802
        assert start in self.access and self.mapped[start][0] == size
        self.poisoned[start] = value

    def do_cuMemUnmap(self, start, size):  # noqa: N802
        assert self.calls["cuCtxSynchronize"], "work that may use it"
        assert self.mapped.pop(start)[0] == size
        self.access.discard(start)

    def do_cuCtxSynchronize(self):  # noqa: N802
        return None


NAMES = {
    "CUmemAllocationType": ["CU_MEM_ALLOCATION_TYPE_PINNED"],
    "CUmemLocationType": ["CU_MEM_LOCATION_TYPE_DEVICE"],
    "CUmemAccess_flags": ["CU_MEM_ACCESS_FLAGS_PROT_READWRITE"],
}


@pytest.mark.parametrize("side", ["end", "begin"])
@pytest.mark.parametrize("size", [0, 1, 16, 4000, PAGE - 1, PAGE, PAGE + 1, 5 * PAGE])
def test_an_array_lies_between_unmapped_pages(side, size):
    driver = Driver()
    address = Fence(driver, side).malloc(size)
    ((start, (body, _)),) = driver.mapped.items()
    assert address % 16 == 0 and start <= address and address + size <= start + body
    assert address == start if side == "begin" else start + body - address - size < 16 + (size == 0)
    assert driver.poisoned[start] == POISON and start in driver.access


def test_freed_memory_is_unmapped_and_its_addresses_are_never_used_again():
    driver = Driver()
    fence, seen = Fence(driver, "end"), set()
    for _ in range(5):
        address = fence.malloc(100)
        assert address not in seen
        seen.add(address)
        fence.free(address)
        assert len(driver.mapped) == 1
    fence.unmap()
    assert not driver.mapped and len(driver.made) == 1, "physical memory is used again"
    assert len(driver.reserved) == 5


def test_nothing_is_unmapped_or_waited_for_while_something_is_recorded():
    driver = Driver()
    fence = Fence(driver, "end")
    first = fence.malloc(100)
    fence.recording, waits = True, driver.calls["cuCtxSynchronize"]
    fence.free(first)
    fence.malloc(100)
    assert len(driver.mapped) == 2 and driver.calls["cuCtxSynchronize"] == waits
    fence.recording = False
    fence.malloc(100)
    assert len(driver.mapped) == 2


def test_the_names_of_the_driver_are_there():
    driver = pytest.importorskip("cuda.bindings.driver", reason="needs cuda-bindings, of the extra [cuda-compiler]")
    for kind, names in NAMES.items():
        for name in names:
            getattr(getattr(driver, kind), name)
    for name in [name.removeprefix("do_") for name in vars(Driver) if name.startswith("do_")]:
        getattr(driver, name)
    Fence._do(SimpleNamespace(driver=SimpleNamespace(f=lambda: (driver.CUresult.CUDA_SUCCESS,))), "f")
    kind = driver.CUmemAllocationProp()
    kind.location.id = 0


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    """The watched runtime on the stand-in."""
    gpu = ptx_runtime_with(seed=1).gpu
    monkeypatch.setenv("NMT_GPU_WAIT", "1")
    monkeypatch.setattr(WatchedRuntime, "flight", Flight(str(tmp_path)))
    found = WatchedRuntime(packages=packages_of(gpu))
    found.gpu = gpu
    return found


def test_the_record_has_operations_with_their_arrays(runtime, tmp_path):
    x, y = (runtime.upload(np.ones((4, 4), np.float32)) for _ in range(2))

    def step():
        optimizer.change(runtime, ADD_SCALED, (y, x), (1.0, 1.0))
        runtime.gemm(*map(Matrix.whole, (x, y, runtime_out)))

    runtime_out = runtime.xp.zeros((4, 4), np.float32)
    step()
    runtime.record(step)()
    runtime.gpu.before_launch = lambda kernel: setattr(
        runtime.gpu, "error", CUDARuntimeError("cudaErrorIllegalAddress")
    )
    with pytest.raises(DeviceError, match=r"after .*add_scaled 1x1x1; the last one failed") as caught:
        optimizer.change(runtime, ADD_SCALED, (x, y), (1.0, 1.0))
    runtime.flight.tests.append("a test")
    report = SimpleNamespace(failed=True, longrepr=str(caught.value), nodeid="a test", when="call")
    gpu_fence.pytest_runtest_logreport(report)
    gpu_fence.pytest_runtest_logreport(report)
    (path,) = tmp_path.glob("flight-*.txt")
    text = path.read_text()
    assert path.name == f"flight-{os.getpid()}.txt" and "cudaErrorIllegalAddress" in text.splitlines()[0]
    kinds = [line.split()[1] for line in text.partition("operations")[2].splitlines()[1:]]
    assert kinds == ["launch", "product", "launch", "product", "recorded", "replay", "launch"]
    assert f"add_scaled 1 float32[4, 4]@{x.data.ptr:#x}" in text.splitlines()[-1]
    assert f"rows 0+4 columns 0+4 of float32[4, 4]@{runtime_out.data.ptr:#x}" in text


def test_a_lag_is_in_the_stream_of_the_upload(runtime):
    streams = []

    class RawKernel:
        def __init__(self, text, name):
            assert f"void {name}(" in text

        def __call__(self, grid, block, arguments):
            streams.append(runtime.packages.cupy.cuda.get_current_stream())

    vars(runtime.packages.cupy)["RawKernel"] = RawKernel
    runtime.lag = 1000
    for _ in range(2):
        x = runtime.upload(np.arange(6, dtype=np.float32).reshape(2, 3))
        runtime.download(x.T)
    assert streams == [runtime.stream] * 2


def test_a_run_behind_the_plugin(tmp_path):
    """The scoring test first, arrays apart, on the stand-in: the plugin's names are those of the package."""
    tests = ["tests/cuda/test_rows.py", "-k", "embedding or take or lying"]
    first = "tests.cuda.test_search:test_given_translations_are_scored_as_on_the_processor"
    given = {"PYTHONPATH": str(ROOT), "NMT_GPU_LOG": str(tmp_path / "log"), "NMT_GPU_FIRST": first}
    script = (
        "import sys, pytest\nfrom tests import gpu_fence\ngpu_fence.take_apart()\nsys.exit(pytest.main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", script, "-q", "-s", "-p", "tests.gpu_fence", "-p", "no:cacheprovider", *tests]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ | given, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr.count("was the first of process") == 1
    assert not (tmp_path / "log").exists()
