"""The packages of a GPU's runtime with CuPy's own arrays and nothing behind them, for the host's time without a GPU.

Arrays, their views and their pieces are CuPy's; allocation takes addresses that lie in no memory. Operations on arrays,
launches, products and graphs are counted and do nothing.
"""

from __future__ import annotations

import ctypes
from collections import Counter, defaultdict
from types import SimpleNamespace
from typing import Any

import cupy
import numpy as np
from cupy.cuda import memory
from numba.core import types

from nmt.rnn.kernels.cuda.machine_code.compile import CompiledKernel, Resources
from nmt.rnn.kernels.cuda.machine_code.runtime import Packages

_GUARD = 512
counts: Counter[str] = Counter()
_free: defaultdict[int, list[int]] = defaultdict(list)
_top = [1 << 40]


class _Piece:
    """An address, free again when nothing refers to it."""

    def __init__(self, start: int, size: int) -> None:
        self.start, self.size = start, size

    def __del__(self, free: Any = _free) -> None:
        free[self.size].append(self.start)


def _malloc(size: int) -> Any:
    size = -(-size // _GUARD) * _GUARD
    if not _free[size]:
        _free[size].append(_top[0])
        _top[0] += size + _GUARD
    start = _free[size].pop()
    return memory.MemoryPointer(memory.UnownedMemory(start, size, _Piece(start, size), device_id=0), 0)


def _shape(value: Any) -> tuple[int, ...]:
    return value.shape if isinstance(value, cupy.ndarray) else np.shape(value)


class _Array(cupy.ndarray):
    """An array on which operations do nothing."""

    def _operated(self, other: Any) -> Any:
        counts["CuPy"] += 1
        return _Array(np.broadcast_shapes(self.shape, _shape(other)), self.dtype)

    def _changed(self, other: Any) -> Any:
        counts["CuPy"] += 1
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        counts["CuPy"] += 1


for _name in ("add", "sub", "mul", "truediv"):
    setattr(_Array, f"__{_name}__", _Array._operated)
    setattr(_Array, f"__r{_name}__", _Array._operated)
    setattr(_Array, f"__i{_name}__", _Array._changed)


class _CuPy:
    """The functions of `cupy` that an update of a translator uses."""

    ndarray = cupy.ndarray

    def __init__(self) -> None:
        def of_kind(name: str, **parts: Any) -> type:
            return type(name, (), {key: staticmethod(part) for key, part in parts.items()})

        def launch(stream: Any) -> None:
            counts["replays"] += 1

        graph = of_kind("Graph", launch=launch)
        stream: Any = of_kind("Stream", synchronize=lambda: None, begin_capture=lambda: None, end_capture=graph)
        stream.__init__ = lambda self, non_blocking: setattr(self, "ptr", id(self))
        stream.use = lambda self: self
        module = of_kind("Module", load=lambda cubin: None, get_function=lambda name: SimpleNamespace(ptr=1))
        runtime = SimpleNamespace(
            CUDARuntimeError=RuntimeError,
            cudaDevAttrMultiProcessorCount=132,
            cudaDevAttrMaxSharedMemoryPerBlockOptin=232448,
            setDevice=lambda device: None,
            getDeviceCount=lambda: 1,
            getDeviceProperties=lambda device: {"name": b"none", "major": 9, "minor": 0},
            deviceGetAttribute=lambda value, device: value,
            memGetInfo=lambda: (70 << 30, 80 << 30),
        )
        self.cuda = SimpleNamespace(
            runtime=runtime,
            MemoryPool=lambda: SimpleNamespace(malloc=_malloc, used_bytes=lambda: 0),
            set_allocator=cupy.cuda.set_allocator,
            Stream=stream,
            function=SimpleNamespace(Module=module),
            memory=SimpleNamespace(OutOfMemoryError=MemoryError),
        )

    def empty(self, shape: Any, dtype: Any) -> Any:
        return _Array(shape, dtype)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        counts["CuPy"] += 1
        return _Array(shape, dtype)

    def zeros_like(self, a: Any) -> Any:
        return self.zeros(a.shape, a.dtype)

    def array(self, obj: Any, dtype: Any = None, order: str = "C") -> Any:
        counts["copies"] += 1
        return _Array(np.shape(obj), dtype or obj.dtype)

    def ascontiguousarray(self, a: Any) -> Any:
        return a if a.flags.c_contiguous else self.zeros_like(a)

    def asnumpy(self, a: Any, stream: Any = None) -> np.ndarray:
        return np.ones(a.shape, a.dtype)

    def stack(self, tup: Any, axis: int = 0) -> Any:
        given = list(tup)
        return self.zeros((len(given), *given[0].shape), given[0].dtype)

    def concatenate(self, tup: Any, axis: int, out: Any) -> None:
        counts["CuPy"] += 1


class _Blas:
    """A cuBLAS whose products are a function of libc that returns 0."""

    def __init__(self) -> None:
        self._nothing = ctypes.CDLL(None).abs

    def __getattr__(self, name: str) -> Any:
        return lambda *given: 0

    def cublasGemmEx(self, *given: Any) -> int:  # noqa: N802
        counts["products"] += 1
        return int(self._nothing(*given))  # of the handle, which is 0


def packages() -> Packages:
    """Return what a runtime is made of."""

    def plain(*given: Any) -> tuple[int]:
        counts["kernels"] += 1
        return (0,)

    def cooperative(*given: Any) -> tuple[int]:
        counts["persistent"] += 1
        return (0,)

    def compiled(kernel: Any, capability: Any) -> CompiledKernel:
        sizes: tuple[int, ...] = ()
        for kind in kernel.signature:
            sizes += (8,) * 7 if isinstance(kind, types.Array) else (kind.bitwidth // 8,)
        return CompiledKernel(kernel.name, sizes, Resources(32, 0, 0, 0), b"")

    driver = SimpleNamespace(
        CUfunction=int,
        CUfunction_attribute=SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8),
        cuFuncSetAttribute=lambda *given: (0,),
        cuLaunchKernel=plain,
        cuLaunchCooperativeKernel=cooperative,
    )
    return Packages(_CuPy(), driver, _Blas, compiled)
