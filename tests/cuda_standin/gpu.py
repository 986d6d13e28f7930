"""A GPU that is none, below CuPy and the driver: memory by address, streams, graphs, launches that `tests/ptx` runs."""

from __future__ import annotations

import ctypes
import random
import struct
import threading
import weakref
from bisect import bisect_right, insort
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba.core import types

from nmt.rnn.kernels.cuda.machine_code.compile import CompiledKernel, Resources
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel

GUARD = 512
# Two bytes of memory that nobody has written: NaN in each type of float, or finite and huge, so that comparisons are as
# those of numbers. As integers neither is an index, nor -1, which means something to some kernels.
POISONS = (b"\xff\x7f", b"\x7f\x7f")


class StandInError(AssertionError):
    """Something that a real GPU, its driver or CuPy would refuse, or do wrongly without a word."""


class CUDARuntimeError(RuntimeError):
    """`cupy.cuda.runtime.CUDARuntimeError`."""


class OutOfMemoryError(MemoryError):
    """`cupy.cuda.memory.OutOfMemoryError`."""


class Block:
    """A piece of memory at a fixed address, poisoned; it belongs to the stream on which it was allocated. Freed memory
    is used again for blocks of the same size, as CuPy's pool does."""

    def __init__(self, gpu: Gpu, size: int, stream: Stream) -> None:
        self.size, self.stream = size, stream
        rounded = -(-size // GUARD) * GUARD
        raw = gpu.take(rounded)
        start = raw.ctypes.data
        self.ptr = -(-start // GUARD) * GUARD
        self.bytes = raw[self.ptr - start : self.ptr - start + size]
        if not gpu.idle:
            raw.view(np.uint16)[:] = np.frombuffer(gpu.random.choice(POISONS), np.uint16)
        gpu.add(self)
        weakref.finalize(self, gpu.gone.append, (self.ptr, raw, rounded))


class Stream:
    """`cupy.cuda.Stream`. Work is done at once, except while a graph is recorded."""

    def __init__(self, gpu: Gpu, name: str = "null", **options: bool) -> None:
        self.gpu, self.name, self.options = gpu, name, options
        self.captured: list[Callable[[Stream], None]] | None = None
        self.ptr = id(self)
        gpu.streams[self.ptr] = self

    def use(self) -> Stream:
        self.gpu.current.stream = self
        return self

    def __enter__(self) -> Stream:
        self.gpu.entered.append(self)
        return self.use()

    def __exit__(self, *error: Any) -> None:
        """Go back to the stream that was entered before; one that `use` has made current is forgotten, as by CuPy."""
        self.gpu.entered.pop()
        self.gpu.entered[-1].use()

    def synchronize(self) -> None:
        self.gpu.waits += 1
        if self.captured is not None:
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported")
        self.gpu.report()

    def begin_capture(self) -> None:
        if self is self.gpu.null:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        if self.captured is not None:
            raise CUDARuntimeError("cudaErrorIllegalState: the stream is capturing already")
        self.captured = []

    def end_capture(self) -> Graph:
        captured, self.captured = self.captured, None
        if captured is None or self.gpu.breaks_capture:
            raise CUDARuntimeError("cudaErrorStreamCaptureInvalidated")
        return Graph(self.gpu, captured)

    def _do(self, work: Callable[[Stream], None]) -> None:
        """Do work that was submitted to this stream, or record it."""
        if self.captured is not None:
            self.captured.append(work)
        else:
            work(self)


class Graph:
    """`cupy.cuda.Graph`."""

    def __init__(self, gpu: Gpu, works: list[Callable[[Stream], None]]) -> None:
        self.gpu, self.works = gpu, works

    def launch(self, stream: Stream) -> None:
        self.gpu.counts["graph"] += 1
        if stream.captured is not None:
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported: a graph within a graph")
        for work in self.works:
            work(stream)


class Gpu:
    """The state of one GPU. `counts`: launches, products and graphs; `waits`: how often the host waited."""

    name, capability, multiprocessors, shared = b"stand-in", (9, 0), 4, 232448
    free, memory = 70 << 30, 80 << 30

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.waits = 0
        self.streams: dict[int, Stream] = {}
        self.null = Stream(self)
        self.current = threading.local()
        self.error: Exception | None = None  # reported when the host waits
        self.breaks_capture = False
        self.before_launch: Callable[[GPUKernel], None] = lambda kernel: None
        self.idle = False  # count launches and do nothing; memory is zero
        self.kernels: list[GPUKernel] = []
        self.entries: list[str] = []  # the name of each one's code
        self.random = random.Random(0)
        self.lock = threading.RLock()
        self.gone: deque[tuple[int, np.ndarray, int]] = deque()  # blocks that nothing refers to any more
        self.freed: defaultdict[int, list[np.ndarray]] = defaultdict(list)
        self._starts: list[int] = []
        self._blocks: dict[int, weakref.ref[Block]] = {}

    # ------------------------------------------------------------ memory

    @property
    def stream(self) -> Stream:
        """This thread's current stream."""
        return getattr(self.current, "stream", self.null)

    @property
    def entered(self) -> list[Stream]:
        """This thread's streams of `with`, the innermost last."""
        found: list[Stream] = vars(self.current).setdefault("entered", [self.null])
        return found

    def report(self) -> None:
        """Raise the error of earlier work, which CUDA reports when the host waits, and in calls that need not wait."""
        error, self.error = self.error, None
        if error is not None:
            raise error

    def check_context(self, what: str) -> None:
        """The driver's calls need a context, which a thread has after it has chosen a device."""
        if not hasattr(self.current, "device"):
            raise StandInError(f"{what}: CUDA_ERROR_INVALID_CONTEXT, this thread has chosen no device")

    def add(self, block: Block) -> None:
        start = block.ptr
        with self.lock:
            insort(self._starts, start)
            self._blocks[start] = weakref.ref(block)

    def remove(self, start: int) -> None:
        self._starts.remove(start)
        del self._blocks[start]

    def take(self, rounded: int) -> np.ndarray:
        """Freed memory of this size, or new memory. Blocks that are gone are removed here alone: Python collects
        garbage between any two lines, while another method looks for a block."""
        with self.lock:
            while self.gone:
                start, raw, size = self.gone.popleft()
                self.remove(start)
                self.freed[size].append(raw)
            free = self.freed[rounded]
            return free.pop() if free else np.zeros(rounded + 2 * GUARD, np.uint8)

    def bytes_at(self, start: int, size: int, what: str, stream: Stream) -> np.ndarray:
        """Memory that work in a stream reads or writes."""
        with self.lock:
            place = bisect_right(self._starts, start) - 1
            block = self._blocks[self._starts[place]]() if place >= 0 else None
        if block is None or start + size > block.ptr + block.size:
            raise StandInError(f"{what}: {size} bytes at {start:#x} are not allocated")
        self.check_stream(block, stream, what)
        return block.bytes[start - block.ptr : start - block.ptr + size]

    @staticmethod
    def check_stream(block: Block, stream: Stream, what: str) -> None:
        """Work in two streams has no order."""
        if block.stream is not stream:
            raise StandInError(f"{what}: memory of the stream {block.stream.name} is used in {stream.name}")

    # ------------------------------------------------------------ launches

    def compile(self, kernel: GPUKernel, capability: tuple[int, int]) -> CompiledKernel:
        """What stands for machine code: a kernel's number. The sizes of its parameters are those of Numba's format,
        which `test_compile.py` compares with compiled code."""
        self.kernels.append(kernel)
        self.entries.append(kernel.name)
        sizes: tuple[int, ...] = ()
        for kind in kernel.signature:
            sizes += (8,) * 7 if isinstance(kind, types.Array) else (kind.bitwidth // 8,)
        return CompiledKernel(kernel.name, sizes, Resources(32, 0, 0, 0), str(len(self.kernels) - 1).encode())

    def driver(self) -> Any:
        """`cuda.bindings.driver`."""
        attributes = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)

        def plain(f: int, *given: Any) -> tuple[int]:
            *sizes, shared, stream, places, extra = given
            return self._launch(f, tuple(sizes), shared, stream, places, cooperative=False)

        def cooperative(f: int, *given: Any) -> tuple[int]:
            *sizes, shared, stream, places = given
            return self._launch(f, tuple(sizes), shared, stream, places, cooperative=True)

        launches = {"cuLaunchKernel": plain, "cuLaunchCooperativeKernel": cooperative}
        launches["cuFuncSetAttribute"] = lambda function, attribute, value: (0,)
        return SimpleNamespace(CUfunction=int, CUfunction_attribute=attributes, **launches)

    def _launch(
        self, f: int, sizes: tuple[int, ...], shared: int, stream: int, places: int, *, cooperative: bool
    ) -> tuple[int]:
        kernel, grid = self.kernels[f], sizes[:3]
        self.check_context(kernel.name)
        self.before_launch(kernel)
        if sizes[3:] != kernel.block or shared != kernel.shared_bytes or cooperative != kernel.cooperative:
            raise StandInError(f"{kernel.name}: launched with blocks of {sizes[3:]} and {shared} bytes")
        if not all(sizes) or grid[0] >= 1 << 31 or max(grid[1:]) >= 1 << 16:
            raise StandInError(f"{kernel.name}: the driver refuses a grid of {grid}")
        if cooperative and grid[0] * grid[1] * grid[2] > self.multiprocessors:
            raise StandInError(f"{kernel.name}: a cooperative launch of {grid} blocks does not fit")
        if self.streams[stream].captured is None:
            self.counts["cooperative" if cooperative else "kernel"] += 1
        if self.idle:
            return (0,)
        values = _given(kernel, places)  # copied now, as the driver does

        def work(at: Stream) -> None:
            arguments = [self._argument(kernel, *pair, at) for pair in zip(kernel.signature, values, strict=True)]
            with self.lock:
                self.run(f, grid, values, arguments)

        self.streams[stream]._do(work)
        return (0,)

    def run(self, number: int, grid: tuple[int, int, int], values: list[Any], arguments: list[Any]) -> None:
        """Run a kernel when its turn in the stream has come. values: its parameters as they were packed; arguments:
        arrays of the memory that they name, and numbers."""
        raise StandInError(f"{self.kernels[number].name}: kernels run in tests/ptx")

    def _argument(self, kernel: GPUKernel, kind: Any, value: Any, stream: Stream) -> Any:
        if not isinstance(kind, types.Array):
            return value
        meminfo, parent, count, itemsize, start, length, stride = value
        dtype = np.dtype(str(kind.dtype))
        if (meminfo, parent, itemsize, length, stride) != (0, 0, dtype.itemsize, count, dtype.itemsize):
            raise StandInError(f"{kernel.name}: an array of {kind.dtype} is described as {value}")
        if not count:
            return np.empty(0, dtype)
        if start % dtype.itemsize:
            raise StandInError(f"{kernel.name}: {kind.dtype} at the odd address {start:#x}")
        return self.bytes_at(start, count * dtype.itemsize, kernel.name, stream).view(dtype)


CODES = {"int32": "i", "uint32": "I", "float32": "f", "int64": "q", "uint64": "Q", "float64": "d"}


def _given(kernel: GPUKernel, places: int) -> list[Any]:
    """The values at the addresses of a kernel's parameters."""
    pointers = ctypes.cast(places, ctypes.POINTER(ctypes.c_uint64))
    at, found = 0, []
    for kind in kernel.signature:
        codes = "qqqqQqq" if isinstance(kind, types.Array) else CODES[str(kind)]
        words = [
            struct.unpack(f"={code}", ctypes.string_at(pointers[at + n], struct.calcsize(code)))[0]
            for n, code in enumerate(codes)
        ]
        found.append(tuple(words) if len(codes) > 1 else words[0])
        at += len(codes)
    return found
