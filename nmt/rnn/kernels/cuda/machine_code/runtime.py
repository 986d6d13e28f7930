"""The runtime of a GPU: memory, streams and graphs by CuPy, products by cuBLAS, launches by the driver API."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock, RLock, local
from typing import Any, NamedTuple

import numpy as np

from nmt.errors import DeviceError
from nmt.rnn.kernels.cuda.blas import WORKSPACE, Blas, Matrix, load_library
from nmt.rnn.kernels.cuda.machine_code.compile import CompiledKernel, compile_kernel
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel, Size, whole_size
from nmt.rnn.kernels.cuda.machine_code.parameters import Packed, Parameters
from nmt.system.extras import how_to_install

OLDEST = (8, 0)  # bfloat16 products
STATIC_SHARED = 48 * 1024  # more must be requested


@dataclass(frozen=True)
class Packages:
    """The parts of a runtime: the modules `cupy` and `cuda.bindings.driver`, a function that loads cuBLAS, and the
    compiler of kernels for a capability."""

    cupy: Any
    driver: Any
    load_blas: Callable[[], Any]
    compile: Callable[[GPUKernel, tuple[int, int]], CompiledKernel]


class CupyRuntime:
    """The `Runtime` of the driver's first GPU. Raises DeviceError if there is none that suffices.

    free_memory: bytes of the GPU's memory that must be free. packages: those installed, where None. All work of all
    threads goes to one stream, which becomes CuPy's current stream in each thread that uses `xp` or submits work;
    recordings are made in another stream, so that other threads' work does not become part of them.
    """

    def __init__(self, free_memory: int = 1 << 30, packages: Packages | None = None) -> None:
        self.packages = packages or _installed()
        self._cupy = cupy = self.packages.cupy
        gpu, calls = _first_gpu(cupy), cupy.cuda.runtime
        self.gpu_name, self.capability = gpu["name"].decode(), (int(gpu["major"]), int(gpu["minor"]))
        self.multiprocessors = int(calls.deviceGetAttribute(calls.cudaDevAttrMultiProcessorCount, 0))
        self.shared_per_block = int(calls.deviceGetAttribute(calls.cudaDevAttrMaxSharedMemoryPerBlockOptin, 0))
        if self.capability < OLDEST:
            raise DeviceError(
                f"{self.gpu_name}: the GPU's compute capability must be at least 8.0, it is "
                f"{self.capability[0]}.{self.capability[1]}; use --device cpu"
            )
        free, self.memory = (int(count) for count in calls.memGetInfo())
        if free < free_memory:
            raise DeviceError(
                f"{self.gpu_name}: at least {_gib(free_memory)} of its memory must be free, {_gib(free)} of "
                f"{_gib(self.memory)} are; end other programs on it, or use --device cpu"
            )
        self._lock, self._one_records = RLock(), Lock()
        self._pool = cupy.cuda.MemoryPool()
        cupy.cuda.set_allocator(self._allocate)
        self._of_thread = local()
        self.stream = cupy.cuda.Stream(non_blocking=True).use()
        self._workspace, library = cupy.empty(WORKSPACE, np.uint8), self.packages.load_blas()
        self._main, self._recorder = (
            _Queue(stream, Blas(library, stream.ptr, self._workspace.data.ptr))
            for stream in (self.stream, cupy.cuda.Stream(non_blocking=True))
        )
        self._functions: dict[GPUKernel, _Function] = {}

    @property
    def xp(self) -> Any:
        """Return CuPy, whose work in this thread goes where the runtime's goes."""
        self._queue()
        return self._cupy

    def _queue(self) -> _Queue:
        """Return where this thread's work goes."""
        queue: _Queue | None = getattr(self._of_thread, "queue", None)
        if queue is None:
            self._cupy.cuda.runtime.setDevice(0)  # the driver's calls need a context, which a new thread has not
            queue = self._use(self._main)
        return queue

    def _use(self, queue: _Queue) -> _Queue:
        queue.stream.use()
        self._of_thread.queue = queue
        return queue

    def launch(self, kernel: GPUKernel, grid: Size, *arguments: Any) -> None:
        size = whole_size(grid)
        queue = self._queue()
        with self._lock:  # the memory of a kernel's arguments is used by all threads
            function = self._functions.get(kernel) or self._function(kernel)
            if 0 not in size:
                function(size, queue.stream.ptr, arguments)

    def packed(self, kernel: GPUKernel, first: int, *arguments: Any) -> Packed:
        self._queue()
        with self._lock:
            return self._function(kernel).parameters.packed(first, arguments)

    def gemm(
        self,
        a: Matrix,
        b: Matrix,
        out: Matrix,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        accumulate: bool = False,
    ) -> None:
        with self._lock:
            self._queue().blas.gemm(a, b, out, transpose_a, transpose_b, accumulate)

    def upload(self, array: np.ndarray) -> Any:
        return self.xp.array(array, order="C")

    def download(self, array: Any) -> np.ndarray:
        with self._errors():
            return self.xp.asnumpy(array, stream=self.stream)

    def synchronize(self) -> None:
        with self._errors():
            self.stream.synchronize()

    def now(self) -> Any:
        event = self.xp.cuda.Event()
        event.record(self.stream)
        return event

    def seconds(self, began: Any, ended: Any) -> float:
        with self._errors():
            ended.synchronize()
            return float(self.xp.cuda.get_elapsed_time(began, ended)) * 1e-3

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        with self._one_records, self._errors():
            self._queue()
            stream = self._recorder.stream
            try:
                self._use(self._recorder)
                stream.begin_capture()
                function()
            except BaseException:
                with suppress(self._cupy.cuda.runtime.CUDARuntimeError):  # the capture failed too: not the reason
                    stream.end_capture()
                raise
            else:
                graph = stream.end_capture()
            finally:
                self._use(self._main)
        return lambda: graph.launch(self.stream)

    def _allocate(self, size: int) -> Any:
        try:
            return self._pool.malloc(size)
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            raise DeviceError(
                f"{self.gpu_name}: {_gib(size)} more of its {_gib(self.memory)} of memory must be free, "
                f"{_gib(self._pool.used_bytes())} are in use here; make batches or the model smaller"
            ) from error

    def _function(self, kernel: GPUKernel) -> _Function:
        if kernel not in self._functions:
            self._functions[kernel] = _Function(kernel, self)
        return self._functions[kernel]

    def _errors(self) -> _Errors:
        return _Errors(self.gpu_name, self._cupy.cuda.runtime.CUDARuntimeError)


