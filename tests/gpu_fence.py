"""Fences around arrays on a GPU, waits after every launch, lags, and a record of the last operations: a pytest plugin.

Each array gets physical memory of its own at addresses of its own, with unmapped neighbours; freed memory is unmapped
at the next allocation, and its addresses are never used again. So an access before an array, beyond it or after it was
freed is a fault of the launch that made it, and a wait after each launch names it. compute-sanitizer is not needed, and
cuBLAS and CuPy are checked too. A wait after each launch hides races between streams: for these there are lags and the
record.

    NMT_GPU_FENCE=end NMT_TEST_DEVICE=cuda python -m pytest -p tests.gpu_fence -n 8 tests/cuda/test_cells.py ...

NMT_GPU_FENCE  end: arrays end where unmapped memory begins (16 bytes aligned); begin: they begin there. With a fence,
               pieces of a workspace and reused buffers are arrays of their own, nothing is recorded, and each launch
               and product is waited for
NMT_GPU_WAIT   1: wait without a fence, as for users
NMT_GPU_LAG    cycles that a kernel spins in CuPy's current stream before each upload: what has no order with it is late
NMT_GPU_LOG    folder: after the first CUDA error of a process `flight-PID.txt` there has its tests and last operations
NMT_GPU_FIRST  a test, module:function: called with the device, and True, before the first test of each process
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nmt.rnn.arrays.workspace import Workspace
from nmt.rnn.kernels.cuda.device_cuda import CudaDevice
from nmt.rnn.kernels.cuda.machine_code import runtime as runtimes
from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime, Packages
from tests.devices import device_at

ALIGN = 16
POISON = 0x7F  # floats are finite and huge, integers no index
OPERATIONS, TESTS = 600, 200  # that a record keeps
SPIN = """extern "C" __global__ void spin(long long cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) { }
}"""


@dataclass
class Flight:
    """What a process did, and the file that is told after the first error of CUDA."""

    folder: str = ""
    tests: deque[str] = field(default_factory=lambda: deque(maxlen=TESTS))
    operations: deque[tuple[Any, ...]] = field(default_factory=lambda: deque(maxlen=OPERATIONS))
    written: bool = False

    def note(self, *operation: Any, arrays: Any = ()) -> None:
        """Remember an operation; how its arrays lie only where there is a folder, since that takes time."""
        self.operations.append((f"{time.monotonic():.6f}", *operation, *(map(shown, arrays) if self.folder else ())))

    def write(self, why: str) -> None:
        """Write the record, once."""
        if not self.folder or self.written:
            return
        self.written = True
        lines = [why, "", "tests of this process, the last one last:", *self.tests]
        lines += ["", "operations, the last one last:", *(" ".join(map(str, one)) for one in self.operations)]
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        (Path(self.folder) / f"flight-{os.getpid()}.txt").write_text("\n".join(lines) + "\n", "utf-8")


def shown(value: Any) -> str:
    """An argument in a record: an array by its type, shape and address."""
    if hasattr(value, "data") and hasattr(value, "dtype"):
        return f"{value.dtype}{list(value.shape)}@{int(value.data.ptr):#x}"
    if hasattr(value, "array") and hasattr(value, "stride"):
        return f"rows {value.first}+{value.rows} columns {value.column}+{value.size} of {shown(value.array)}"
    return repr(value)[:60]


class Fence:
    """Memory by the driver's virtual addresses; `driver` is cuda.bindings.driver."""

    def __init__(self, driver: Any, side: str, device: int = 0) -> None:
        self.driver, self.side = driver, side
        self.unused: defaultdict[int, list[Any]] = defaultdict(list)  # physical memory by size
        self.live: dict[int, tuple[int, int, Any]] = {}  # address: start of the mapping, its bytes, physical memory
        self.freed: deque[int] = deque()
        self.recording = False
        self.kind = driver.CUmemAllocationProp()
        self.kind.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        self.access = driver.CUmemAccessDesc()
        self.access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        for one in (self.kind, self.access):
            one.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            one.location.id = device
        least = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        self.page = int(self._do("cuMemGetAllocationGranularity", self.kind, least))

    def _do(self, name: str, *given: Any) -> Any:
        error, *found = getattr(self.driver, name)(*given)
        if int(error):
            raise RuntimeError(f"{name}: {error}")
        return found[0] if found else None

    def malloc(self, size: int, device: int = 0) -> int:
        """Return the address of new memory that nobody has written."""
        self.unmap()
        size = max(1, size)
        body = -(-size // self.page) * self.page
        start = int(self._do("cuMemAddressReserve", body + 2 * self.page, self.page, 0, 0)) + self.page
        unused = self.unused[body]
        memory = unused.pop() if unused else self._do("cuMemCreate", body, self.kind, 0)
        self._do("cuMemMap", start, body, 0, memory, 0)
        self._do("cuMemSetAccess", start, body, [self.access], 1)
        if not self.recording:
            self._do("cuMemsetD8", start, POISON, body)
            self._do("cuCtxSynchronize")
        address = start if self.side == "begin" else start + body - -(-size // ALIGN) * ALIGN
        self.live[address] = start, body, memory
        return address

    def free(self, address: int, device: int = 0) -> None:
        """Unmap memory at the next allocation: this one may be a collection of garbage within a call of the driver."""
        self.freed.append(address)

    def unmap(self) -> None:
        """Unmap what was freed, after all work that may use it. Its addresses stay reserved: nobody gets them again."""
        if not self.freed or self.recording:
            return
        self._do("cuCtxSynchronize")
        while self.freed:
            start, body, memory = self.live.pop(self.freed.popleft())
            self._do("cuMemUnmap", start, body)
            self.unused[body].append(memory)


class _Pool:
    """What a runtime asks of its pool."""

    def __init__(self, cupy: Any, fence: Fence) -> None:
        self.fence = fence
        self.malloc = cupy.cuda.PythonFunctionAllocator(fence.malloc, fence.free).malloc

    def used_bytes(self) -> int:
        return sum(body for _, body, _ in self.fence.live.values())


class WatchedRuntime(CupyRuntime):
    """The package's runtime with fences, lags and a record, as the environment asks."""

    flight = Flight(os.environ.get("NMT_GPU_LOG", ""))
    fence: Fence | None = None

    def __init__(self, free_memory: int = 1 << 30, packages: Packages | None = None) -> None:
        packages = packages or runtimes._installed()
        cuda, side = packages.cupy.cuda, os.environ.get("NMT_GPU_FENCE", "")
        usual = cuda.MemoryPool
        if side:
            cuda.runtime.setDevice(0)
            cuda.runtime.free(0)  # makes a context
            self.fence = Fence(packages.driver, side)
            cuda.MemoryPool = lambda: _Pool(packages.cupy, self.fence)
        try:
            super().__init__(free_memory, packages)
        finally:
            cuda.MemoryPool = usual
        self._waits = self._waits or bool(side)
        self.lag, self._spin = int(os.environ.get("NMT_GPU_LAG", "0")), None

    def launch(self, kernel: Any, grid: Any, *arguments: Any) -> None:
        self.flight.note("launch", kernel.name, grid, arrays=arguments)
        super().launch(kernel, grid, *arguments)

    def gemm(self, a: Any, b: Any, out: Any, **options: Any) -> None:
        self.flight.note("product", options, arrays=(a, b, out))
        super().gemm(a, b, out, **options)

    def upload(self, array: np.ndarray) -> Any:
        if self.lag:
            self._spin = self._spin or self._cupy.RawKernel(SPIN, "spin")
            self._spin((1,), (1,), (np.int64(self.lag),))  # where CuPy's work goes now
        return super().upload(array)

    def record(self, function: Any) -> Any:
        self._set_recording(True)
        try:
            again = super().record(function)
        finally:
            self._set_recording(False)
        self.flight.note("recorded", id(again))

        def replay() -> None:
            self.flight.note("replay of", id(again))
            again()

        return replay

    def _set_recording(self, recording: bool) -> None:
        if self.fence:
            self.fence.recording = recording


def take_apart() -> None:
    """Let each piece of a GPU's workspace and each buffer be an array of its own, and record nothing."""
    usual = Workspace.__call__

    def apart(self: Workspace, shape: tuple[int, ...], dtype: Any) -> Any:
        return usual(self, shape, dtype) if self._xp is np else self._xp.empty(shape, dtype)

    Workspace.__call__ = apart  # type: ignore[method-assign]
    CudaDevice.buffer = lambda self, role, shape, dtype: self.xp.empty(shape, dtype)  # type: ignore[method-assign]
    CudaDevice.repeat = lambda self, key, arrays, launch: launch()  # type: ignore[method-assign]
    CudaDevice.record = lambda self, launch: launch  # type: ignore[method-assign]


def pytest_configure(config: Any) -> None:
    """Let all runtimes of this process be watched."""
    runtimes.CupyRuntime = WatchedRuntime  # type: ignore[misc]
    if os.environ.get("NMT_GPU_FENCE"):
        take_apart()


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    """Note a test."""
    WatchedRuntime.flight.tests.append(f"{time.monotonic():.6f} {nodeid}")


def pytest_runtest_logreport(report: Any) -> None:
    """Write the record after an error of CUDA."""
    text = str(report.longrepr) if report.failed else ""
    if any(word in text for word in ("cudaError", "CUDA_ERROR", "launched must succeed")):
        WatchedRuntime.flight.write(f"{report.nodeid}, {report.when}: {text[-600:]}")


@pytest.fixture(scope="session", autouse=True)
def first_of_all() -> Iterator[None]:
    """Call the test of NMT_GPU_FIRST."""
    if name := os.environ.get("NMT_GPU_FIRST"):
        module, _, function = name.partition(":")
        getattr(importlib.import_module(module), function)(device_at("cuda"), True)
        print(f"gpu_fence: {name} was the first of process {os.getpid()}", file=sys.stderr)
    yield
