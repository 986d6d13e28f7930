"""The runtime of a GPU: memory, streams and graphs by CuPy, products by cuBLAS, launches by the driver API, with
arguments in its format."""

from __future__ import annotations

import linecache
import os
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock, RLock, local
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numba.core import types

from nmt.errors import DeviceError, how_to_install
from nmt.rnn.kernels.cuda.blas import WORKSPACE, Blas, Matrix, load_library
from nmt.rnn.kernels.cuda.machine_code.compile import CompiledKernel, compile_kernel
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel, Size, whole_size
from nmt.system.interruption import forkable

# A number in a word of 8 bytes.
_PADDED = {"int32": "ixxxx", "uint32": "Ixxxx", "float32": "fxxxx", "int64": "q", "uint64": "Q", "float64": "d"}
# A 1-D array in words of 8 bytes: two owners (none), the number of elements and the bytes of one, the address, and the
# length and stride of its axis.
_ARRAY, _ARRAY_WORDS = "16xqqQqq", 7


class Packed(NamedTuple):
    """The last arguments of several launches, from number `first` on, as words; the arrays must outlive it."""

    first: int
    words: bytes


class Parameters:
    """The words of a kernel's arguments as Numba compiled it, and the address of each. The words have 8 bytes each, in
    the same memory for all launches; the driver copies `sizes` of them at a launch."""

    def __init__(self, kernel: GPUKernel) -> None:
        self.kernel = kernel
        self.kinds: list[tuple[np.dtype, type | None]] = []  # and what makes a number of a value; None of an array
        self.codes: list[str] = []
        self.sizes: tuple[int, ...] = ()
        for of_argument in kernel.signature:
            if isinstance(of_argument, types.Array):
                self.kinds.append((np.dtype(str(of_argument.dtype)), None))
                self.codes.append(_ARRAY)
                self.sizes += (8,) * _ARRAY_WORDS
            else:
                kind = np.dtype(str(of_argument))
                self.kinds.append((kind, float if kind.kind == "f" else int))
                self.codes.append(_PADDED[kind.name])
                self.sizes += (kind.itemsize,)
        self.words = bytearray(8 * len(self.sizes))
        start = np.frombuffer(self.words, np.uint64).ctypes.data
        self.places = np.arange(len(self.words) // 8, dtype=np.uint64) * np.uint64(8) + np.uint64(start)
        self._address = int(self.places.ctypes.data)
        self._parts: dict[tuple[int, int], tuple[struct.Struct, list[tuple[np.dtype, Any]]]] = {}

    def fill(self, arguments: tuple[Any, ...]) -> int:
        """Write the arguments, the last of which may be `Packed`; return the address of their addresses. Raises
        TypeError for a mismatch with the signature."""
        packed = arguments[-1] if arguments and type(arguments[-1]) is Packed else None
        given = arguments if packed is None else arguments[:-1]
        if len(given) != (len(self.kinds) if packed is None else packed.first):
            raise TypeError(f"{self.kernel.name}: {len(self.kinds)} arguments, got {len(given)}")
        layout, values = self._values(0, given)
        layout.pack_into(self.words, 0, *values)
        if packed is not None:
            self.words[layout.size :] = packed.words
        return self._address

    def packed(self, first: int, arguments: Sequence[Any]) -> Packed:
        """Return the arguments from number `first` to the last one as words. Raises TypeError as `fill`."""
        if first + len(arguments) != len(self.kinds):
            raise TypeError(f"{self.kernel.name}: {len(self.kinds) - first} arguments, got {len(arguments)}")
        layout, values = self._values(first, arguments)
        return Packed(first, layout.pack(*values))

    def _values(self, first: int, arguments: Sequence[Any]) -> tuple[struct.Struct, list[Any]]:
        """Return the format of the arguments from number `first` on, and the numbers to be written in it."""
        key = first, first + len(arguments)
        if key not in self._parts:
            part = slice(*key)
            self._parts[key] = struct.Struct("=" + "".join(self.codes[part])), self.kinds[part]
        layout, kinds = self._parts[key]
        values: list[Any] = []
        for value, (kind, number) in zip(arguments, kinds, strict=True):
            if number is not None:
                values.append(number(value))
                continue
            if value.dtype != kind or not value._c_contiguous:  # `flags` would take half the time of a launch
                raise TypeError(
                    f"{self.kernel.name}: a C-contiguous array of {kind} must be given, got {value.dtype} "
                    f"with strides {value.strides}"
                )
            size, itemsize = value.size, kind.itemsize
            values += (size, itemsize, value.data.ptr, size, itemsize)
        return layout, values


def load_module(source: str, key: str) -> ModuleType:
    """Return the module of generated source; `key` identifies its content. A key is run once per process."""
    name = f"nmt_{key}"
    with _loading:
        if name not in _loaded:
            _loaded[name] = _run(source, name)
        return _loaded[name]


_loading = forkable(RLock())
_loaded: dict[str, ModuleType] = {}
"""Modules that have run completely; `sys.modules` would also contain one that was interrupted."""


def _run(source: str, name: str) -> ModuleType:
    place = f"<{name}>"
    # For tracebacks, for `inspect.getsource`, and for the name of its code.
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
    module = ModuleType(name)
    sys.modules[name] = module  # Numba looks up functions there
    exec(compile(source, place, "exec"), vars(module))  # noqa: S102
    return module


class UnrecordedError(RuntimeError):
    """Something that a recording cannot contain."""


OLDEST = (8, 0)  # bfloat16 products
STATIC_SHARED = 48 * 1024  # more must be requested
LAST = 6  # operations that an error names


@dataclass(frozen=True)
class Packages:
    """The parts of a runtime: the modules `cupy` and `cuda.bindings.driver`, a function that loads cuBLAS, and the
    compiler of kernels for a capability."""

    cupy: Any
    driver: Any
    load_blas: Callable[[], Any]
    compile: Callable[[GPUKernel, tuple[int, int]], CompiledKernel]


class CupyRuntime:
    """The driver's first GPU. Arrays are `xp` arrays, C-contiguous unless stated otherwise; functions of `xp` submit
    their work in any thread as the methods do. Raises DeviceError if the GPU or its memory does not suffice.

    free_memory: bytes of the GPU's memory that must be free. packages: those installed, where None. All work of all
    threads goes to one stream, which the driver orders with the null stream; CuPy's work, too (see `_OwnStream`). It is
    done in the order of submission while the host goes on; `download` and `synchronize` wait.
    Recordings are made in another stream, so that other threads' work does not become part of them. Where NMT_GPU_WAIT
    is 1, the host waits for each launch, product and recording: one that fails is then named by its error.
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
        self._waits = os.environ.get("NMT_GPU_WAIT") == "1"
        self._lock, self._one_records = RLock(), Lock()
        self._pool = cupy.cuda.MemoryPool()
        cupy.cuda.set_allocator(self._allocate)
        self._of_thread = local()
        self.xp = _OwnStream(cupy, self.own_stream)
        self.stream = cupy.cuda.Stream(non_blocking=False)
        self.stream.__enter__()  # see `_queue`
        library = self.packages.load_blas()
        self._main, self._recorder = (
            _Queue(stream, Blas(library, stream.ptr, workspace.data.ptr), workspace, deque(maxlen=LAST))
            for stream in (self.stream, cupy.cuda.Stream(non_blocking=True))
            for workspace in (cupy.empty(WORKSPACE, np.uint8),)
        )
        self._functions: dict[GPUKernel, _Function] = {}

    def _queue(self) -> _Queue:
        """Return where this thread's work goes."""
        queue: _Queue | None = getattr(self._of_thread, "queue", None)
        if queue is None:
            self._cupy.cuda.runtime.setDevice(0)  # the driver's calls need a context, which a new thread has not
            # Entered and never left: after any other `with` CuPy goes back to it.
            self._main.stream.__enter__()
            queue = self._of_thread.queue = self._main
        return queue

    def own_stream(self) -> None:
        """Let operators of arrays, in this thread, submit their work as the methods do, until a call of others."""
        stream = self._queue().stream
        if self._cupy.cuda.get_current_stream() is not stream:
            stream.use()

    def launch(self, kernel: GPUKernel, grid: Size, *arguments: Any) -> None:
        """Run a kernel over `grid` blocks; an empty grid does nothing. Array arguments have the signature's element
        types and any shape, C-contiguous, and the kernel sees them flat; numbers are converted. The last argument may
        be what `packed` returned."""
        size = whole_size(grid)
        queue = self._queue()
        with self._lock:  # the memory of a kernel's arguments is used by all threads
            function = self._functions.get(kernel) or self._function(kernel)
            if 0 not in size:
                queue.last.append((kernel.name, *size))
                if error := function(size, queue.stream.ptr, arguments):
                    raise self._failure(error.name)
                self._wait(queue)

    def packed(self, kernel: GPUKernel, first: int, *arguments: Any) -> Packed:
        """Return the arguments from number `first` on, prepared for several launches; arrays must outlive them."""
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
        """Compute out [M, N] = a [M, K] @ b [K, N], added to the contents of out with `accumulate`. A transposed
        operand is given as [K, M] or [N, K]. float32 (sums and products in float32) or float64 throughout, or a and b
        bfloat16 numbers stored as uint16 and out float32."""
        queue = self._queue()
        with self._lock:
            queue.last.append(("product", a.rows, a.size, out.size))
            queue.blas.gemm(a, b, out, transpose_a, transpose_b, accumulate)
            self._wait(queue)

    def upload(self, array: np.ndarray) -> Any:
        """Return a copy on the device."""
        with self._errors():
            return self.xp.array(array, order="C")

    def download(self, array: Any) -> np.ndarray:
        """Return a copy on the host, after all submitted work is done."""
        xp = self.xp
        with self._errors():
            if not array._c_contiguous:  # `asnumpy` would make it so inside a `with` of its own
                array = xp.ascontiguousarray(array)
            return xp.asnumpy(array, stream=self.stream)

    def synchronize(self) -> None:
        """Wait for all submitted work; raises DeviceError for errors in it."""
        with self._errors():
            self.stream.synchronize()

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        """Return a callable that replays the launches of `function`, without calling it; nothing is launched yet.

        `function` may launch kernels and products on arrays at fixed addresses, or change them in place by CuPy, each
        of it done at least once before, and nothing else: no copy to or from the host; an allocation raises
        UnrecordedError. The recording exists as long as it is referenced.
        """
        self._queue()
        stream, last = self._recorder.stream, self._recorder.last
        with self._one_records, self._errors(), stream:
            try:
                self._of_thread.queue = self._recorder
                last.clear()
                stream.begin_capture()
                function()
            except BaseException:
                with suppress(self._cupy.cuda.runtime.CUDARuntimeError):  # the capture failed too: not the reason
                    stream.end_capture()
                raise
            else:
                graph = stream.end_capture()
                operation = "recording of", *last
            finally:
                self._of_thread.queue = self._main
        self.own_stream()  # after the `with`, inside of a caller's, the current stream is the caller's

        def replay() -> None:
            self._main.last.append(operation)
            graph.launch(self.stream)
            self._wait(self._main)

        return replay

    def _allocate(self, size: int) -> Any:
        queue = getattr(self._of_thread, "queue", None)
        if queue is not None and queue is not self._main:
            raise UnrecordedError("an array that is allocated")
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

    def _wait(self, queue: _Queue) -> None:
        if self._waits and queue is self._main:
            self.synchronize()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise DeviceError for errors of earlier launches, which CUDA reports when the host waits."""
        try:
            yield
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            raise self._failure(error) from error

    def _failure(self, error: object) -> DeviceError:
        """Return the error of something that was submitted before."""
        last = ", ".join(_named(operation) for operation in self._main.last)
        how = "the last one failed" if self._waits else "set NMT_GPU_WAIT=1 to learn which one failed"
        return DeviceError(
            f"{self.gpu_name}: everything launched must succeed, got {error} after {last or 'no launch'}; {how}, "
            "run `make test-gpu` on this machine"
        )


class _OwnStream:
    """CuPy, whose current stream is the runtime's whenever a function is taken from it, in whatever thread.

    A thread's current stream is its own: the null stream at first; another one in a `with`, in `ndarray.get` as well,
    or after `use`; and what `use` has made current is forgotten at the end of the next `with` (CuPy's own
    test_mix_use_context). Operations in two streams have no order.
    """

    def __init__(self, cupy: Any, own_stream: Callable[[], None]) -> None:
        self._cupy, self._own_stream = cupy, own_stream

    def __getattr__(self, name: str) -> Any:
        self._own_stream()
        return getattr(self._cupy, name)


class _Queue(NamedTuple):
    """A stream, a cuBLAS handle for it, the handle's workspace, and the last operations: names with sizes."""

    stream: Any
    blas: Blas
    workspace: Any
    last: deque[tuple[Any, ...]]


def _named(operation: tuple[Any, ...]) -> str:
    name, *parts = operation
    if parts and isinstance(parts[0], tuple):
        return f"{name} ({', '.join(map(_named, parts))})"
    return f"{name} {'x'.join(map(str, parts))}".rstrip()


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
            if error := driver.cuFuncSetAttribute(self.code, attribute, kernel.shared_bytes)[0]:
                raise runtime._failure(error.name)
        self.parameters = Parameters(kernel)
        self.fixed = *kernel.block, kernel.shared_bytes
        if self.parameters.sizes != compiled.parameters:
            raise RuntimeError(f"{kernel.name}: compiled for parameters of {compiled.parameters} bytes")

    def __call__(self, grid: tuple[int, int, int], stream: int, arguments: tuple[Any, ...]) -> Any:
        """Launch; return the driver's error, which is false where there is none."""
        places = self.parameters.fill(arguments)
        if self.kernel.cooperative:
            (error,) = self.driver.cuLaunchCooperativeKernel(self.code, *grid, *self.fixed, stream, places)
        else:
            (error,) = self.driver.cuLaunchKernel(self.code, *grid, *self.fixed, stream, places, 0)
        return error


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