class _Queue(NamedTuple):
    """A stream, and a cuBLAS handle for it."""

    stream: Any
    blas: Blas


class _Errors:
    """A context that raises DeviceError for errors of earlier launches, which CUDA reports when the host waits."""

    def __init__(self, gpu: str, kind: type[Exception]) -> None:
        self.gpu_name, self.kind = gpu, kind

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, self.kind):
            raise DeviceError(
                f"{self.gpu_name}: everything launched must succeed, got {error}; run `make test-gpu` on this machine"
            ) from error


class _Function:
    """A kernel's code loaded on the GPU, and its launch parameters."""

    def __init__(self, kernel: GPUKernel, runtime: CupyRuntime) -> None:
        driver = runtime.packages.driver
        compiled = runtime.packages.compile(kernel, runtime.capability)
        shared = compiled.resources.shared + kernel.shared_bytes
        if shared > runtime.shared_per_block:
            raise DeviceError(
                f"{runtime.gpu_name}: {kernel.name} must have {shared} bytes of shared memory, a block has at most "
                f"{runtime.shared_per_block}; use --device cpu"
            )
        self.kernel, self.driver = kernel, driver
        self.module = runtime.packages.cupy.cuda.function.Module()
        self.module.load(compiled.cubin)
        self.code = driver.CUfunction(self.module.get_function(compiled.entry).ptr)
        if kernel.shared_bytes > STATIC_SHARED - compiled.resources.shared:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _check(kernel, driver.cuFuncSetAttribute(self.code, attribute, kernel.shared_bytes)[0])
        self.parameters = Parameters(kernel)
        self.fixed = *kernel.block, kernel.shared_bytes
        if self.parameters.sizes != compiled.parameters:
            raise RuntimeError(f"{kernel.name}: compiled for parameters of {compiled.parameters} bytes")

    def __call__(self, grid: tuple[int, int, int], stream: int, arguments: tuple[Any, ...]) -> None:
        places = self.parameters.fill(arguments)
        if self.kernel.cooperative:
            (error,) = self.driver.cuLaunchCooperativeKernel(self.code, *grid, *self.fixed, stream, places)
        else:
            (error,) = self.driver.cuLaunchKernel(self.code, *grid, *self.fixed, stream, places, 0)
        if error:
            _check(self.kernel, error)


def _check(kernel: GPUKernel, error: Any) -> None:
    if error:
        raise DeviceError(f"{kernel.name}: the launch must succeed, got {error.name}; run `make test-gpu` here")


@lru_cache(maxsize=1)
def _installed() -> Packages:
    try:
        import cupy
        from cuda.bindings import driver
    except ImportError as error:
        raise DeviceError(
            f"cuda: the packages cupy and numba-cuda must be installed, got {_one_line(error)}; "
            f"{how_to_install('cuda')}, or use --device cpu"
        ) from error
    return Packages(cupy, driver, load_library, compile_kernel)


def _first_gpu(cupy: Any) -> dict[str, Any]:
    """Return the properties of the first GPU."""
    runtime = cupy.cuda.runtime
    try:
        if runtime.getDeviceCount() < 1:
            raise DeviceError("cuda: the driver must show a GPU, it shows none; use --device cpu")
        found: dict[str, Any] = runtime.getDeviceProperties(0)
    except runtime.CUDARuntimeError as error:
        raise DeviceError(
            f"cuda: a driver for CUDA 13.0 or newer and a GPU must be there, got {_one_line(error)}; "
            "install NVIDIA's driver 580 or newer, or use --device cpu"
        ) from error
    return found


def _one_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
